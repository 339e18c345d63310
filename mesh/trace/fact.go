package trace

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/explain"
)

// Fact is the part of a decision that a trace uses. It does not keep the decision.
type Fact struct {
	seq          uint64
	at, stored   int64
	kind         bcp.DecisionKind
	agent        bcp.AgentName
	channel      bcp.ChannelKey
	session      bcp.SessionID
	query        bcp.QueryID
	subscription bcp.SubscriptionID
	delivery     bcp.DeliveryID
	item         bcp.ItemID
	category     bcp.Category
	attempt      int
	repeat       bool
	verdict      bcp.Outcome
	code         bcp.Code
	reason       bcp.Reason
	check        bcp.Check
	rule         string
	outcome      bcp.Code
	anomalies    []string
	taint        bcp.Taint
	nominal      bcp.Bits
	capacity     bcp.Bits
	release      int64
	event        string
}

// FactOf returns the fact of a decision whose record was stored at a time.
func FactOf(d *bcp.Decision, stored time.Time) Fact {
	return Fact{
		// Journal time does not go back when the clock does.
		seq: d.Seq, at: d.Time, stored: max(d.Time, stored.UnixNano()), kind: d.Kind, agent: d.Agent,
		channel: bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}, session: d.Session,
		query: d.Query, subscription: d.Subscription, delivery: d.Delivery, item: d.Item, category: d.Category, attempt: d.Attempt, repeat: d.Repeat,
		verdict: d.Verdict, code: d.Code, reason: d.Reason, check: d.Check, rule: explain.Rule(d), outcome: d.Outcome, anomalies: d.Anomalies, taint: d.Taint,
		nominal: d.Nominal, capacity: d.Capacity, release: d.Release, event: d.Event,
	}
}

// Traced reports whether a decision of this kind is part of any trace.
func Traced(kind bcp.DecisionKind) bool {
	switch kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindApproval, bcp.KindExpire, bcp.KindBatch, bcp.KindAcknowledge:
		return true
	}
	return false
}

// known reports whether the gateway knew the subject of the message. Otherwise
// its ids are the sender's choice.
func (f *Fact) known() bool { return f.channel.Controller != "" }

// moves reports whether the decision continues an exchange: a late answer, or a
// refused act of a person, does not.
func (f *Fact) moves() bool {
	return !f.repeat && (f.kind == bcp.KindExpire || f.verdict == bcp.Accept || f.verdict == bcp.Hold || f.delivery != "" || f.attempt > 0)
}
