package subjects

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// root begins every subject of protocol version 1. Another version will have
// another root.
const root = "bcp.v1."

// expired is used in place of a key's day.
const expired = "expired"

// none is used in an audit subject for an event without a channel (PROTOCOL
// P11.1). It is not a valid agent name.
const none = "_"

// journal is the last part of the journal's subject.
const journal = "0"

const (
	maxSubject = 512 // longer than the longest subject of the builders
	maxEvent   = 64
	maxWord    = 64 // of a grant and a tool

	// MaxAttempt is the greatest number of a sending in a reply subject.
	MaxAttempt = 999_999_999
)

// ErrSubject says that a text is not a subject of the mesh. It never quotes it.
var ErrSubject = errors.New("not a subject of the mesh")

// Kind is the purpose of a subject. The zero value is invalid; the numbers are
// frozen.
type Kind uint8

// The kinds, in the order of the table in the architecture.
const (
	KindAsk      Kind = 1  // Controller to gateway
	KindQuery    Kind = 2  // gateway to Reader
	KindPush     Kind = 3  // Reader to gateway
	KindDeliver  Kind = 4  // gateway to agent
	KindReply    Kind = 5  // agent to gateway: an answer, an acknowledgement
	KindSession  Kind = 6  // Controller to gateway
	KindApproval Kind = 7  // Approver to gateway
	KindCommit   Kind = 8  // the journal
	KindKey      Kind = 9  // sealing keys of the journal
	KindAudit    Kind = 10 // projection
	KindLedger   Kind = 11 // projection
	KindControl  Kind = 12 // operator to gateway
	KindAlert    Kind = 13 // gateway to people
	KindEgress   Kind = 14 // keeper to gateway
	KindRun      Kind = 15 // requester to gateway
	KindPlan     Kind = 16 // gateway to planner
	KindSubplan  Kind = 17 // gateway to sub-planner
	KindCall     Kind = 18 // dispatcher to tool service
	KindRole     Kind = 19 // agent of another organisation to gateway
	KindUsage    Kind = 20 // keeper to gateway
)

var kindWords = [...]string{
	"", "ask", "query", "push", "deliver", "reply", "session", "approval",
	"commit", "key", "audit", "ledger", "control", "alert", "egress",
	"run", "plan", "subplan", "call", "role", "usage",
}

func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindWords) {
		return "invalid"
	}
	return kindWords[k]
}

// Verb is a request of an Approver to the gateway. The zero value is invalid.
type Verb string

// The verbs of an Approver.
const (
	VerbList    Verb = "list"
	VerbGet     Verb = "get"
	VerbApprove Verb = "approve"
	VerbReject  Verb = "reject"
	VerbEdit    Verb = "edit"
	VerbEndorse Verb = "endorse"
	VerbRevoke  Verb = "revoke"
)

// Verbs returns the verbs, sorted.
func Verbs() []Verb {
	return []Verb{VerbApprove, VerbEdit, VerbEndorse, VerbGet, VerbList, VerbReject, VerbRevoke}
}

// Sealed is what a sealing key is for. The zero value is invalid.
type Sealed string

// What has its own sealing keys.
const (
	SealedPayload Sealed = "payload"
	SealedRaw     Sealed = "raw"
)

// Subject is one subject of the mesh in parts. Only the fields of its Kind are
// set; the rest are zero. Subjects compare with ==.
type Subject struct {
	Kind Kind

	// Controller and Reader: ask, query, push, audit, ledger, key; only Controller:
	// session. In an audit subject either may be empty, in a key's both.
	Controller, Reader bcp.AgentName
	Subscription       bcp.SubscriptionID // push

	Role    bcp.Role      // deliver, reply: RoleController or RoleReader; reply: RolePlanner, RoleSubplanner or RoleTool, too
	Agent   bcp.AgentName // deliver, reply, approval, egress, usage, run, plan, subplan; call: the service of the tool; role: who asks
	Peer    bcp.AgentName // deliver: an agent or bcp.Gateway; role: the agent in question
	ID      string        // reply: the id of a query, delivery, plan request or call
	Attempt int           // reply: 0 for the first sending, at most MaxAttempt

	Verb  Verb   // approval
	Event string // audit, alert: the kind of event; control: the act; a-z, 0-9, _ and -, 1 to 64, a letter first

	Kernel bcp.AgentName // run, plan, subplan, call
	Grant  string        // run: the name of a grant, 1 to 64 letters, digits, _ and -
	Tool   string        // call: 1 to 64 letters, digits and _, a letter or _ first

	Sealed Sealed // key
	Day    string // key: 2006-01-02, in UTC
	Expiry bool   // key: the day up to which all keys of a kind are destroyed; there is no Day
}

// String returns the subject as text, or the empty string if a part is invalid,
// so that an invalid Subject can never be published or subscribed to.
func (s Subject) String() string {
	switch s.Kind {
	case KindAsk, KindLedger:
		return join(s.Kind, agent(s.Controller), agent(s.Reader))
	case KindQuery:
		return join(s.Kind, agent(s.Reader), agent(s.Controller))
	case KindPush:
		return join(s.Kind, agent(s.Reader), agent(s.Controller), subscription(s.Subscription))
	case KindDeliver:
		return join(s.Kind, role(s.Role), agent(s.Agent), peer(s.Peer))
	case KindReply:
		return s.reply()
	case KindSession:
		return join(s.Kind, agent(s.Controller))
	case KindApproval:
		return join(s.Kind, agent(s.Agent), verb(s.Verb))
	case KindEgress, KindUsage:
		return join(s.Kind, agent(s.Agent))
	case KindRole:
		return join(s.Kind, agent(s.Agent), agent(s.Peer))
	case KindRun:
		return join(s.Kind, agent(s.Agent), agent(s.Kernel), grant(s.Grant))
	case KindPlan, KindSubplan:
		return join(s.Kind, agent(s.Agent), agent(s.Kernel))
	case KindCall:
		return join(s.Kind, agent(s.Agent), tool(s.Tool), agent(s.Kernel))
	case KindCommit:
		return join(s.Kind, journal)
	case KindAudit:
		return join(s.Kind, agentOrNone(s.Controller), agentOrNone(s.Reader), event(s.Event))
	case KindControl, KindAlert:
		return join(s.Kind, event(s.Event))
	case KindKey:
		if s.Expiry && s.Controller == "" && s.Reader == "" && s.Day == "" {
			return join(s.Kind, none, none, sealed(s.Sealed), expired)
		}
		if !s.Expiry && (s.Controller == "") == (s.Reader == "") {
			return join(s.Kind, agentOrNone(s.Controller), agentOrNone(s.Reader), sealed(s.Sealed), day(s.Day))
		}
	}
	return ""
}

func (s Subject) reply() string {
	if s.Attempt == 0 {
		return join(s.Kind, answering(s.Role), agent(s.Agent), id(s.ID))
	}
	attempt := strconv.Itoa(s.Attempt)
	return join(s.Kind, answering(s.Role), agent(s.Agent), id(s.ID), valid(attempt, s.Attempt > 0 && s.Attempt <= MaxAttempt))
}

// Parse parses a subject. It accepts exactly what the builders make, and
// returns [ErrSubject] for everything else, including wildcards.
func Parse(subject string) (Subject, error) {
	if len(subject) > maxSubject || !strings.HasPrefix(subject, root) {
		return Subject{}, ErrSubject
	}
	var tokens [6]string
	n := 0
	for token := range strings.SplitSeq(subject[len(root):], ".") {
		if n == len(tokens) {
			return Subject{}, ErrSubject
		}
		tokens[n] = token
		n++
	}
	s, ok := fill(tokens[0], tokens[1:n])
	// Building the subject again refuses every invalid part and every spelling
	// except the canonical one.
	if !ok || s.String() != subject {
		return Subject{}, ErrSubject
	}
	return s, nil
}

// fill puts the tokens after the kind into their fields, unchecked.
func fill(kind string, t []string) (Subject, bool) {
	var s Subject
	for k := KindAsk; k <= KindUsage; k++ {
		if kindWords[k] == kind {
			s.Kind = k
		}
	}
	width := len(t)
	switch {
	case (s.Kind == KindAsk || s.Kind == KindLedger) && width == 2:
		s.Controller, s.Reader = bcp.AgentName(t[0]), bcp.AgentName(t[1])
	case s.Kind == KindQuery && width == 2:
		s.Reader, s.Controller = bcp.AgentName(t[0]), bcp.AgentName(t[1])
	case s.Kind == KindPush && width == 3:
		s.Reader, s.Controller = bcp.AgentName(t[0]), bcp.AgentName(t[1])
		s.Subscription = bcp.SubscriptionID(t[2])
	case s.Kind == KindDeliver && width == 3:
		s.Role, s.Agent, s.Peer = parseRole(t[0]), bcp.AgentName(t[1]), bcp.AgentName(t[2])
	case s.Kind == KindReply && (width == 3 || width == 4):
		s.Role, s.Agent, s.ID = parseRole(t[0]), bcp.AgentName(t[1]), t[2]
		if width == 4 {
			s.Attempt = parseNumber(t[3])
		}
	case s.Kind == KindSession && width == 1:
		s.Controller = bcp.AgentName(t[0])
	case s.Kind == KindApproval && width == 2:
		s.Agent, s.Verb = bcp.AgentName(t[0]), Verb(t[1])
	case (s.Kind == KindEgress || s.Kind == KindUsage) && width == 1:
		s.Agent = bcp.AgentName(t[0])
	case s.Kind == KindRole && width == 2:
		s.Agent, s.Peer = bcp.AgentName(t[0]), bcp.AgentName(t[1])
	case s.Kind == KindRun && width == 3:
		s.Agent, s.Kernel, s.Grant = bcp.AgentName(t[0]), bcp.AgentName(t[1]), t[2]
	case (s.Kind == KindPlan || s.Kind == KindSubplan) && width == 2:
		s.Agent, s.Kernel = bcp.AgentName(t[0]), bcp.AgentName(t[1])
	case s.Kind == KindCall && width == 3:
		s.Agent, s.Tool, s.Kernel = bcp.AgentName(t[0]), t[1], bcp.AgentName(t[2])
	case s.Kind == KindCommit && width == 1 && t[0] == journal:
	case s.Kind == KindAudit && width == 3:
		s.Controller, s.Reader, s.Event = unlessNone(t[0]), unlessNone(t[1]), t[2]
	case (s.Kind == KindControl || s.Kind == KindAlert) && width == 1:
		s.Event = t[0]
	case s.Kind == KindKey && width == 4:
		s.Controller, s.Reader, s.Sealed = unlessNone(t[0]), unlessNone(t[1]), Sealed(t[2])
		if s.Expiry = t[3] == expired; !s.Expiry {
			s.Day = t[3]
		}
	default:
		return Subject{}, false
	}
	return s, true
}

// join returns the empty string if a token is empty.
func join(k Kind, tokens ...string) string {
	if slices.Contains(tokens, "") {
		return ""
	}
	return root + kindWords[k] + "." + strings.Join(tokens, ".")
}

// Each token function returns the part's text, or the empty string if the part
// is invalid.

func valid[T ~string](text T, is bool) string {
	if !is {
		return ""
	}
	return string(text)
}

func agent(name bcp.AgentName) string {
	_, err := bcp.ParseAgentName(string(name))
	return valid(name, err == nil)
}

func agentOrNone(name bcp.AgentName) string {
	if name == "" {
		return none
	}
	return agent(name)
}

func peer(name bcp.AgentName) string {
	if name == bcp.Gateway {
		return string(name)
	}
	return agent(name)
}

func subscription(id bcp.SubscriptionID) string {
	_, err := bcp.ParseSubscriptionID(string(id))
	return valid(id, err == nil)
}

// id covers query and delivery ids, which have one syntax (PROTOCOL P1.1).
func id(s string) string {
	_, err := bcp.ParseQueryID(s)
	return valid(s, err == nil)
}

const (
	upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
	letters              = upper + lower + "_"
)

// isOf reports whether a text has 1 to so many characters, the first one of first, and all of all.
func isOf(s string, most int, first, all string) bool {
	return len(s) >= 1 && len(s) <= most && strings.Contains(first, s[:1]) && strings.Trim(s, all) == ""
}

// grant and tool accept the same names as package kernel.
func grant(name string) string {
	return valid(name, isOf(name, maxWord, letters+digits+"-", letters+digits+"-"))
}

func tool(name string) string { return valid(name, isOf(name, maxWord, letters, letters+digits)) }

func event(s string) string { return valid(s, isOf(s, maxEvent, lower, lower+digits+"_-")) }

// answering is role of who answers the gateway.
func answering(r bcp.Role) string {
	return valid(r.String(), r == bcp.RolePlanner || r == bcp.RoleSubplanner || r == bcp.RoleTool || role(r) != "")
}

func role(r bcp.Role) string {
	return valid(r.String(), r == bcp.RoleController || r == bcp.RoleReader)
}

func verb(v Verb) string { return valid(v, slices.Contains(Verbs(), v)) }

func sealed(s Sealed) string { return valid(s, s == SealedPayload || s == SealedRaw) }

func day(s string) string {
	t, err := time.Parse(time.DateOnly, s)
	return valid(s, err == nil && t.Format(time.DateOnly) == s)
}

func parseRole(token string) bcp.Role {
	var r bcp.Role
	if err := r.UnmarshalText([]byte(token)); err != nil {
		return 0
	}
	return r
}

// parseNumber returns -1, which no builder accepts, if the token is not a number.
func parseNumber(token string) int {
	n, err := strconv.ParseUint(token, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

func unlessNone(token string) bcp.AgentName {
	if token == none {
		return ""
	}
	return bcp.AgentName(token)
}
