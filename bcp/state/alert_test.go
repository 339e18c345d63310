package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// An epoch that could not pay is an alert, once, whatever did not fit and
// however often; the next epoch has its own, also where it begins before the
// alert of the last is recorded.
//
// covers BCP-152, P4.6, A-EXHAUST
func TestExhaustionAlerts(t *testing.T) {
	t.Parallel()
	name := "ask planner mail name "
	spend := strings.Repeat(name+"=> accept\n", 4)
	plays(t, testMesh, "", map[string]string{
		"once an epoch": spend + `
			due                  => nothing
			` + name + `=> budget_exhausted
			due                  => alert event:budget_exhausted epoch:1 reserved:88.0
			` + name + `=> budget_exhausted
			push mail planner memo {"summary":"a"} => budget_exhausted
			due                  => nothing
			renew planner
			` + spend + name + `=> budget_exhausted
			due                  => alert epoch:2
			due                  => nothing`,
		"a push": spend + `
			push mail planner memo {"summary":"a"} => budget_exhausted
			due                  => alert event:budget_exhausted`,
		"not what fits": spend + `
			ask planner mail num => accept
			due                  => nothing`,
		"nor another refusal": `
			push mail planner none {}  => subscription_not_found
			push mail planner alarm {} => validation_failed
			ask planner mail three     => escalation_required
			due                        => nothing`,
		"nor another channel": spend + name + `=> budget_exhausted
			ask planner web name => accept
			due                  => alert epoch:1
			due                  => nothing`,
		"before the next two epochs": spend + name + `=> budget_exhausted
			renew planner
			` + name + `=> accept epoch:2
			renew planner
			` + name + `=> accept epoch:3
			due                  => alert event:budget_exhausted epoch:1
			due                  => nothing`,
		"before the next epoch": spend + name + `=> budget_exhausted
			renew planner
			` + spend + name + `=> budget_exhausted
			due                  => alert event:budget_exhausted epoch:1
			` + name + `=> budget_exhausted
			due                  => alert event:budget_exhausted epoch:2
			due                  => nothing`,
	})
}

// A session that settles more than ten times the median of those before it on
// its channel, of which there must be three, is an alert, once. At exactly ten
// times it is none.
//
// covers BCP-152, P4.6, A-XQUERY
func TestSpendingAlerts(t *testing.T) {
	t.Parallel()
	w := &spending{}
	for _, tt := range []struct {
		past  []bcp.Bits
		spent bcp.Bits
		far   bool
	}{
		{nil, 1 << 60, false},
		{[]bcp.Bits{1, 1}, 1 << 60, false},
		{[]bcp.Bits{bcp.Bit, bcp.Bit, bcp.Bit}, 10 * bcp.Bit, false},
		{[]bcp.Bits{bcp.Bit, bcp.Bit, bcp.Bit}, 10*bcp.Bit + 1, true},
		{[]bcp.Bits{1, 2 * bcp.Bit, 1 << 50}, 20 * bcp.Bit, false}, // the median, not the mean
		{[]bcp.Bits{1 << 50, 1, 2 * bcp.Bit}, 20*bcp.Bit + 1, true},
		{[]bcp.Bits{1, 1, 5, 5}, 50, false}, // the upper of two
		{[]bcp.Bits{1, 1, 5, 5}, 51, true},
	} {
		w.past, w.spent = tt.past, tt.spent
		before := slices.Clone(tt.past)
		failIf(t, w.far() != tt.far || !slices.Equal(before, tt.past), "%d after %v: %v", tt.spent, before, w.far())
	}

	session := func(pushes int) string {
		return "close planner\nopen planner\n" + strings.Repeat(`push mail planner alarm {"ok":true} => delivers`+"\ndue => nothing\n", pushes)
	}
	push := `push mail planner alarm {"ok":true} => delivers` + "\n"
	const due = "due => alert event:session_spending\ndue => nothing\n"
	for _, history := range []string{
		session(1) + session(1) + session(11), // two sessions have no median
		session(1) + session(1) + session(1) + session(10) + push + due + push + "due => nothing\n" + // once a session
			session(10) + push + due, // and 11 is not the median
		session(1) + session(0) + session(0) + session(11), // one without charges is none
		session(3) + session(1) + session(1) + session(10) + push + due,
		`ask planner mail yes => accept
			answer mail 1 nei
			` + session(1) + session(1) + session(10) + `
			ask planner mail name => accept
			due => nothing             # reserved is not spent
			answer mail 2 {"q":"ada"} => delivers
			` + due,
	} {
		newWorld(t, testMesh()).play(history)
	}
	v := newWorld(t, edited(func(c *bcp.Channel) { c.Budget = 1000 * bcp.Bit }))
	for range 3 * medianOf {
		v.play("wait 1m\n" + session(1)) // sessions have a rate
	}
	expect(t, len(v.state.channels[plannerMail].spending.past), medianOf, "sessions are remembered")
}

// Each kind of alert goes with a decision, and bears names, ids and numbers of
// ours: no text of an agent.
//
// covers BCP-152, P2.5, P4.6, A-KEYECHO
func TestWhatIsAnAlert(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	seen := map[bcp.AlertKind]bool{}
	type said struct {
		d    bcp.Decision
		want bcp.AlertKind
	}
	all := map[string]said{
		"held":                {bcp.Decision{Kind: bcp.KindPush, Verdict: bcp.Hold, Item: "i1"}, bcp.AlertHeld},
		"held by a repeat":    {bcp.Decision{Kind: bcp.KindPush, Verdict: bcp.Hold, Item: "i1", Repeat: true}, ""},
		"unavailable":         {bcp.Decision{Kind: bcp.KindProcess, Event: bcp.ProcessUnavailable}, bcp.AlertUnavailable},
		"started":             {bcp.Decision{Kind: bcp.KindProcess, Event: bcp.ProcessStarted}, ""},
		"ended":               {bcp.Decision{Kind: bcp.KindProcess, Event: bcp.ProcessEnded}, ""},
		"missed":              {bcp.Decision{Kind: bcp.KindPrompt, Count: 1}, bcp.AlertMissed},
		"prompted":            {bcp.Decision{Kind: bcp.KindPrompt}, ""},
		"refusals":            {bcp.Decision{Kind: bcp.KindRefusals, Count: 3}, bcp.AlertFlood},
		"violation":           {bcp.Decision{Kind: bcp.KindViolation}, bcp.AlertFlood},
		"decided":             {bcp.Decision{Kind: bcp.KindApproval, Verdict: bcp.Accept, Item: "i1", Event: "approve"}, ""},
		"effect":              {bcp.Decision{Kind: bcp.KindCall, Run: &bcp.RunChange{Alert: "in_doubt"}}, bcp.AlertEffect},
		"a changed tool":      {bcp.Decision{Kind: bcp.KindEgress, Verdict: bcp.Reject, Egress: &bcp.EgressChange{Why: guard.ToolChanged}}, bcp.AlertTool},
		"another refusal":     {bcp.Decision{Kind: bcp.KindEgress, Verdict: bcp.Reject, Egress: &bcp.EgressChange{Why: guard.HostDenied}}, ""},
		"egress":              {bcp.Decision{Kind: bcp.KindEgress, Verdict: bcp.Reject, Egress: &bcp.EgressChange{Alert: true}}, bcp.AlertEgress},
		"model":               {bcp.Decision{Kind: bcp.KindUsage, Verdict: bcp.Accept, Usage: &bcp.UsageChange{Alert: 80}}, bcp.AlertModel},
		"model again":         {bcp.Decision{Kind: bcp.KindUsage, Verdict: bcp.Reject, Usage: &bcp.UsageChange{}}, ""},
		"model fails":         {bcp.Decision{Kind: bcp.KindUsage, Time: 5, Verdict: bcp.Accept, Usage: &bcp.UsageChange{Act: bcp.UsageReport, Fault: bcp.FaultKey, Since: 5}}, bcp.AlertModelFails},
		"it fails otherwise":  {bcp.Decision{Kind: bcp.KindUsage, Time: 5, Verdict: bcp.Accept, Usage: &bcp.UsageChange{Act: bcp.UsageReport, Fault: bcp.FaultKey, Since: 4}}, ""},
		"model works":         {bcp.Decision{Kind: bcp.KindUsage, Time: 5, Verdict: bcp.Accept, Usage: &bcp.UsageChange{Act: bcp.UsageReport, Since: 4}}, bcp.AlertModelWorks},
		"egress again":        {bcp.Decision{Kind: bcp.KindEgress, Verdict: bcp.Reject, Egress: &bcp.EgressChange{}}, ""},
		"issued":              {bcp.Decision{Kind: bcp.KindCredential, Event: string(bcp.CredentialIssued)}, ""},
		"nothing":             {bcp.Decision{}, ""},
		"an ask that is held": {bcp.Decision{Kind: bcp.KindAsk, Verdict: bcp.Hold, Item: "i1"}, bcp.AlertHeld},
	}
	for _, kind := range []bcp.AlertKind{
		bcp.AlertThreshold, bcp.AlertExhausted, bcp.AlertSpending, bcp.AlertDiskLow, bcp.AlertDiskCritical,
		bcp.AlertWitnessMissing, bcp.AlertWitnessRefused, bcp.AlertRollbackAccepted, bcp.AlertRollbackSeen, bcp.AlertShare,
		bcp.AlertMarkStrange, bcp.AlertSuspect, bcp.AlertLifted, bcp.AlertShared, bcp.AlertExpiring, bcp.AlertPanic,
	} {
		all[string(kind)] = said{bcp.Decision{Kind: bcp.KindAlert, Event: string(kind), Agent: "mail", Role: bcp.RoleReader, Key: "U", Count: 1}, kind}
	}
	for name, tt := range all {
		d := tt.d
		d.Note, d.Family, d.Justification, d.Field, d.Client, d.Payload, d.Spec = canary, canary, canary, canary, canary, []byte(canary), []byte(canary)
		alert, ok := d.Alert()
		failIf(t, ok != (tt.want != "") || alert.Alert != tt.want, "%s is %q, %v", name, alert.Alert, ok)
		b, err := bcp.Encode(alert, bcp.JSON)
		failIf(t, err != nil || strings.Contains(string(b), canary), "%s: %s, %v", name, b, err)
		seen[alert.Alert] = true
	}
	for _, kind := range bcp.AlertKinds() {
		failIf(t, !seen[kind], "no decision is the alert %s", kind)
	}
	d := bcp.Decision{Kind: bcp.KindAlert, Event: string(bcp.AlertExhausted), Seq: 7, Time: 1_800_000_000_000_000_000, Controller: "planner", Reader: "mail", Epoch: 2}
	alert, _ := d.Alert()
	b, err := json.Marshal(alert)
	want := `{"type":"bcp_alert","alert":"budget_exhausted","seq":7,"time":"2027-01-15T08:00:00Z","controller":"planner","reader":"mail","epoch":2}`
	failIf(t, err != nil || string(b) != want, "an alert is written %s, %v", b, err)
}

// Under load what waits to be recorded is at most three alerts a channel.
//
// covers P4.6, A-LOGFILL
func TestAlertsAreBounded(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	for i := range mesh.Channels {
		mesh.Channels[i].AlertBits = bcp.Bit
	}
	w := newWorld(t, mesh)
	for n := range 300 {
		w.act(fmt.Sprintf("push mail planner %s", []string{`alarm {"ok":true}`, `name {"q":"ada"}`, `memo {"summary":"a"}`}[n%3]))
		w.act("ask planner web name")
	}
	waiting := len(w.state.crossed) + len(w.state.alerts)
	failIf(t, waiting > 3*len(mesh.Channels), "%d alerts wait", waiting)
	for range waiting {
		w.play("due => alert")
	}
	w.play("due => nothing")
}
