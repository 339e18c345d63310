package tell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// Head is the first line of an exchange: when, on which channel, about what.
func Head(d *bcp.Decision) string {
	var b strings.Builder
	b.WriteString(d.At().Format(TimeFormat) + "  ")
	if key, ok := d.Channel(); ok {
		b.WriteString(Channel(key.Controller, key.Reader))
		b.WriteString("  ")
	}
	switch {
	case d.Query != "":
		b.WriteString("query " + inert.Line(string(d.Query)))
	case d.Subscription != "":
		b.WriteString("push to " + inert.Line(string(d.Subscription)))
	default:
		b.WriteString(d.Kind.String())
	}
	if d.Category != 0 {
		b.WriteString(", category " + strconv.Itoa(int(d.Category)))
	}
	b.WriteByte('\n')
	return b.String()
}

// TimeFormat is the format of times in the lines of this package, in UTC.
const TimeFormat = "2006-01-02 15:04:05.000"

// Event tells a decision that is no part of an exchange, with its time and number.
func Event(d *bcp.Decision) string {
	return fmt.Sprintf("%s  %6d  %s\n", d.At().Format(TimeFormat), d.Seq, Sentence(d))
}

// Sentence tells a decision: who did what on which channel, and what became of it.
func Sentence(d *bcp.Decision) string {
	line := describeActor(d)
	if key, ok := d.Channel(); ok {
		line += " on " + Channel(key.Controller, key.Reader)
	}
	if became := describeOutcome(d, d.DecidedBy()); became != "" {
		line += ": " + became
	}
	return line
}

// Line tells one decision of an exchange that began at a time: its number, the time
// since, who did what, and what became of it.
func Line(d *bcp.Decision, begun time.Time) string {
	since := d.At().Sub(begun).Milliseconds()
	line := fmt.Sprintf("%8d  +%d.%03ds  %s", d.Seq, since/1000, since%1000, describeActor(d))
	if became := describeOutcome(d, d.DecidedBy()); became != "" {
		line += ": " + became
	}
	return line + "\n"
}

// describeActor says who did what.
func describeActor(d *bcp.Decision) string {
	if verb := d.Kind.Verb(); verb != "" {
		return string(d.Agent) + " " + verb
	}
	switch d.Kind {
	case bcp.KindApproval:
		verb := map[string]string{string(bcp.Approve): " approves", string(bcp.RejectItem): " rejects", string(bcp.EditItem): " edits"}[d.Event]
		return string(d.Agent) + verb
	case bcp.KindExpire:
		return "the gateway"
	case bcp.KindBatch:
		return "the gateway ends the window of " + inert.Line(string(d.Subscription)) + ", with " + Count(d.Count, "answer")
	case bcp.KindViolation:
		family := ""
		if d.Family != "" {
			family = "(" + inert.Line(d.Family) + ")"
		}
		return words(string(d.Agent), "is denied", inert.Line(d.Event), family)
	case bcp.KindEgress, bcp.KindUsage:
		return "the keeper of " + string(d.Agent)
	case bcp.KindDeclare:
		return words(string(d.Agent), "about roles", string(d.Target))
	case bcp.KindCredential:
		return words(string(d.Agent), inert.Line(d.Event), describeCredential(d))
	case bcp.KindRun, bcp.KindPlan, bcp.KindStep, bcp.KindCall, bcp.KindOutcome:
		return whoseRun(d)
	}
	who := string(d.Agent)
	if who == "" {
		who = "the gateway"
	}
	return words(who, doing(d), inert.Line(d.Event), describeTarget(d))
}

// describeCredential says which credentials a decision is about.
func describeCredential(d *bcp.Decision) string {
	c := d.Credential
	if c == nil {
		return ""
	}
	parts := []string{}
	if d.Target != "" {
		who := "for " + string(d.Target)
		if c.Role != 0 { // a gateway has none
			who += " as " + c.Role.String()
		}
		parts = append(parts, who)
	}
	if d.Key != "" {
		parts = append(parts, inert.Line(d.Key))
	}
	if c.Until != 0 && bcp.CredentialAct(d.Event) != bcp.CredentialRevoked {
		parts = append(parts, "until "+Moment(time.Unix(0, c.Until)))
	}
	for _, line := range c.Limits {
		parts = append(parts, inert.Line(line))
	}
	if done := time.Unix(0, c.Time); d.At().Sub(done) > time.Minute {
		parts = append(parts, "done "+Moment(done))
	}
	return strings.Join(parts, ", ")
}

// doing is the verb of an event.
func doing(d *bcp.Decision) string {
	switch {
	case d.Kind == bcp.KindConnect || d.Kind == bcp.KindDisconnect:
		return d.Kind.String() + "s as " + d.Role.String()
	case d.Kind == bcp.KindSession && d.SessionBegins:
		return "begins session " + inert.Line(string(d.Session))
	case d.Kind == bcp.KindSession && d.SessionEnds:
		return "ends session " + inert.Line(string(d.Session))
	}
	return d.Kind.String()
}

func describeTarget(d *bcp.Decision) string {
	if d.Target != "" && d.Target != d.Agent {
		return "about " + string(d.Target)
	}
	if d.Count > 1 {
		return Count(d.Count, "time")
	}
	return ""
}

// describeOutcome says what the gateway made of it, by which rule, and what it costs.
func describeOutcome(d *bcp.Decision, rule string) string {
	if rule != "" {
		rule = "[" + rule + "]"
	}
	var parts []string
	add := func(text string) { parts = append(parts, text) }
	switch {
	case d.Repeat:
		return words("a repeat, which hears the same", rule)
	case d.Kind == bcp.KindViolation, d.Kind == bcp.KindAcknowledge:
		return rule
	case d.Kind == bcp.KindEgress:
		return egress(d, rule)
	case d.Kind == bcp.KindDeclare && d.Declare != nil:
		return declared(d.Declare, rule)
	case d.Kind == bcp.KindUsage:
		return usage(d, rule)
	case d.Kind.IsRun():
		return ofRun(d)
	case d.Verdict == bcp.Reject:
		add(words("refused", rule, string(d.Code)))
		if d.Reason != 0 {
			add(strings.TrimPrefix(inert.Line(d.FieldName())+": "+d.Reason.String(), ": "))
		}
		if d.Lack > 0 {
			add(d.Lack.Words() + " too many")
		}
	case d.Verdict == bcp.Hold:
		add(words("held for a person", rule))
	case d.Endorsed != nil && d.Kind != bcp.KindEndorse:
		add(words("let through without a person", rule, "by the endorsement "+inert.Line(string(d.Endorsed.ID))+", of which "+Count(d.Endorsed.Uses, "use")+" and "+d.Endorsed.Bits.Words()+" are left"))
	case d.Kind == bcp.KindEndorse && d.Endorsed != nil:
		add(endorsement(d))
	case d.Kind == bcp.KindAsk && d.Verdict == bcp.Accept, d.Kind == bcp.KindPush, d.Kind == bcp.KindAnswer:
		add("accepted")
	}
	if d.Rule != "" {
		add(inert.Line(string(d.Rule)) + ", seen " + Count(d.Count, "time"))
	}
	if d.Suspends {
		add("suspended")
	}
	if len(d.Anomalies) > 0 {
		add(strings.Join(d.Anomalies, "+"))
	}
	if d.Kind == bcp.KindAnswer && d.Verdict == bcp.Reject && d.Attempt > 0 {
		add("asked again")
	}
	switch {
	case d.Gathered():
		add("waits for the end of its window")
	case d.Delivery != "" && d.Outcome == "":
		add("delivered as " + inert.Line(string(d.Delivery)) + ", delivered taint " + d.Taint.String())
	case d.Outcome == bcp.Held:
		add(string(d.Controller) + " hears that it is held")
	case d.Outcome != "":
		add(string(d.Controller) + " hears " + string(d.Outcome))
	case d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Event == string(bcp.Approve) && d.Query != "":
		add("the question goes to " + string(d.Reader))
	}
	if bits := bitsMoved(d); bits != "" {
		add(bits)
	}
	if d.Unsealed {
		add("unsealed key")
	}
	if !d.Passkey.IsZero() {
		add("signed with a passkey")
	}
	if !d.Statement.IsZero() {
		add(fmt.Sprintf("in one statement with others, %x", d.Statement[:6]))
	}
	if d.Justification != "" {
		add("because: " + inert.Cut(inert.Line(d.Justification), longest))
	}
	if d.JustificationBits > 0 {
		add("which can carry " + d.JustificationBits.Words())
	}
	if d.Note != "" && (d.Kind == bcp.KindApproval || d.Kind == bcp.KindProcess) {
		add(inert.Cut(inert.Line(d.Note), longest))
	}
	return strings.Join(parts, "; ")
}

// endorsement says what a person endorsed, or that it is ended.
func endorsement(d *bcp.Decision) string {
	e := d.Endorsed
	if d.Event == string(bcp.Revoke) {
		return "ended " + inert.Line(string(e.ID))
	}
	what := "answers with " + strings.Join(e.Codes, "+")
	if e.Tool != "" {
		what = "calls of " + inert.Line(e.Tool)
	}
	return fmt.Sprintf("%s, as %s: %s, %s, until %s", what, inert.Line(string(e.ID)), Count(e.Uses, "use"), e.Bits.Words(), Moment(time.Unix(0, e.Until)))
}

// declared says what was decided about the roles of an agent.
func declared(c *bcp.DeclareChange, rule string) string {
	switch {
	case c.Act == bcp.DeclareRevocations:
		return words("a list of revocations of", inert.Line(c.Organisation), rule)
	case c.Act == bcp.DeclareRequired:
		return words("refused", rule, string(bcp.RoleRequired))
	case c.Why != "":
		return words("not accepted", rule, inert.Line(c.Why))
	}
	return words("accepted until", time.Unix(0, c.Until).UTC().Format(time.DateTime), inert.Line(c.Organisation))
}

// egress says what became of a request to a host.
func egress(d *bcp.Decision, rule string) string {
	e := d.Egress
	switch {
	case e == nil:
		return rule
	case d.Verdict == bcp.Reject:
		return words("refused", rule, string(e.Why))
	case e.Act == bcp.EgressSettle:
		return fmt.Sprintf("%s on the wire, for decision %d", Count(int(e.Bytes), "byte"), e.Reserved)
	}
	return fmt.Sprintf("a request (%s) to %s; %s at most", e.By, inert.Line(e.Entry), e.Bits.Words())
}

// usage says what became of a call of a model.
func usage(d *bcp.Decision, rule string) string {
	u := d.Usage
	switch {
	case u == nil:
		return rule
	case d.Verdict == bcp.Reject:
		return words("refused", rule, string(d.Code))
	case u.Act == bcp.UsageSettle:
		return fmt.Sprintf("%s, %s, for decision %d", Count(int(u.Tokens), "token"), dollars(u), u.Reserved)
	case u.Act == bcp.UsageReport && u.Fault == "":
		return "the model works again, after " + Roughly(d.At().Sub(time.Unix(0, u.Since)))
	case u.Act == bcp.UsageReport:
		return "the model fails: " + u.ModelFault().String()
	}
	return fmt.Sprintf("a call of %s; %s and %s at most", inert.Line(u.Model), Count(int(u.Tokens), "token"), dollars(u))
}

func dollars(u *bcp.UsageChange) string {
	if u.Unpriced {
		return "a price that nobody knows"
	}
	return u.Cost.String() + " USD"
}

// bitsMoved says what a decision cost.
func bitsMoved(d *bcp.Decision) string {
	if d.Nominal == 0 && d.Capacity == 0 {
		return ""
	}
	text := d.Nominal.Words() + " (capacity " + d.Capacity.Rounded() + ")"
	switch {
	case d.Prepaid:
		return text + ", charged before"
	case d.Unfunded:
		return text + " not reserved, and the question is not sent: pushes of its release slot have taken what it needs"
	case d.Kind == bcp.KindAsk:
		return text + " reserved"
	}
	return text
}
