package state

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// fuzzedWorld has an item of each kind, a session, and what was reported.
func fuzzedWorld(t testing.TB) *world {
	return newWorld(t, testMesh()).play(`
		ask planner mail three why=so            => hold
		push mail planner memo {"summary":"a_b"} => hold
		ask clerk mail text                      => accept
		answer mail 2 ` + answerWord(heldAnswer) + ` => hold
		report planner web                       => accept
		process web unavailable`)
}

// follows commits what was decided about a message: a gateway that Apply refuses
// is stuck, and a decision that does not survive its record is lost.
func (w *world) follows(d bcp.Decision) {
	w.t.Helper()
	d = w.commit(d)
	stopIf(w.t, d.Verdict != bcp.Accept && d.Verdict != bcp.Reject || (d.Verdict == bcp.Reject) != (d.Code != ""), "%+v", d)
	stopIf(w.t, dump(w.state) != dump(w.replay()), "%+v replays to another state", d)
}

// Any bytes as an approver's message: malformed, or a message that is written
// and read again as itself; decided, nothing that was not signed counts, and the
// gateway goes on.
//
// covers P2.2, P7.3, P10, A-CRASH, A-ANSI, A-SELFAPP
func FuzzApproval(f *testing.F) {
	acts := []bcp.Act{bcp.Approve, bcp.RejectItem, bcp.EditItem, "", "other"}
	w := fuzzedWorld(f)
	for n := range w.items {
		for act := range acts {
			body := w.sent(n+1, acts[act], "eve-key", func(a *bcp.Approval) {
				if acts[act] == bcp.EditItem {
					a.Response = []byte(`{"summary":"c"}`)
				}
			})
			f.Add(body, uint8(act))
		}
	}
	f.Add([]byte(`{"item_id":"i000001","reason":"not now","expires":"2027-01-16T08:00:00Z","response":{"q":[1,null]}}`), uint8(1))
	f.Add([]byte(`{"item_id":"i000001","expires":"9999-12-31T23:59:59+23:59","signature":"bWlhLWtleQ=="}`), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, act uint8) {
		a, code := bcp.ParseApproval(body)
		switch {
		case code == "":
			if _, err := bcp.ParseItemID(string(a.Item)); err != nil || utf8.RuneCountInString(a.Reason) > bcp.MaxReasonChars || strings.ContainsAny(a.Reason, "\n\r\t\x1b\u202e\u200b") {
				t.Fatalf("%q is %+v", body, a)
			}
			written := must(bcp.Encode(a, bcp.JSON))
			if again, code := bcp.ParseApproval(written); code != "" || fmt.Sprint(again) != fmt.Sprint(a) && again.Response == nil {
				t.Fatalf("%q is written %q and read as %+v, %s", body, written, again, code)
			}
		case code != bcp.Malformed:
			t.Fatalf("%q: %s", body, code)
		}
		w := fuzzedWorld(t)
		before, waiting := dump(w.state), len(w.state.Items())
		w.state.Preview("mia", body)
		stopIf(t, dump(w.state) != before, "previewing %q changed the state", body)
		w.follows(w.state.DecideApproval(w.moment(), "mia", bcp.Sender{Key: "mia-key"}, acts[int(act)%len(acts)], body))
		stopIf(t, w.last.Verdict == bcp.Accept || len(w.state.Items()) != waiting, "%q counts: %+v", body, w.last)
	})
}

// Any bytes as an operator's act, or as a Controller's message about its
// session: refused as malformed or too large, or an act that its words spell out.
//
// covers P2.2, P8.1, P10, A-CRASH, A-SELFLOW
func FuzzControl(f *testing.F) {
	acts := append(bcp.ControlActs(), "", "other")
	for _, s := range []string{`{"agent":"planner"}`, `{"agent":"mail","taint":{"source":"web"}}`, `{"agent":"mail"}`, `{"agent":"nobody"}`, `{}`,
		`{"verb":"open"}`, `{"type":"bcp_session","verb":"close"}`, `{"verb":"taint","taint":{"source":"agent"}}`, `{"verb":"taint","taint":{"source":"reset"}}`} {
		for act := range acts {
			f.Add([]byte(s), uint8(act))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, act uint8) {
		w := fuzzedWorld(t)
		word := acts[int(act)%len(acts)]
		w.follows(w.state.DecideControl(w.moment(), word, body))
		switch d := &w.last; {
		case d.Verdict == bcp.Reject:
			stopIf(t, d.Code != bcp.Malformed || d.SessionRenews || d.Target != "", "%q: %+v", body, d)
		case word == bcp.ControlRenew && d.SessionRenews && d.Kind == bcp.KindSession:
		case (word == bcp.ControlTaint && bcp.TaintSource(d.Event).Valid() || word == bcp.ControlResetTaint && d.Event == taintReset) && d.Kind == bcp.KindTaint && w.state.agents[d.Target] != nil:
		default:
			t.Fatalf("%s %q: %+v", word, body, d)
		}

		session, code := bcp.ParseSession(body, bcp.JSON)
		stopIf(t, code == "" && (session.Verb == bcp.VerbTaint) != (session.Taint != nil), "%q is %+v", body, session)
		reported := w.state.agents["relay"].reported
		w.follows(w.state.DecideSession(w.moment(), "clerk", body))
		d := &w.last
		stopIf(t, d.Code != code || d.Verdict == bcp.Accept && session.Verb == bcp.VerbTaint && (d.Target != "clerk" || d.Taint != bcp.TaintHigh) ||
			d.Verdict == bcp.Accept && session.Verb != bcp.VerbTaint && d.Kind != bcp.KindSession || w.state.agents["relay"].reported != reported,
			"%q: %+v", body, d)
	})
}
