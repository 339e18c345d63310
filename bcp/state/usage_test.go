package state

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// calling is a keeper's request, in the form of the world's acts.
func calling(id, model string, bytes, tokens int64) string {
	return fmt.Sprintf(`usage web {"act":"reserve","call_id":%q,"model":%q,"request_bytes":%d,"max_output_tokens":%d}`, id, model, bytes, tokens)
}

func called(id string, input, output int64) string {
	return fmt.Sprintf(`usage web {"act":"settle","call_id":%q,"input_tokens":%d,"output_tokens":%d}`, id, input, output)
}

// What a keeper is allowed: each budget lets through exactly as much, and nothing beyond.
//
// covers P15.1, P15.2, P15.3, P15.4
func TestUsage(t *testing.T) {
	t.Parallel()
	// 50,000 tokens of the request at 2 dollars a million, and 50,000 of the reply at 5: 0.35 dollars.
	const bytes, tokens = 50_000 - bcp.CallOverhead, 50_000
	newWorld(t, testMesh()).play(`
		usage web {"act":"reserve","call_id":"a b","model":"small","request_bytes":1,"max_output_tokens":1}  => reject malformed
		usage web {"act":"reserve","call_id":"a","model":"small","request_bytes":0,"max_output_tokens":1}  => reject malformed
		usage web {"act":"reserve","call_id":"a","model":"small","request_bytes":1,"max_output_tokens":0}  => reject malformed
		usage web {"act":"reserve","call_id":"a","model":"small","request_bytes":268435457,"max_output_tokens":1}  => reject malformed
		usage web {"act":"reserve","call_id":"a","model":"small","request_bytes":1,"max_output_tokens":1,"input_tokens":1}  => reject malformed
		usage web {"act":"reserve","call_id":"a","model":"small","request_bytes":1,"max_output_tokens":1,"x":1}  => reject malformed
		usage web {"act":"spend","call_id":"a"}  => reject malformed
		usage web {"act":"settle","call_id":"a","output_tokens":-1}  => reject malformed
		usage web {"act":"settle","call_id":"a","output_tokens":4294967297}  => reject malformed
		` + called("a", 1, 1) + `  => nothing
		` + calling("a", "large", 1, 1) + `  => reject not_permitted
		` + calling("a", "unpriced", 1, 1) + `  => reject not_permitted
		` + calling("a", "small", bytes, tokens+1) + `  => reject budget_exhausted
		` + calling("a", "small", bytes, tokens) + `  => accept
		` + calling("a", "small", bytes, tokens) + `  => nothing
		` + calling("a", "small", bytes, tokens-1) + `  => reject malformed
		` + calling("b", "small", 1, 1) + `  => reject budget_exhausted
		` + called("a", 1000, 100) + `  => accept
		` + called("a", 1000, 100) + `  => nothing
		` + calling("b", "small", bytes, tokens-1100+1) + `  => reject budget_exhausted
		` + calling("b", "small", bytes, tokens-1100) + `  => accept
		` + called("b", 200_000, 0) + `  => accept
		` + calling("c", "small", 1, 1) + `  => reject budget_exhausted
		wait 62m
		` + calling("c", "small", bytes, tokens) + `  => accept`)
	for _, c := range []struct {
		budget bcp.USD
		want   string
	}{{bcp.Dollar * 35 / 100, "accept"}, {bcp.Dollar*35/100 - 1, "reject budget_exhausted"}} {
		mesh := testMesh()
		mesh.Agents[4].Run.TokenBudget, mesh.Agents[4].Run.CostBudget = 0, c.budget
		newWorld(t, mesh).play(calling("a", "small", bytes, tokens) + "  => " + c.want)
	}
	free := testMesh()
	free.Agents[4].Run = bcp.Run{}
	newWorld(t, free).play(calling("a", "unpriced", 1<<28, 1<<28) + "  => accept\n" + calling("b", "ollama/x", 1<<28, 1<<28) + "  => accept")
}

// People hear once in a window of 80 and of 100 %, whatever a provider says that it counted.
//
// covers P15.5
func TestUsageAlerts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	alerted := func(line string) int {
		d := w.play(line).last
		a, ok := d.Alert()
		failIf(t, ok && (a.Alert != bcp.AlertModel || a.Agent != "web"), "%+v", a)
		expect(t, ok, d.Usage.Alert > 0, "and %+v", d.Usage)
		return d.Usage.Alert
	}
	for window := range 2 {
		for i, c := range []struct {
			input int64
			want  int
		}{{79_999, 0}, {1, 80}, {1, 0}, {math.MaxUint32, 100}} {
			id := fmt.Sprintf("c%d-%d", window, i)
			expect(t, alerted(calling(id, "small", 1, 1)), 0, "a reserve alerts of")
			expect(t, alerted(called(id, c.input, 0)), c.want, "%d tokens alert of", c.input)
		}
		expect(t, alerted(calling("x", "small", 1, 1)), 0, "a second alert of")
		w.now = w.now.Add(2 * time.Hour)
	}
	expect(t, alerted(calling("y", "small", 1, 100_000)), 100, "a call that is refused alerts of")
}

// That a model fails is recorded once, with the time at which it began, and so is that it works again.
//
// covers P15.6
func TestModelFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	alert := func(line, want string) {
		t.Helper()
		a, _ := w.play(line).last.Alert()
		failIf(t, string(a.Alert) != want, "%s: %+v", line, a)
	}
	w.play(`
		usage web {"act":"report","fault":"tired"}  => reject malformed
		usage web {"act":"report","http_status":401}  => reject malformed
		usage web {"act":"report","fault":"key","http_status":99}  => reject malformed
		usage web {"act":"report","fault":"key","call_id":"a"}  => reject malformed
		usage web {"act":"report","fault":"key","input_tokens":1}  => reject malformed
		usage web {"act":"report","untrusted_said":"x"}  => reject malformed
		usage web {"act":"report","fault":"key","untrusted_said":"` + strings.Repeat("x", bcp.MaxSaid+1) + `"}  => reject malformed
		usage web {"act":"settle","call_id":"a","fault":"key"}  => reject malformed
		usage web {"act":"report"}  => nothing`)
	alert(`usage web {"act":"report","fault":"key","http_status":401,"untrusted_said":"`+strings.Repeat("x", bcp.MaxSaid)+`"}  => accept`, "model_fails")
	_, since := w.state.ModelFault("web")
	w.now = w.now.Add(time.Minute)
	w.play(`usage web {"act":"report","fault":"key","http_status":401}  => nothing`)
	alert(`usage web {"act":"report","fault":"silent"}  => accept`, "")
	if fault, s := w.state.ModelFault("web"); fault.String() != "the provider does not answer" || !s.Equal(since) || since.IsZero() {
		t.Errorf("%s since %s, not %s", fault, s, since)
	}
	alert(`usage web {"act":"report"}  => accept`, "model_works")
	fault, s := w.state.ModelFault("web")
	failIf(t, fault != (bcp.ModelFault{}) || !s.IsZero(), "%s since %s", fault, s)
	w.play(`usage web {"act":"report"}  => nothing`)
	alert(`usage web {"act":"report","fault":"rate","http_status":429}  => accept`, "model_fails")
}

// Other definitions change nothing of what counts, and a price that is not known any more is that of the reserve.
//
// covers P15.3
func TestUsageOverReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	reserved := w.play(calling("a", "small", 1000, 1000)).last.Usage.Cost
	next := testMesh()
	next.Models = nil
	w.reload(next)
	d := w.play(called("a", 10, 10)).last
	failIf(t, d.Usage.Cost != reserved || !d.Usage.Unpriced || d.Usage.UsedTokens != 20, "%+v, reserved %s", d.Usage, reserved)
}

// Whatever is asked, in any order: no more counts than the budgets say, but for what providers counted beyond it, and a
// state that is read from its records has the same.
//
// covers P15.3, P15.4
func TestUsageNeverExceeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, testMesh())
		over := int64(0) // tokens that were counted beyond what was reserved
		open := map[string]int64{}
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "minutes")) * time.Minute)
			id := fmt.Sprint("c", rapid.IntRange(0, i).Draw(rt, "id"))
			before := len(w.journal)
			if rapid.Bool().Draw(rt, "settle") {
				n := rapid.Int64Range(0, 60_000).Draw(rt, "counted")
				if w.act(called(id, n, 0)); len(w.journal) > before {
					over += max(0, n-open[id])
				}
				continue
			}
			bytes, tokens := rapid.Int64Range(1, 50_000).Draw(rt, "bytes"), rapid.Int64Range(1, 30_000).Draw(rt, "tokens")
			if w.act(calling(id, "small", bytes, tokens)); len(w.journal) == before || w.last.Verdict != bcp.Accept {
				continue
			}
			used := w.last.Usage
			if open[id] = used.Tokens; used.UsedTokens > 100_000+over || used.UsedCost > bcp.Dollar/2+bcp.USD(over)*5000 {
				rt.Fatalf("%+v, %d beyond", used, over)
			}
		}
		w.play("")
	})
}
