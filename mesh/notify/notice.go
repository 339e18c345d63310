package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Notice is one message for a person. All of its texts are ours, or names from the
// definitions.
type Notice struct {
	// ID is the same for every copy of a notice, so that receivers can drop duplicates.
	// A repetition after the route's repeat has another.
	ID       string        `json:"id"`
	Kind     bcp.AlertKind `json:"kind"`
	Severity bcp.Severity  `json:"severity"`
	Seq      uint64        `json:"seq,omitzero"` // of the decision, in the audit
	Time     time.Time     `json:"time"`
	// Agent is the subject of an alert, which may also be a person.
	Agent      bcp.AgentName `json:"agent,omitempty"`
	Controller bcp.AgentName `json:"controller,omitempty"`
	Reader     bcp.AgentName `json:"reader,omitempty"`
	Category   bcp.Category  `json:"category,omitzero"`
	// Item is there on the route of a person who may decide it.
	Item bcp.ItemID `json:"item_id,omitempty"`
	// Link is the page of Item, where the mesh has one. Who opens it has to log in, and
	// decides nothing by it.
	Link  string `json:"link,omitempty"`
	Count int    `json:"count,omitzero"`
	Says  string `json:"says"`
}

// newNotice returns a route's notice of a decision; nothing if the decision has another
// topic, is not severe enough, or is about somebody else's item.
func newNotice(def *bcp.Mesh, route *bcp.Route, d *bcp.Decision) (Notice, bool) {
	alert, ok := d.Alert()
	if !ok {
		return Notice{}, false
	}
	n, ok := noticeOfAlert(def, route, &alert)
	if !ok {
		return Notice{}, false
	}
	if n.Kind == bcp.AlertHeld {
		decides := slices.Contains(findApprovers(def, d), route.Person)
		if route.Person != "" && !decides {
			return Notice{}, false
		}
		if decides {
			n.Item = d.HeldItem()
			if def.Origin != "" && n.Item != "" {
				n.Link = def.Origin + "/approvals/" + string(n.Item)
			}
		}
		if d.Category.Valid() {
			n.Category = d.Category
		}
	}
	n.Says = sentence(&n, d.Kind)
	return n, true
}

// findApprovers returns who may decide about the held item of a decision.
func findApprovers(def *bcp.Mesh, d *bcp.Decision) []bcp.AgentName {
	if d.Run != nil {
		i := slices.IndexFunc(def.Kernels, func(k bcp.KernelRights) bool { return k.Kernel == d.Run.Kernel })
		if i < 0 {
			return nil
		}
		return def.Kernels[i].Approvers
	}
	channel, _ := def.Channel(bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader})
	return channel.Approvers
}

// noticeOfAlert is newNotice for an alert without an item.
func noticeOfAlert(def *bcp.Mesh, route *bcp.Route, alert *bcp.Alert) (Notice, bool) {
	kind := alert.Alert
	if !slices.Contains(route.Topics, kind.Topic()) || kind.Severity() < route.Severity {
		return Notice{}, false
	}
	n := Notice{
		ID:   def.Name + "." + strconv.FormatUint(alert.Seq, 10),
		Kind: kind, Severity: kind.Severity(), Seq: alert.Seq, Time: alert.Time.UTC(), Count: max(0, alert.Count),
	}
	if known(def, alert.Agent) {
		n.Agent = alert.Agent
	}
	if channel, declared := def.Channel(bcp.ChannelKey{Controller: alert.Controller, Reader: alert.Reader}); declared {
		n.Controller, n.Reader = channel.Controller, channel.Reader
	}
	n.Says = sentence(&n, 0)
	if why := alert.Model.String(); why != "" {
		n.Says += ": " + why
	}
	return n, true
}

// known reports whether the definitions have the name, or it is one of ours.
func known(def *bcp.Mesh, name bcp.AgentName) bool {
	_, agent := def.Agent(name)
	return agent || name == bcp.Operator || name == bcp.Gateway || slices.Contains(def.Approvers, name) || slices.Contains(def.Auditors, name)
}

// sentences describe alerts.
var sentences = map[bcp.AlertKind]string{
	bcp.AlertThreshold:        "the budget of %s has reached alert_bits",
	bcp.AlertExhausted:        "the budget of %s is exhausted",
	bcp.AlertSpending:         "a session of %s has spent ten times what is usual",
	bcp.AlertHeld:             "%s waits for a decision",
	bcp.AlertUnavailable:      "the command of %s cannot be started",
	bcp.AlertMissed:           "scheduled runs of %s were missed",
	bcp.AlertFlood:            "%s sends what is refused, again and again",
	bcp.AlertDiskLow:          "the disk or the journal is at 80 %% of what it may hold",
	bcp.AlertDiskCritical:     "the disk or the journal is at 95 %% of what it may hold",
	bcp.AlertShared:           "credentials of %s are used in two places at once",
	bcp.AlertExpiring:         "credentials of %s expire soon",
	bcp.AlertPanic:            "the gateway made a mistake over a message of %s",
	bcp.AlertEgress:           "%s has used up what it may send out",
	bcp.AlertModel:            "the model of %s has taken 80 or 100 %% of its budget",
	bcp.AlertModelFails:       "the model of %s fails",
	bcp.AlertModelWorks:       "the model of %s works again",
	bcp.AlertTool:             "an MCP server says something else of a tool of %s, which is off",
	bcp.AlertWitnessMissing:   "a witness has not cosigned the journal",
	bcp.AlertWitnessRefused:   "a witness has seen another journal, or more of it",
	bcp.AlertJournal:          "the journal cannot be written: nothing is decided",
	bcp.AlertDamaged:          "the journal is damaged: the gateway ends",
	bcp.AlertRollbackAccepted: "the mesh goes on although the journal was set back",
	bcp.AlertRollbackSeen:     "%s has seen more of the journal than there is: what this closes waits for you",
	bcp.AlertShare:            "%s has more of the journal than is free: nothing is taken from it",
	bcp.AlertMarkStrange:      "%s shows a mark that this mesh cannot read",
	bcp.AlertSuspect:          "%s does what its role does not",
	bcp.AlertLifted:           "the suspension of %s is lifted",
	bcp.AlertEffect:           "what a tool did for a run is uncertain",
}

// sentence describes a notice, in our own words.
func sentence(n *Notice, kind bcp.DecisionKind) string {
	about := string(n.Agent)
	switch {
	case n.Kind == bcp.AlertHeld:
		about = heldWords(n, kind)
	case n.Controller != "":
		about = string(n.Controller) + " from " + string(n.Reader)
	case about == "":
		about = "an agent"
	}
	text := sentences[n.Kind]
	if text == "" {
		return "an alert of another version"
	}
	if strings.Contains(text, "%s") {
		return fmt.Sprintf(text, about)
	}
	return strings.ReplaceAll(text, "%%", "%")
}

func heldWords(n *Notice, kind bcp.DecisionKind) string {
	what := "something"
	switch kind {
	case bcp.KindAsk:
		what = "a question"
	case bcp.KindAnswer:
		what = "an answer"
	case bcp.KindPush:
		what = "a push"
	}
	switch {
	case kind.IsRun():
		return "a call of a tool"
	case n.Controller == "":
		return what
	case kind == bcp.KindAsk:
		return fmt.Sprintf("%s of %s to %s", what, n.Controller, n.Reader)
	}
	return fmt.Sprintf("%s of %s to %s", what, n.Reader, n.Controller)
}

// Message is what is sent together.
type Message struct {
	Type string `json:"type"` // notification
	// ID is made of those of its notices, and is the idempotency key.
	ID       string       `json:"id"`
	Mesh     string       `json:"mesh"`
	Route    string       `json:"route"`
	Severity bcp.Severity `json:"severity"` // the greatest
	Title    string       `json:"title"`
	Notices  []Notice     `json:"notices"`
	More     int          `json:"more,omitzero"` // notices that are not listed
}

// newMessage puts notices together; there is one at least.
func newMessage(def *bcp.Mesh, route *bcp.Route, notices []Notice) Message {
	m := Message{Type: "notification", Mesh: def.Name, Route: route.Name, Notices: notices}
	ids := sha256.New()
	for i := range notices {
		_, _ = ids.Write([]byte(notices[i].ID + "\n")) // a hash never fails
		m.Severity = max(m.Severity, notices[i].Severity)
	}
	m.ID = hex.EncodeToString(ids.Sum(nil)[:16])
	m.Title = def.Name + ": " + notices[0].Says
	if n := len(notices); n > 1 {
		m.Title += fmt.Sprintf(", and %d more", n-1)
	}
	if len(notices) > maxNotices {
		m.Notices, m.More = notices[:maxNotices], len(notices)-maxNotices
	}
	return m
}

// lines are the message as people read it, without its title.
func (m *Message) lines() []string {
	var lines []string
	held := false
	for i := range m.Notices {
		n := &m.Notices[i]
		line := n.Time.Format("15:04:05Z") + " " + n.Severity.String() + ": " + n.Says
		if n.Category.Valid() {
			line += fmt.Sprintf(" (category %d)", n.Category)
		}
		switch {
		case n.Link != "":
			line += ": " + n.Link
		case n.Item != "":
			line += ", item " + string(n.Item)
		}
		lines, held = append(lines, line), held || n.Kind == bcp.AlertHeld
	}
	if m.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", m.More))
	}
	if held {
		return append(lines, "", "Look at it and decide: bcpmesh approvals")
	}
	return append(lines, "", "What happened: bcpmesh audit replay, bcpmesh doctor")
}
