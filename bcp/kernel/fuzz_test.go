package kernel_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// One spelling of a number is one number: what a float would round, or what has two
// spellings, is refused.
// covers P2.2
func TestNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-7": "-7", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808", " null ": "null",
		"0.5": "0.5", "-0.5": "-0.5", "98.70": "98.7", "123456789.123456": "123456789.123456", "0.00000000000001": "0.00000000000001", "10.0": "10.0",
		"[null,null]": "[null,null]", "-0": "", "-0.0": "", "01": "", "01.5": "", "1.": "", ".5": "", "1e5": "", "1.5e5": "", "1.5E5": "", "-": "", "-.5": "",
		"+1": "", "9223372036854775808": "", "1234567890.123456": "", "1.2.3": "", "NaN": "", "Infinity": "", "0x10": "", "": "", "nul": "", "nullx": "",
	} {
		v, err := kernel.ParseValue([]byte(in))
		got := string(v.JSON())
		failIf(t, (err == nil) != (want != "") || err == nil && got != want, "%q: got %s, %v", in, got, err)
	}
}

// A value that is read has one spelling, which is read as the same value; and what is
// read here, any reader of JSON reads.
func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{`null`, `{"b":[1,-2.50,"x\u00e9"],"a":{"":true}}`, `[[[[[[[[]]]]]]]]`, `{"a":1,"a":2}`, `-0.0`, `1.0`, `[10.50,0.0,100.00]`, `1e5`, "\"\xff\"", mailPlan} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := kernel.ParseValue(b)
		if err != nil {
			return
		}
		stopIf(t, !json.Valid(b), "%q is no JSON", b)
		canonical := v.JSON()
		again, err := kernel.ParseValue(canonical)
		stopIf(t, err != nil, "%q is spelled %q: %v", b, canonical, err)
		stopIf(t, !bytes.Equal(again.JSON(), canonical) || !again.Equal(&v),
			"%q is spelled %q and then %q", b, canonical, again.JSON())
	})
}

// A plan that is right can be judged whole; whatever it is, reading it ends, says the
// same twice, and names a step by its own valid id or not at all.
func FuzzReadPlan(f *testing.F) {
	for _, seed := range []string{mailPlan, steps(constX, inbox, parse, mergeXY, sub("")), steps(words(`[["a"]]`)), steps(use(`{"ref":"use"}`)), `{"steps":[],"final":""}`} {
		f.Add([]byte(seed))
	}
	k := mustKernel(f, nil)
	at := frame(k, "all")
	f.Fuzz(func(t *testing.T, b []byte) {
		checked, fault := k.ReadPlan(b, at)
		_, again := k.ReadPlan(b, at)
		stopIf(t, again != fault, "%q: %+v and then %+v", b, fault, again)
		if fault.Code != "" {
			stopIf(t, len(fault.Step) > 64 || bytes.ContainsAny([]byte(fault.Step), " ./*>\"\\\n"),
				"%q: the fault names %q", b, fault.Step)
			return
		}
		for _, forecast := range checked.Preflight() {
			stopIf(t, forecast.Verdict.Code == kernel.NoCapability, "%q has a tool that is not granted", b)
		}
		for _, s := range checked.Steps() {
			stopIf(t, s.Label.Sources&kernel.UserQuery == 0 && !s.Label.Tainted(), "%q: step %s comes from nowhere", b, s.ID)
		}
	})
}

// A record that is read is spelled as it was, and applying it to any state is an
// error or leaves a state that can be told.
func FuzzParseChange(f *testing.F) {
	g := planned(f, mustKernel(f, nil), mailPlan, mail)
	g.answer(`{"text":"x"}`, "")
	for _, r := range g.records {
		f.Add(r[0], r[1])
	}
	f.Fuzz(func(t *testing.T, open, private []byte) {
		c, err := kernel.ParseChange(open, private)
		if err != nil {
			return
		}
		again, err := kernel.ParseChange(c.AppendJSON(nil), c.Private.AppendJSON(nil))
		stopIf(t, err != nil || !bytes.Equal(again.AppendJSON(nil), c.AppendJSON(nil)), "%q does not come back: %v", open, err)
		mine := *g
		mine.t = t
		s := mine.replayed()
		before := savedText(s)
		stopIf(t, s.Apply(&c) != nil && before != savedText(s), "%q: an error changed the state", open)
		s.Save()
	})
}

// Hostile planners, Readers, tools and people, in any order: nothing panics, no
// decision changes the state, the records make it again, and nothing is called that
// was not allowed.
func FuzzRun(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte(mailPlan), []byte(mail), []byte(`{"text":"x"}`))
	f.Add([]byte{0, 5, 1, 1, 7, 2, 4, 6}, []byte(steps(constX, sub(`,"schema_ref":"Slot"`))), []byte(`{}`), []byte(`{"urgent":true}`))
	f.Add([]byte{0, 0, 1, 9, 8, 3, 3}, []byte(steps(note, inbox)), []byte(sent), []byte(`"`))
	f.Add([]byte{0, 1, 1, 1, 1}, []byte(`{"steps":[{"kind":"loop"}],"final":"a"}`), []byte(``), []byte(``))
	k := mustKernel(f, func(d *kernel.Definition) { d.Limits.MaxPlans, d.Limits.RunTTL = 3, 2*time.Minute })
	f.Fuzz(func(t *testing.T, order, plan, result, answer []byte) {
		if len(order) > 24 || len(plan) > 4096 || len(result) > 4096 || len(answer) > 4096 {
			return
		}
		g := begun(t, k)
		id, call := "", ""
		for _, step := range order {
			for i := range g.changes {
				if w := g.changes[i].Wait; w != nil {
					id = w.ID
					if w.Kind == kernel.WaitTool {
						call = w.ID
					}
				}
			}
			before := savedText(g.state)
			var c kernel.Change
			due := true
			switch m := g.moment(); step % 10 {
			case 0:
				c = g.state.DecidePlan(m, "planner", id, []byte(`{"plan_id":"`+id+`","plan":`+string(plan)+`}`))
			case 1:
				c = g.state.DecidePlan(m, "subplanner", id, []byte(`{"plan_id":"`+id+`","plan":`+string(plan)+`}`))
			case 2:
				c = g.state.DecideOutcome(m, "mail", call, int(step)/10, []byte(`{"call_id":"`+call+`","result":`+string(result)+`}`))
			case 3:
				c = g.state.DecideAnswer(m, id, answer, "")
			case 4:
				c = g.state.DecideAnswer(m, id, nil, bcp.Code(answer))
			case 5:
				c = g.state.DecidePerson(m, id, []kernel.PersonDecision{"", kernel.Approve, kernel.Reject, kernel.Done, kernel.NotDone, kernel.Answer}[step/10%6], result)
			case 6:
				g.now = time.Unix(0, max(g.state.NextDue(), g.now.UnixNano()))
				c, due = g.state.DecideDue(g.moment())
			case 7:
				c = g.state.DecideOutcome(m, "mail", call, 1, result)
			case 8:
				c = g.state.DecideRestart(m, call)
			case 9:
				c = g.state.DecideRun(m, "desk", kim, "all", kernel.Trusted(), answer)
			}
			stopIf(t, before != savedText(g.state), "deciding changed the state: %q", order)
			if due {
				g.store(c)
			}
		}
		checkOrder(t, g)
	})
}
