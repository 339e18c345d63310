package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// rightFacts are those of a mesh that keeps all contracts, at every level.
func rightFacts(t testing.TB) contract.Facts {
	t.Helper()
	f := contract.Facts{
		Roles: &contract.Claim{JWTs: bcp.Digest{1}}, Effects: &contract.Claim{JWTs: bcp.Digest{1}},
		Messages: []contract.MessageType{
			{From: contract.User, To: contract.Orchestrator, Kind: "task", Holds: []contract.Column{contract.UserQuery}},
			{From: contract.Orchestrator, To: contract.Planner, Kind: "plan_request", Holds: []contract.Column{contract.UserQuery}},
			{From: contract.Orchestrator, To: contract.Planner, Kind: "error"},
			{From: contract.Planner, To: contract.Orchestrator, Kind: "plan", Holds: []contract.Column{contract.Plan}},
			{From: contract.Orchestrator, To: contract.Processor, Kind: "content", Holds: []contract.Column{contract.ExternalData}},
			{From: contract.Processor, To: contract.Orchestrator, Kind: "structured_data", Holds: []contract.Column{contract.ExternalData}},
		},
		Decoders: []contract.SelfTest{{Output: "planner.output", Passed: 3}, {Output: "processor.output", Passed: 5}},
		Rules:    &contract.Rules{Digest: bcp.Digest{2}},
		Build:    &contract.Build{Version: "v1", PureInterpreter: true},
	}
	for _, b := range contract.Builtins() {
		for _, i := range mustParse(t, []byte(b.Bytes)).Invariants {
			f.Monitors = append(f.Monitors, contract.Monitor{Predicate: i.Predicate, Checked: 7, Since: time.Unix(0, 0)})
		}
	}
	return f
}

func verdicts(r contract.Report) []contract.Verdict {
	var list []contract.Verdict
	for _, i := range r.Invariants {
		list = append(list, i.Verdict)
	}
	return list
}

// With the facts of a mesh that is right each contract holds; without any nothing
// holds, and nothing fails.
// covers DUAL-73, DUAL-74
func TestContractsHold(t *testing.T) {
	t.Parallel()
	for _, b := range contract.Builtins() {
		c := mustParse(t, []byte(b.Bytes))
		r := contract.Verify(c, rightFacts(t))
		failIf(t, !r.OK, "%s: %+v", b.Name, r)
		for _, i := range r.Invariants {
			failIf(t, len(i.Shown) == 0 || i.Shown[0] < i.Declared || !slices.IsSortedFunc(i.Shown, func(a, b contract.Level) int { return int(b) - int(a) }),
				"%s %s is shown at %v", b.Name, i.ID, i.Shown)
		}
		none := contract.Verify(c, contract.Facts{})
		for _, v := range verdicts(none) {
			failIf(t, none.OK || v != contract.Unverified, "%s without facts: %s", b.Name, v)
		}
	}
}

// Each cause that can break an invariant makes it fail, whatever else speaks for it,
// and the evidence names it.
// covers DUAL-73, DUAL-74
func TestContractsFail(t *testing.T) {
	t.Parallel()
	hole := func(role contract.Role, column contract.Column, to contract.Role) []contract.Hole {
		return []contract.Hole{{Role: role, Column: column, To: to, Way: "by a grant too many"}}
	}
	for _, c := range []struct {
		name, contract string
		change         func(f *contract.Facts)
		want           []contract.Verdict
		detail         string
	}{
		{"the planner hears outcomes", "planner-v1", func(f *contract.Facts) { f.Roles.Holes = hole(contract.Planner, contract.ToolOutputs, "") }, []contract.Verdict{"fails", "fails", "holds"}, "by a grant too many"},
		{"the planner hears content", "planner-v1", func(f *contract.Facts) { f.Roles.Holes = hole(contract.Planner, contract.ExternalData, "") }, []contract.Verdict{"holds", "fails", "holds"}, "by a grant too many"},
		{"a processor writes to the planner", "planner-v1", func(f *contract.Facts) { f.Roles.Holes = hole(contract.Processor, "", contract.Planner) }, []contract.Verdict{"holds", "fails", "holds"}, "by a grant too many"},
		{"somebody else's hole", "planner-v1", func(f *contract.Facts) { f.Roles.Holes = hole(contract.Tool, contract.Plan, "") }, []contract.Verdict{"holds", "unverified", "holds"}, ""},
		{"a message with room for outcomes", "planner-v1", func(f *contract.Facts) { f.Messages[2].Holds = []contract.Column{contract.ToolOutputs} }, []contract.Verdict{"fails", "holds", "holds"}, "the message error has room for it"},
		{"a decoder that fails a vector", "planner-v1", func(f *contract.Facts) { f.Decoders[0].Failed = 1 }, []contract.Verdict{"holds", "holds", "fails"}, "3 vectors passed, 1 failed; the restricted language is the typed plan (plan-ir/1)"},
		{"no decoder", "planner-v1", func(f *contract.Facts) { f.Decoders = nil }, []contract.Verdict{"holds", "holds", "unverified"}, ""},
		{"a decoder that tried nothing", "planner-v1", func(f *contract.Facts) { f.Decoders[0] = contract.SelfTest{Output: "planner.output"} }, []contract.Verdict{"holds", "holds", "unverified"}, ""},
		{"a violation at run time", "planner-v1", func(f *contract.Facts) { f.Monitors[0].Violated, f.Monitors[0].First = 1, 4711 }, []contract.Verdict{"fails", "holds", "holds"}, "checked 7 times since 1970-01-01T00:00:00Z, violated 1 times"},
		{"no proof", "planner-v1", func(f *contract.Facts) { f.Roles = nil }, []contract.Verdict{"holds", "unverified", "holds"}, ""},

		{"a processor that calls", "processor-v1", func(f *contract.Facts) { f.Effects.Holes = hole(contract.Processor, "", contract.Tool) }, []contract.Verdict{"fails", "holds", "holds"}, "by a grant too many"},
		{"no claim about effects", "processor-v1", func(f *contract.Facts) { f.Effects = nil }, []contract.Verdict{"unverified", "holds", "holds"}, ""},
		{"a processor's answers are not checked", "processor-v1", func(f *contract.Facts) { f.Decoders[1].Failed = 1 }, []contract.Verdict{"holds", "fails", "holds"}, "5 vectors passed, 1 failed"},
		{"a processor's message to the planner", "processor-v1", func(f *contract.Facts) {
			f.Messages = append(f.Messages, contract.MessageType{From: contract.Processor, To: contract.Planner, Kind: "note"})
		}, []contract.Verdict{"holds", "holds", "fails"}, "there is a message note"},

		{"an interpreter that is not pure", "orchestrator-v1", func(f *contract.Facts) { f.Build.PureInterpreter = false }, []contract.Verdict{"unverified", "holds", "holds", "holds"}, ""},
		{"an effect by another way", "orchestrator-v1", func(f *contract.Facts) { f.Effects.Holes = hole(contract.Tool, "", contract.Tool) }, []contract.Verdict{"holds", "fails", "holds", "holds"}, "by a grant too many"},
		{"a rule that reads data", "orchestrator-v1", func(f *contract.Facts) { f.Rules.ReadData = []string{"mail-to-self"} }, []contract.Verdict{"holds", "holds", "fails", "holds"}, "rules that read data: mail-to-self"},
		{"another message to the planner", "orchestrator-v1", func(f *contract.Facts) {
			f.Messages = append(f.Messages, contract.MessageType{From: contract.Orchestrator, To: contract.Planner, Kind: "structured_data"})
		}, []contract.Verdict{"holds", "holds", "holds", "fails"}, "there is a message structured_data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := rightFacts(t)
			c.change(&f)
			r := contract.Verify(mustParse(t, builtin(t, c.contract)), f)
			diff := cmp.Diff(c.want, verdicts(r))
			failIf(t, diff != "" || r.OK, "OK %t (-want +got):\n%s", r.OK, diff)
			var details []string
			for _, i := range r.Invariants {
				for _, e := range i.Evidence {
					if e.Against {
						details = append(details, e.Detail)
					}
				}
			}
			failIf(t, c.detail != "" && !slices.Contains(details, c.detail),
				"the evidence does not say %q: %q", c.detail, details)
		})
	}
}

// A prohibition is shown like an invariant, and a contract whose prohibitions are not
// shown is not kept.
// covers DUAL-54, DUAL-55
func TestProhibitionsAreShown(t *testing.T) {
	t.Parallel()
	c := mustParse(t, builtin(t, "processor-v1"))
	r := contract.Verify(c, rightFacts(t))
	want := []string{
		"has_none(processor, tools)", "never_receives(processor, user_query)",
		"only_messages(processor, planner, [structured_data, not_enough_information])", "never_receives(processor, tool_outputs)",
	}
	for i, p := range r.Prohibited {
		failIf(t, p.Predicate != want[i] || len(p.Shown) == 0 || p.Fails, "%+v, want %s", p, want[i])
	}
	f := rightFacts(t)
	f.Roles.Holes = []contract.Hole{{Role: contract.Processor, Column: contract.UserQuery, Way: "x"}}
	r = contract.Verify(c, f)
	failIf(t, r.OK || !r.Prohibited[1].Fails, "a processor that hears tasks: %+v", r.Prohibited)
	// A capability that is prohibited, and that nothing shows to be missing.
	b := edit(t, "planner-v1", func(m map[string]any) {
		m["contract:capabilities"], m["contract:prohibited"] = []any{}, []any{"generate_plan"}
	})
	r = contract.Verify(mustParse(t, b), rightFacts(t))
	failIf(t, r.OK || r.Prohibited[0].Predicate != "unverified", "%+v", r.Prohibited)
}

// A promise that the matrix or the edges contradict fails, however clean the proof is.
func TestFalsePromisesFail(t *testing.T) {
	t.Parallel()
	for _, p := range []map[string]any{
		{"name": "never_receives", "args": []any{"planner", "user_query"}},
		{"name": "never_receives", "args": []any{"processor", "external_data"}},
		{"name": "never_receives", "args": []any{"orchestrator", "tool_outputs"}},
		{"name": "has_none", "args": []any{"orchestrator", "tools"}},
	} {
		b := edit(t, "planner-v1", func(m map[string]any) { first(m)["formal"], first(m)["predicate"] = "x", p })
		r := contract.Verify(mustParse(t, b), rightFacts(t))
		failIf(t, r.Invariants[0].Verdict != contract.Fails, "%v: %s", p, r.Invariants[0].Verdict)
	}
}

// Less knowledge never makes a contract hold, and neither does one hole or violation
// more: whatever is first taken away from right facts, and then planted in them, what
// holds held before.
func TestVerifyIsMonotone(t *testing.T) {
	t.Parallel()
	right := rightFacts(t)
	var contracts []contract.Contract
	for _, b := range contract.Builtins() {
		contracts = append(contracts, mustParse(t, []byte(b.Bytes)))
	}
	roles := rapid.SampledFrom(contract.Roles())
	taken := []func(*contract.Facts){
		func(f *contract.Facts) { f.Roles = nil }, func(f *contract.Facts) { f.Effects = nil }, func(f *contract.Facts) { f.Decoders = nil },
		func(f *contract.Facts) { f.Monitors = nil }, func(f *contract.Facts) { f.Build = nil }, func(f *contract.Facts) { f.Rules = nil },
	}
	rapid.Check(t, func(t *rapid.T) {
		planted := []func(*contract.Facts){
			func(f *contract.Facts) {
				h := contract.Hole{Role: roles.Draw(t, "role"), Way: "x"}
				if rapid.Bool().Draw(t, "hears") {
					h.Column = rapid.SampledFrom(contract.Columns()).Draw(t, "column")
				} else {
					h.To = roles.Draw(t, "to")
				}
				claim := contract.Claim{Holes: []contract.Hole{h}}
				if f.Roles != nil {
					claim.Holes = append(claim.Holes, f.Roles.Holes...)
				}
				f.Roles = &claim
			},
			func(f *contract.Facts) {
				f.Monitors = slices.Clone(f.Monitors)
				for i := range f.Monitors {
					f.Monitors[i].Violated++
				}
			},
			func(f *contract.Facts) {
				f.Messages = append(slices.Clip(f.Messages), contract.MessageType{From: roles.Draw(t, "from"), To: roles.Draw(t, "to"), Kind: "note", Holds: contract.Columns()})
			},
		}
		before := right
		for _, changes := range [][]func(*contract.Facts){taken, taken, planted, planted} {
			after := before
			rapid.SampledFrom(changes).Draw(t, "change")(&after)
			for _, c := range contracts {
				was, is := contract.Verify(c, before), contract.Verify(c, after)
				stopIf(t, is.OK && !was.OK, "the contract of the %s holds by less", c.Role)
				for i := range is.Invariants {
					stopIf(t, is.Invariants[i].Verdict == contract.Holds && was.Invariants[i].Verdict != contract.Holds,
						"%s %s holds by less", c.Role, is.Invariants[i].ID)
				}
			}
			before = after
		}
	})
}
