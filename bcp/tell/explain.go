package tell

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Explanation says why a decision came out as it did: the rules that its message
// was held to, in order, which of them decided, and what would have to change.
// It follows from the decision, which names the check that objected, and from
// the table that has the checks in the order of the code: it decides nothing and needs no
// state, so an auditor can explain an export.
type Explanation struct {
	Seq     uint64           `json:"seq"`
	Time    time.Time        `json:"time"`
	Kind    bcp.DecisionKind `json:"kind"`
	Verdict bcp.Outcome      `json:"verdict,omitzero"`
	Code    bcp.Code         `json:"code,omitempty"`
	Outcome bcp.Code         `json:"outcome,omitempty"`
	// Rules are those that were looked at, the one that objected last.
	Rules []Evaluated `json:"rules"`
	// Rule is the number of the rule that decided, in bcp/PROTOCOL.md, and
	// Decided what it decided.
	Rule    string `json:"rule,omitempty"`
	Decided string `json:"decided"`
	// Changes are what would let it through, each by itself.
	Changes []string `json:"changes,omitempty"`
}

// Evaluated is one rule that was looked at.
type Evaluated struct {
	Check  bcp.Check `json:"check"`
	Rule   string    `json:"rule"`
	Text   string    `json:"text"`
	Passed bool      `json:"passed"`
	Detail string    `json:"detail,omitempty"` // figures of this decision
}

// Explain explains a decision, as it is in the journal or in the audit. m
// are the definitions that keys and values are taken from, nil for none; where
// they have changed since, so have their values.
func Explain(d *bcp.Decision, m *bcp.Mesh) Explanation {
	e := explainer{d: d, mesh: m}
	if m != nil {
		key, _ := d.Channel()
		e.channel, e.known = m.Channel(key)
	}
	x := Explanation{Seq: d.Seq, Time: d.At(), Kind: d.Kind, Verdict: d.Verdict, Code: d.Code, Outcome: d.Outcome, Rules: []Evaluated{},
		Rule: d.DecidedBy(), Decided: cmp.Or(describeOutcome(d, ""), Sentence(d)), Changes: e.changes()}
	if d.Repeat {
		return x
	}
	for _, c := range bcp.Checks(d.Kind) {
		objects := c == d.Check
		if objects || e.looked(c) {
			info := c.Info()
			if objects {
				info.Rule = x.Rule
			}
			x.Rules = append(x.Rules, Evaluated{c, info.Rule, info.Text, !objects, e.detail(c)})
		}
		if objects {
			break
		}
	}
	return x
}

type explainer struct {
	d       *bcp.Decision
	mesh    *bcp.Mesh
	channel bcp.Channel
	known   bool // channel is
}

// looked reports whether a check that did not object was made at all: some are
// for one kind of message, or for budgets that are not set.
func (e *explainer) looked(c bcp.Check) bool {
	d := e.d
	switch c {
	case bcp.CheckChannelFirst:
		return d.Check == bcp.CheckShape
	case bcp.CheckPushBudget:
		return d.Kind == bcp.KindPush
	case bcp.CheckRate:
		return e.subscription().MaxRate.Count > 0
	case bcp.CheckFilter:
		return e.subscription().PublishWhen != ""
	case bcp.CheckBatch:
		return e.subscription().BatchWindow > 0
	case bcp.CheckCapacityBudget:
		return !e.known || e.channel.CapacityBudget > 0
	case bcp.CheckWindowBudget:
		return !e.known || e.channel.WindowBudget > 0
	case bcp.CheckTotalBudget:
		return e.mesh == nil || e.total() > 0
	case bcp.CheckJustified, bcp.CheckOwnWords, bcp.CheckEscalations:
		return d.Escalation || d.Check != 0
	case bcp.CheckHandle:
		return d.Kind == bcp.KindHand || d.Event != "" || d.Check != 0
	case bcp.CheckCat2Queries:
		return d.Category == 2
	case bcp.CheckNoInformation:
		return d.Outcome == bcp.NotEnoughInformation
	case bcp.CheckAnswer:
		return d.Outcome != bcp.NotEnoughInformation
	case bcp.CheckQueue:
		return d.Verdict == bcp.Hold || d.Check != 0
	case bcp.CheckKeeper:
		return d.Check == bcp.CheckKeeper
	case bcp.CheckRole:
		return d.Kind == bcp.KindDeclare || d.Check == c || e.channel.ControllerRole != "" || e.channel.ReaderRole != ""
	case bcp.CheckNetwork, bcp.CheckEgressBudget, bcp.CheckEgressBytes:
		return d.Egress != nil && d.Egress.Act == bcp.EgressReserve
	case bcp.CheckLinks:
		return d.Egress != nil && d.Egress.By == bcp.ByComposed
	}
	if d.Kind == bcp.KindUsage && c != bcp.CheckRefusals && c != bcp.CheckMessage {
		return d.Usage != nil && d.Usage.Act == bcp.UsageReserve
	}
	if c == bcp.CheckRepeat && d.Kind == bcp.KindEgress {
		return d.Egress != nil && d.Egress.Act == bcp.EgressReserve
	}
	return true
}

// subscription is that of a push as it is in the definitions today.
func (e *explainer) subscription() bcp.Subscription {
	for _, sub := range e.channel.Subscriptions {
		if sub.ID == e.d.Subscription {
			return sub
		}
	}
	return bcp.Subscription{}
}

func (e *explainer) total() bcp.Bits {
	if e.mesh == nil {
		return 0
	}
	a, _ := e.mesh.Agent(e.d.Controller)
	return a.TotalBudget
}

// limit is the value of a budget's key today.
func (e *explainer) limit(c bcp.Check) (limit bcp.Bits, known bool) {
	switch c {
	case bcp.CheckBudget:
		return e.channel.Budget, e.known
	case bcp.CheckPushBudget:
		return e.channel.PushBudget, e.known
	case bcp.CheckCapacityBudget:
		return e.channel.CapacityBudget, e.known
	case bcp.CheckWindowBudget:
		return e.channel.WindowBudget, e.known
	case bcp.CheckTotalBudget:
		return e.total(), e.mesh != nil
	}
	return 0, false
}

// part is what the total budget has for asks, or for pushes of the channel.
func (e *explainer) part() (part bcp.Bits, known bool) {
	if e.mesh == nil {
		return 0, false
	}
	totals := e.mesh.Totals(e.d.Controller)
	if e.d.Kind == bcp.KindPush {
		key, _ := e.d.Channel()
		part, known = totals.Pushes[key]
		return part, known
	}
	return totals.Asks, true
}

// enough is the value of the budget that refused with which it would not have.
func (e *explainer) enough() (value bcp.Bits, known bool) {
	if e.d.Check != bcp.CheckTotalBudget {
		value, known = e.limit(e.d.Check)
		return value + e.d.Lack, known
	}
	part, known := e.part()
	if !known {
		return 0, false
	}
	key, _ := e.d.Channel()
	return e.mesh.TotalFor(key, e.d.Kind, part+e.d.Lack), true
}

// remaining is what a budget that refused had left.
func remaining(d *bcp.Decision) bcp.Bits { return max(0, d.Price-d.Lack) }

func isBudget(c bcp.Check) bool { return c >= bcp.CheckBudget && c <= bcp.CheckTotalBudget }

// detail has the figures of a check.
func (e *explainer) detail(c bcp.Check) string {
	d := e.d
	if c == d.Check && isBudget(c) {
		text := fmt.Sprintf("it costs %s, and %s are left", d.Price.Words(), remaining(d).Rounded())
		if limit, known := e.limit(c); known {
			text += fmt.Sprintf("; %s is %s", c.Info().Key, limit)
		}
		if part, known := e.part(); known && c == bcp.CheckTotalBudget {
			takers := "asks"
			if d.Kind == bcp.KindPush {
				takers = "pushes of this channel"
			}
			text += fmt.Sprintf(", of which %s may take %s", takers, part)
		}
		return text
	}
	accepted := d.Check == 0 && d.Accepted()
	switch c {
	case bcp.CheckKeeper:
		if d.Egress != nil && c == d.Check {
			return d.Egress.Why.Error()
		}
	case bcp.CheckNetwork:
		switch {
		case d.Egress == nil:
		case c == d.Check:
			return d.Egress.Why.Error()
		case d.Egress.Entry != "":
			return d.Egress.Entry + " of network allows it"
		}
	case bcp.CheckEgressBudget:
		if e := d.Egress; e != nil && c == d.Check {
			return fmt.Sprintf("it costs %s, and %s are left", d.Price.Words(), remaining(d).Rounded())
		} else if e != nil && accepted {
			return fmt.Sprintf("it costs %s; %s count with it", e.Bits.Words(), e.UsedBits.Rounded())
		}
	case bcp.CheckEgressBytes:
		if d.Egress != nil {
			return fmt.Sprintf("it reserves %d bytes; %d count", d.Egress.Bytes, d.Egress.UsedBytes)
		}
	case bcp.CheckModel:
		if d.Usage != nil {
			return d.Usage.Model
		}
	case bcp.CheckTokenBudget:
		if u := d.Usage; u != nil {
			return fmt.Sprintf("it takes at most %d tokens; %d count", u.Tokens, u.UsedTokens)
		}
	case bcp.CheckCostBudget:
		if u := d.Usage; u != nil {
			return fmt.Sprintf("it costs at most %s USD; %s count", u.Cost, u.UsedCost)
		}
	case bcp.CheckCategory:
		if e.known {
			return fmt.Sprintf("category %d; max_category is %d", d.Category, e.channel.MaxCategory)
		}
		return fmt.Sprintf("category %d", d.Category)
	case bcp.CheckBudget:
		if accepted && e.known {
			return fmt.Sprintf("it costs %s; %s of %s are spent with it", d.Nominal.Words(), d.Balance.Spent().Rounded(), e.channel.Budget.Rounded())
		}
	case bcp.CheckPushBudget:
		if accepted && e.known {
			return fmt.Sprintf("%s of %s are taken by pushes with it", d.Balance.Pushed, e.channel.PushBudget)
		}
	case bcp.CheckCapacityBudget:
		if accepted && e.known {
			return fmt.Sprintf("it costs %s of capacity; %s of %s are spent with it", d.Capacity.Words(), d.Balance.SpentCapacity().Rounded(), e.channel.CapacityBudget.Rounded())
		}
	case bcp.CheckAnswer:
		return e.answer()
	}
	return ""
}

// answer says what was found about an answer.
func (e *explainer) answer() string {
	d := e.d
	var parts []string
	if d.Reason != 0 {
		parts = append(parts, strings.TrimPrefix(d.Field+": "+d.Reason.String(), ": "))
	}
	if len(d.Anomalies) > 0 {
		parts = append(parts, strings.Join(d.Anomalies, ", "))
	}
	return strings.Join(parts, "; ")
}
