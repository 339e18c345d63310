package conformance

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Seen is what was observed of an agent in its own running mesh: from the other
// end of one of its channels, and in the audit if Audited.
type Seen struct {
	Role  bcp.Role      // of the agent under test
	Agent bcp.AgentName // the agent under test
	Peer  bcp.AgentName // the other end of the channel
	// Questions are the questions to a Reader, including unasked ones.
	Questions []Question
	// Audited says that Records are all records of the mesh meanwhile, of
	// everybody, in order. The consequences of the first Waited of them were
	// waited for.
	Audited bool
	Records []bcp.Decision
	Waited  int
}

// Question is one query for a Reader, through its gateway.
type Question struct {
	Category bcp.Category
	// Query is empty if nothing was asked, and Why is the reason.
	Query bcp.QueryID
	Why   string
	// Delivery is the result; nil for none.
	Delivery *bcp.Delivery
}

// SpecOf returns the question to a Reader in a category.
func SpecOf(category bcp.Category) bcp.Spec { return specs[category] }

// Judge returns the checklist of an agent that was observed in its own mesh. A
// check that cannot be decided from there is NotSeen, with the reason, and
// never Passed.
func Judge(s Seen) Report {
	l := newChecklist(s.Role, func(Check) {})
	judge, reasons := s.judgeController, controllerReasons
	if s.Role == bcp.RoleReader {
		judge, reasons = s.judgeReader, readerReasons
	}
	arrived := judge(&l)
	return l.report(arrived, func(rule Rule) Check {
		reason, ok := reasons[rule.ID]
		if !ok {
			reason = "only the audit has it"
		}
		return Check{rule, NotSeen, reason}
	})
}

// Why something cannot be seen from the other end of the channel, even in the
// audit.
const (
	notSent         = "a gateway sends nothing of the kind"
	notSentAgain    = "a gateway sends it again only to those who were away"
	notRecorded     = "a mesh does not record it"
	notDisconnected = "it is not disconnected"
)

var readerReasons = map[string]string{
	readerActive: notRecorded, readerAgain: notSentAgain, readerResent: notSentAgain, readerResults: notRecorded,
	readerForeign: notSent, readerOther: notSent, readerController: notSent, readerUnknown: notSent, readerMalformed: notSent,
	readerReturns: notDisconnected, readerLater: notSent, readerNames: "no answer was let through", readerEncoding: "no answer was let through",
}

var controllerReasons = map[string]string{
	controllerAgain: notSentAgain, controllerOutcomes: "its Reader cannot bring them all about", controllerHeld: "its Reader cannot bring it about",
	controllerForeign: notSent, controllerOther: notSent, controllerSender: notSent, controllerMalformed: notSent,
	controllerReturns: notDisconnected, controllerPatience: notRecorded, controllerLater: notSent,
}

// judgeReader reports whether the Reader answered anything.
func (s *Seen) judgeReader(l *checklist) (answered bool) {
	ids := map[bcp.Category]string{1: readerCategory1, 2: readerCategory2, 3: readerCategory3}
	for _, q := range s.Questions {
		result, detail := q.judge()
		rejected, again, over := s.rejections(q.Query)
		if rejected > 0 {
			result, detail = Failed, "an answer was rejected"
		}
		l.decide(ids[q.Category], result, detail)
		// The gateway accepts only an answer that names its query, in the encoding
		// of the definition.
		if taken := q.taken(); taken {
			answered = true
			l.decide(readerNames, Passed, "")
			l.decide(readerEncoding, Passed, "")
		}
		answered = answered || rejected > 0 || q.Delivery != nil && q.Delivery.Outcome == bcp.Rejected
		if rejected > 0 && (again || !over) {
			l.check(readerRejected, again, "no answer came after the rejection")
		}
	}
	if !s.Audited {
		return answered
	}
	if _, decided := l.checks[readerRejected]; !decided {
		l.decide(readerRejected, Unseen, "it was not asked again after a rejection")
	}
	s.pushed(l)
	s.violations(l, readerOnce, answered, readerPermitted)
	return answered
}

// judge returns what the end of a question shows about the Reader.
func (q *Question) judge() (Result, string) {
	switch {
	case q.Query == "":
		return Unseen, q.Why
	case q.Delivery == nil:
		return Failed, "no answer came"
	}
	switch q.Delivery.Outcome {
	case "", bcp.NotEnoughInformation, bcp.ApprovalRejected:
		return Passed, ""
	case bcp.Held:
		if q.Category < 3 {
			return Passed, "" // a summary is also held before the Reader gets a result
		}
		return NotSeen, "no person has decided about it yet"
	case bcp.Rejected:
		return Failed, "its answers were rejected"
	case bcp.Expired:
		return Failed, "no answer came in the query's time"
	}
	return NotSeen, "the query ended as " + string(q.Delivery.Outcome)
}

// taken reports whether the gateway took an answer of the Reader as well-formed.
func (q *Question) taken() bool {
	result, _ := q.judge()
	return result == Passed
}

// rejections counts the refused answers of the Reader to a query, and reports
// whether it answered again after the first, and whether the query was over.
func (s *Seen) rejections(query bcp.QueryID) (n int, again, over bool) {
	for i := range s.Records {
		d := &s.Records[i]
		if d.Kind != bcp.KindAnswer || d.Query != query || query == "" {
			continue
		}
		again = n > 0
		if slices.Contains(formFaults, d.Code) {
			n, over = n+1, d.Delivery != ""
		}
	}
	return n, again, over
}

// formFaults are refusals of messages that are invalid in themselves.
var formFaults = []bcp.Code{bcp.Malformed, bcp.MessageTooLarge, bcp.ValidationFailed, bcp.InvalidQuery, bcp.SubscriptionNotFound}

// pushed judges all pushes of the Reader meanwhile.
func (s *Seen) pushed(l *checklist) {
	l.seen(readerPushes, "it did not push", "a push was refused", s.Records, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindPush && d.Reader == s.Agent
	})
}

// seen decides a check by its records: each is right unless it was refused for
// its form.
func (l *checklist) seen(id, none, wrong string, records []bcp.Decision, about func(*bcp.Decision) bool) {
	l.decide(id, Unseen, none)
	for i := range records {
		if d := &records[i]; about(d) {
			l.check(id, !slices.Contains(formFaults, d.Code), wrong)
		}
	}
}

// violations decides the checks of permissions: a second answer is one of them,
// and everything else another. The first passes only if there was an answer.
func (s *Seen) violations(l *checklist, once string, answered bool, permitted string) {
	if l.decide(once, Unseen, "it answered nothing"); answered {
		l.decide(once, Passed, "")
	}
	l.decide(permitted, Passed, "")
	for i := range s.Records {
		d := &s.Records[i]
		if d.Kind != bcp.KindViolation || d.Agent != s.Agent || d.Role != s.Role {
			continue
		}
		switch {
		case d.Event == server.Connect.String():
		case d.Event == server.Publish.String() && d.Family == subjects.KindReply.String():
			l.decide(once, Failed, "something was answered twice")
		default:
			l.decide(permitted, Failed, "the server refused to "+d.Event)
		}
	}
}

// judgeController reports whether the Controller acknowledged anything. The
// other end alone sees nothing of it: no Reader may learn what happens to its
// pushes.
func (s *Seen) judgeController(l *checklist) (acknowledged bool) {
	if !s.Audited {
		return false
	}
	l.decide(controllerPush, Unseen, "nothing was delivered to it")
	for _, d := range s.deliveries() {
		switch {
		case d.acknowledged:
			acknowledged = true
			if d.Outcome == "" {
				l.decide(controllerPush, Passed, "")
			}
		case !d.due:
		case d.Outcome != "":
			l.decide(controllerOutcomes, Failed, "the outcome "+string(d.Outcome)+" was not acknowledged")
		default:
			l.decide(controllerPush, Failed, "no acknowledgement came")
		}
	}
	acknowledged = s.prompted(l) || acknowledged
	l.seen(controllerAsks, "it did not ask", "an ask is not well-formed", s.Records, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindAsk && d.Controller == s.Agent
	})
	s.violations(l, controllerOnce, acknowledged, controllerPermitted)
	return acknowledged
}

// delivery is a delivery to a Controller.
type delivery struct {
	*bcp.Decision
	due          bool // its acknowledgement was waited for
	acknowledged bool
}

func (s *Seen) deliveries() []delivery {
	var list []delivery
	at := map[bcp.DeliveryID]int{}
	for i := range s.Records {
		d := &s.Records[i]
		switch {
		case d.Controller != s.Agent || d.Delivery == "":
		case d.Kind != bcp.KindAcknowledge:
			at[d.Delivery] = len(list)
			list = append(list, delivery{Decision: d, due: i < s.Waited && d.Release <= d.Time})
		default:
			if n, known := at[d.Delivery]; known {
				list[n].acknowledged = true
			}
		}
	}
	return list
}

// Unacknowledged returns how many deliveries in the records the Controller has not
// acknowledged. Those with a later time of release do not count.
func (s *Seen) Unacknowledged() (n int) {
	for _, d := range s.deliveries() {
		if !d.acknowledged && d.Release <= d.Time {
			n++
		}
	}
	return n
}

// prompted judges the newest prompt, which replaces earlier ones.
func (s *Seen) prompted(l *checklist) (acknowledged bool) {
	l.decide(controllerPrompt, Unseen, "no schedule prompted it")
	var newest bcp.DeliveryID
	for i := range s.Records {
		switch d := &s.Records[i]; {
		case d.Agent != s.Agent || d.Role != s.Role || d.Notice == "":
		case d.Kind == bcp.KindPrompt && i < s.Waited:
			newest = d.Notice
		case d.Kind == bcp.KindAcknowledge && d.Notice == newest:
			newest, acknowledged = "", true
		}
	}
	if newest != "" {
		l.decide(controllerPrompt, Failed, "no acknowledgement came")
	} else if acknowledged {
		l.decide(controllerPrompt, Passed, "")
	}
	return acknowledged
}
