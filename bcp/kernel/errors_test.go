package kernel_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// mailTo is a call that needs no rule if no content chose a part of it.
func mailTo(to, body string) string {
	return fmt.Sprintf(`{"kind":"tool","id":"send","tool":"send_email","args":{"to":%q,"body":%q}}`, to, body)
}

// A plan that was made after an error which content chose is under control of it: its
// literals carry the bits that the planner was told, and a write needs a rule. An
// address of the requester's own is what it is.
// covers KER-1, KER-30, KER-48, KER-80, DUAL-42
func TestPlansAfterErrorsAreUnderControl(t *testing.T) {
	t.Parallel()
	unsure := moves(results(mail), unanswered(bcp.NotEnoughInformation))
	failed := outcomes(`"error":"no"`)
	for _, c := range []struct {
		name, first string
		fail        func(*gateway)
		rule, next  string
		code        kernel.Code // of the call after the error; empty: it is made
	}{
		{"an answer that there is none", steps(inbox, parse), unsure, "", mailTo("evil@example.com", "a"), kernel.NotDeclassified},
		{"a read that fails", steps(inbox), failed, "", mailTo("evil@example.com", "a"), kernel.NotDeclassified},
		{"a write without arguments", steps(inbox), failed, "", `{"kind":"tool","id":"send","tool":"ring"}`, kernel.NotDeclassified},
		{"a plan that is none told nothing", `{"steps":[]}`, func(*gateway) {}, "", mailTo("evil@example.com", "a"), ""},
		{"to oneself, by the rule about that", steps(inbox, parse), unsure, "", mailTo("kim@example.com", "a"), ""},
		{"by a rule that does not say how many bits", steps(inbox), failed, `args.to.value == "evil@example.com"`, mailTo("evil@example.com", "a"), kernel.NotDeclassified},
		{"by a rule that takes fewer", steps(inbox), failed, `args.to.value == "boss@example.com" && control.bits < 5`, mailTo("boss@example.com", "a"), kernel.NotDeclassified},
		{"by a rule that takes as many", steps(inbox), failed, `args.to.value == "boss@example.com" && control.bits <= 5`, mailTo("boss@example.com", "a"), ""},
		{"whom the task names", steps(inbox), failed, `task.mentions(args.to)`, mailTo("boss@example.com", "a"), ""},
		{"whom it does not", steps(inbox), failed, `task.mentions(args.to)`, mailTo("evil@example.com", "a"), kernel.NotDeclassified},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := mustKernel(t, func(d *kernel.Definition) {
				ring := sendEmail
				ring.Name, ring.Input = "ring", mustType(shape())
				d.Tools = append(d.Tools, ring)
				if d.UntestedRules = true; c.rule != "" {
					d.Rules = append(d.Rules, kernel.Rule{ID: "r", Effect: kernel.Declassify, Tool: "send_email", When: c.rule})
				}
			})
			g := newGateway(t, k)
			g.store(g.state.DecideRun(g.moment(), "desk", kim, "all", kernel.Trusted(), []byte(`{"task":"Mail it to boss@example.com."}`)))
			g.plan(c.first)
			c.fail(g)
			change := g.plan(steps(c.next))
			judged := change.Steps[0]
			if c.code != "" {
				if g.end(kernel.Blocked, c.code); strings.Contains(g.calls(), "send_email") || strings.Contains(g.calls(), "ring") {
					t.Errorf("calls %s", g.calls())
				}
				if to := judged.Arguments; len(to) > 0 && (!to[1].Label.Tainted() || to[1].Label.Width() == 0 || to[1].Label.Influence[0].Origin != "!1") {
					t.Errorf("the label of the recipient is %s", spelled(to[1].Label))
				}
				return
			}
			g.result(sent)
			g.end(kernel.Committed, "")
		})
	}
}

// A hostile planner, whose every plan is made of the errors that it was told, and content
// that answers in every way: without a rule no write is made that the first plan did not
// have, and of its writes only a beginning.
// covers KER-1, KER-30, KER-48, DUAL-80
func TestErrorsChooseNoWrite(t *testing.T) {
	t.Parallel()
	k := smallKernel(t, func(d *kernel.Definition) { d.Limits.MaxPlans = 3 })
	replans, writes := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		seed, longest := rapid.Uint32().Draw(t, "seed"), ""
		for c, rounds := (&choices{}), 0; rounds < 300; rounds++ {
			g := newGateway(t, k)
			g.replay = false
			g.begin("all")
			for g.todo[0].Kind != kernel.ReleaseOutcome {
				switch r := g.todo[0]; r.Kind {
				case kernel.ReleasePlan:
					if strings.Contains(string(r.Body), `"errors":[{`) {
						replans++
					}
					_, told, _ := strings.Cut(string(r.Body), `"errors":`)
					told, _, _ = strings.Cut(told, `]`)
					g.plan(hostilePlan(fmt.Sprint(seed, told)))
				case kernel.ReleaseParse:
					if c.next(2) == 0 {
						g.answer("", bcp.NotEnoughInformation)
					} else {
						g.answer(`{"u":true,"v":"a"}`, "")
					}
				case kernel.ReleaseCall:
					if r.Tool.Name == "tell" || c.next(2) == 0 {
						g.result("true")
					} else {
						g.outcome(g.next(kernel.ReleaseCall), `"error":"no"`)
					}
				default:
					g.todo = g.todo[1:]
				}
			}
			var told []string
			for _, call := range strings.Fields(g.calls()) {
				if strings.HasPrefix(call, "tell") {
					told = append(told, call)
				}
			}
			writes += len(told)
			trace := strings.Join(told, " ")
			stopIf(t, !strings.HasPrefix(longest, trace) && !strings.HasPrefix(trace, longest),
				"content chose between %q and %q", trace, longest)
			longest = max(longest, trace)
			if !c.count() {
				break
			}
		}
	})
	failIf(t, replans == 0 || writes == 0, "%d plans after errors, %d writes: the check shows nothing", replans, writes)
}

// hostilePlan makes a plan of what its planner knows.
func hostilePlan(knows string) string {
	h := fnv.New32a()
	h.Write([]byte(knows))
	list := []string{`{"kind":"const","id":"c","value":"a"}`}
	for i, n := 0, h.Sum32(); i < 4; i, n = i+1, n/5 {
		switch n % 5 {
		case 0, 1:
			list = append(list, fmt.Sprintf(`{"kind":"tool","id":"s%d","tool":"tell","args":{"a":%t,"b":%q}}`, i, n/5%2 == 0, "abc"[n%3:n%3+1]))
		case 2:
			list = append(list, fmt.Sprintf(`{"kind":"tool","id":"s%d","tool":"coin"}`, i))
		default:
			list = append(list, fmt.Sprintf(`{"kind":"q_parse","id":"s%d","source":{"ref":"c"},"schema_ref":"Flags","instruction":"%d"}`, i, i))
		}
	}
	return `{"steps":[` + strings.Join(list, ",") + `],"final":"c"}`
}
