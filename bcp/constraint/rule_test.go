package constraint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

var factNames = []constraint.FactName{
	{Name: "args.to.value", Kind: constraint.FactText}, {Name: "args.to.tainted", Kind: constraint.FactBool},
	{Name: "args.amount.value", Kind: constraint.FactDecimal}, {Name: "args.amount.influence", Kind: constraint.FactInt},
	{Name: "args.days.value", Kind: constraint.FactTexts}, {Name: "args.hours.value", Kind: constraint.FactInts},
	{Name: "requester.address", Kind: constraint.FactText}, {Name: "run.depth", Kind: constraint.FactInt},
	{Name: "args.cc.value", Kind: constraint.FactTexts, Bytes: 20, Items: 4}, {Name: "task", Kind: constraint.FactPart}, {Name: "args.cc", Kind: constraint.FactPart},
}

// facts are those of one evaluation by name; one that is absent is unreadable.
type facts map[string]constraint.Fact

func (f facts) Fact(i int) constraint.Fact { return f[factNames[i].Name] }

func known(f constraint.Fact) constraint.Fact { f.State = constraint.FactKnown; return f }

// answers is a part that says the same of all others.
type answers struct{ mentions, from, readable constraint.Truth }

func (answers) Mentions(o constraint.Part) constraint.Truth     { return o.(answers).mentions }
func (a answers) From([]string) constraint.Truth                { return a.from }
func (a answers) ReadableBy(o constraint.Part) constraint.Truth { return a.readable }

func TestRule(t *testing.T) {
	t.Parallel()
	some := facts{
		"args.to.value": known(constraint.Fact{Text: "a@example.com"}), "args.to.tainted": known(constraint.Fact{Bool: false}),
		"args.amount.value":     known(constraint.Fact{Decimal: constraint.Decimal{Whole: 98, Fraction: 700_000_000_000_000}}),
		"args.amount.influence": known(constraint.Fact{Int: 11}), "args.days.value": known(constraint.Fact{Texts: []string{"mon", "tue"}}),
		"args.cc.value": known(constraint.Fact{Texts: []string{"a@example.com", "b@example.com"}}), "task": known(constraint.Fact{Part: answers{}}),
		"args.cc":          known(constraint.Fact{Part: answers{mentions: constraint.True, from: constraint.Undecided}}),
		"args.hours.value": known(constraint.Fact{Ints: []int64{9, 10}}), "requester.address": known(constraint.Fact{Text: "a@example.com"}),
	}
	unknown := facts{"args.to.value": {State: constraint.FactUnknown}, "args.to.tainted": some["args.to.tainted"]}
	for _, c := range []struct {
		rule  string
		facts facts
		want  constraint.Truth
	}{
		{"args.to.value == requester.address && !args.to.tainted", some, constraint.True},
		{"args.to.tainted", some, constraint.False},
		{"args.amount.value < 99", some, constraint.True},
		{"args.amount.value >= 98", some, constraint.True},
		{"args.amount.value > 98 && args.amount.value <= 98", some, constraint.False},
		{"args.amount.value <= args.amount.value && args.amount.value == args.amount.value", some, constraint.True},
		{`"tue" in args.days.value`, some, constraint.True},
		{`"wed" in args.days.value`, some, constraint.False},
		{"9 in args.hours.value && !(11 in args.hours.value)", some, constraint.True},
		{`args.days.value == ["mon", "tue"]`, some, constraint.True},

		// Lists, and parts.
		{`args.cc.value.all(a, a.endsWith("@example.com"))`, some, constraint.True},
		{`args.cc.value.exists(a, a == "b@example.com") && args.hours.value.all(h, h < 10)`, some, constraint.False},
		{`args.cc.value.all(a, a == "a@example.com")`, some, constraint.False},
		{`args.cc.value.exists(a, a == args.to.value)`, facts{"args.cc.value": some["args.cc.value"]}, constraint.Failed},
		{`args.cc.value.all(a, true)`, facts{"args.cc.value": {State: constraint.FactUnknown}}, constraint.Undecided},
		{`args.cc.value.all(a, true)`, facts{"args.cc.value": known(constraint.Fact{Texts: []string{"1", "2", "3", "4", "5"}})}, constraint.Failed},
		{`args.cc.value.all(a, true)`, facts{"args.cc.value": known(constraint.Fact{Texts: []string{"123456789012345678901"}})}, constraint.Failed},
		{`task.mentions(args.cc) && args.cc.from("inbox")`, some, constraint.Undecided},
		{`task.mentions(args.cc) || args.cc.from(["inbox", "files"])`, some, constraint.True},
		{`args.cc.readableBy(args.cc)`, some, constraint.Failed},
		{`task.mentions(args.cc)`, facts{"task": some["task"]}, constraint.Failed},

		// What cannot be read is an error, unless the rest decides.
		{"run.depth > 0", some, constraint.Failed},
		{"run.depth > 0 && args.to.tainted", some, constraint.False},
		{"args.to.tainted && run.depth > 0", some, constraint.False},
		{"run.depth > 0 || !args.to.tainted", some, constraint.True},
		{"run.depth > 0 ? true : true", some, constraint.Failed},
		{"1 / (args.amount.influence - 11) == 0", some, constraint.Failed},
		{"args.amount.influence + 9223372036854775807 > 0", some, constraint.Failed},

		// What is not known leaves the rule undecided, unless the rest decides.
		{`args.to.value == "x"`, unknown, constraint.Undecided},
		{`!(args.to.value in ["x", "y"])`, unknown, constraint.Undecided},
		{`args.to.value.startsWith("x") || args.to.value.size() > 3`, unknown, constraint.Undecided},
		{`args.to.value == "x" && args.to.tainted`, unknown, constraint.False},
		{`args.to.value == "x" || !args.to.tainted`, unknown, constraint.True},
		{`args.to.value == "x" ? args.to.tainted : args.to.tainted`, unknown, constraint.Undecided},
		{`args.to.value == "x" && run.depth > 0`, unknown, constraint.Undecided}, // may still be false
	} {
		got := must(constraint.CompileRule(c.rule, factNames)).Evaluate(c.facts)
		failIf(t, got != c.want, "%s: got %d, want %d", c.rule, got, c.want)
	}
}

// covers KER-105
func TestRulesThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"", "true +", "args.to", "args", "args.to.value", "args.cc.tainted", `args.to.value.matches("(a+)+$")`, "args.to.value == 1",
		"args.amount.value == 98", "98 < args.amount.value", "args.amount.value < 98.7", "args.amount.value + 1 > 2", `timestamp("2026-01-01T00:00:00Z") > now`, "now()",
		"args.days.value.map(d, d).size() > 1", "args.days.value.exists_one(d, d == 'mon')", "args.hours.value.filter(h, h > 1) == []",
		"args.days.value.all(d, args.days.value.all(e, e.contains(d)))", "args.to == args.to", "args.to", "task.mentions(args.to.value)", "args.to.mentions(args.to) && matches(args.to)", "{1: 2} == {1: 2}", "dyn(1) == 1", "has(args.to.value)", "true\x00", "\xff",
		strings.Repeat("args.to.tainted || ", 200) + "true",
	} {
		_, err := constraint.CompileRule(rule, factNames)
		failIf(t, err == nil, "%q compiles", rule)
	}
}

// The estimate at compile time bounds an evaluation, because what is longer than
// estimated cannot be read.
func TestRuleReadsNothingTooLong(t *testing.T) {
	t.Parallel()
	for rule, fact := range map[string]func(n int) constraint.Fact{
		`args.to.value.contains("b") || true == false`: func(n int) constraint.Fact { return constraint.Fact{Text: strings.Repeat("b", n<<6)} },
		`"b" in args.days.value`:                       func(n int) constraint.Fact { return constraint.Fact{Texts: slices.Repeat([]string{"b"}, n)} },
		"2 in args.hours.value":                        func(n int) constraint.Fact { return constraint.Fact{Ints: slices.Repeat([]int64{2}, n)} },
	} {
		r := must(constraint.CompileRule(rule, factNames))
		for n, want := range map[int]constraint.Truth{1 << 10: constraint.True, 1<<10 + 1: constraint.Failed} {
			one := known(fact(n))
			got := r.Evaluate(facts{"args.to.value": one, "args.days.value": one, "args.hours.value": one})
			failIf(t, got != want, "%s with %d: got %d, want %d", rule, n, got, want)
		}
	}
	for _, rule := range []string{"args.to.value.contains(args.to.value)", strings.Repeat(`args.to.value.contains("0123456789") || `, 20) + "true"} {
		_, err := constraint.CompileRule(rule, factNames)
		failIf(t, err == nil, "%s could cost too much and compiles", rule)
	}
}

func FuzzCompileRule(f *testing.F) {
	for _, seed := range []string{"args.to.value == requester.address", "!args.to.tainted && args.amount.influence <= 8", "args.amount.value < 5", `"a" in args.days.value`} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, rule string, readable bool) {
		r, err := constraint.CompileRule(rule, factNames)
		if err != nil {
			return
		}
		some := facts{}
		if readable {
			some["args.to.value"], some["args.to.tainted"] = known(constraint.Fact{Text: "x"}), constraint.Fact{State: constraint.FactUnknown}
		}
		first := r.Evaluate(some)
		failIf(t, first != r.Evaluate(some), "%q: two results for the same facts", rule)
	})
}
