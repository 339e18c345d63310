package constraint_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

var variables = []bcp.Variable{
	{Name: "q_is_q1", Kind: bcp.KindBool},
	{Name: "q_date", Kind: bcp.KindDate},
	{Name: "n", Kind: bcp.KindInt},
	{Name: "name", Kind: bcp.KindText},
	{Name: "q_other", Kind: bcp.KindDate},
}

func values(isQ1 bool, date bcp.Date, n int64, name string, other bcp.Date) []bcp.Value {
	return []bcp.Value{
		{Kind: bcp.KindBool, Bool: isQ1}, {Kind: bcp.KindDate, Date: date}, {Kind: bcp.KindInt, Int: n},
		{Kind: bcp.KindText, Text: name}, {Kind: bcp.KindDate, Date: other},
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

func compiled(expression string) bcp.Constraint {
	return must(constraint.Compile(expression, variables))
}

// covers P3.7
func TestLanguage(t *testing.T) {
	t.Parallel()
	date := bcp.Date{Year: 2026, Month: 3, Day: 15}
	tests := []struct {
		expression string
		want       bool
	}{
		{"q_is_q1", true},
		{"!q_is_q1 || n == 7", true},
		{"n in [1, 7, 9]", true},
		{"name in ['low', \"high\"]", false},
		{"n % 2 == 1 && n / 2 == 3 && n * n == 49 && n + 1 - 2 == 6 && -n < 0", true},
		{"name == 'jane doe'", true},
		{"name.size() == 8 && size(name) == 8", true},
		{"name.contains('e d') && name.startsWith('jane') && name.endsWith('doe')", true},
		{"name < 'k'", true},
		{"has(q_date.year) && q_date.year == 2026 && q_date.day == 15", true},
		{"has(q_other.year)", false},
		{"has(q_other.year) ? q_other.year > 2000 : q_other.month == 3", true},
		{"q_other.year == 0", true},
		{"q_date == q_date", true},
		{"q_date == q_other", false},
		{"q_date != q_other", true},
		{"q_date.month == q_other.month && q_date.day == q_other.day", true},
		{"true", true},
	}
	for _, tt := range tests {
		got, err := compiled(tt.expression).Holds(values(true, date, 7, "jane doe", bcp.Date{Month: 3, Day: 15}))
		failIf(t, got != tt.want || err != nil, "%s: %v, %v", tt.expression, got, err)
	}
}

// What is not in the language is refused when the spec is compiled, with the
// place in the expression.
//
// covers P3.7
func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ expression, want string }{
		{"", "1 to 1024 bytes"},
		{strings.Repeat(" ", bcp.MaxConstraintBytes-4) + "true ", "1 to 1024 bytes"},
		{"\xff", "UTF-8"},
		{"n", "expected a condition that is true or false, got int"},
		{"q_date", "got date"},
		{"n ==", "1:5: "},
		{"n == 1 )", "1:8: "},
		{"n == 'x'", "1:3: "},
		{"n == 1.0", "1:3: "},
		{"1.5 == 1.5", "1:1: expected true, false, a whole number or text"},
		{"b'x' == b'x'", "1:1: expected true"},
		{"null == null", "expected true"},
		{"1u == 1u", "expected true"},
		{"q_dat.month == 3", "1:1: \"q_dat\" is no answer of this spec and no function; the answers are q_is_q1, q_date, n"},
		{"elsewhere", "the answers are q_is_q1, q_date, n, name, q_other"},
		{"q_date.mounth == 3", "1:7: "},
		{"has(q_date.mounth)", "1:4: "},
		{"name.matches('(a+)+$')", "1:13: "},
		{"matches(name, 'a')", "1:8: "},
		{"timestamp('2026-01-01T00:00:00Z') > timestamp('2025-01-01T00:00:00Z')", "1:10: "},
		{"duration('1s') == duration('1s')", "1:9: "},
		{"q_date.getMonth() == 3", "1:16: "},
		{"now() == now()", "1:4: "},
		{"string(n) == '7'", "1:7: "},
		{"int(name) == 7", "1:4: "},
		{"double(n) == 7.0", "1:7: "},
		{"dyn(n) == dyn(name)", "1:4: "},
		{"type(n) == int", "1:5: "},
		{"name + name == name", "1:6: "},
		{"[1, 2][0] == 1", "1:7: "},
		{"{'a': 1}.a == 1", "maps, objects"},
		{"date{month: 3} == q_date", "no answer of this spec"},
		{"constraint.date{month: 3} == q_date", "objects"},
		{"q_date < q_date", "(date, date)"},
		{"[1, 2, 3].all(x, x > 0)", "1:"},
		{"[1, 2, 3].exists(x, x > n)", "1:"},
		{"[1, 2].map(x, x * 2) == [2, 4]", "1:"},
		{"q_date < q_other", "1:8: "},
		{"9223372036854775808 == n", "1:1: "},
	}
	for _, tt := range tests {
		c, err := constraint.Compile(tt.expression, variables)
		failIf(t, err == nil || c != nil || !strings.Contains(err.Error(), tt.want),
			"%.60s: got %v, want an error with %q", tt.expression, err, tt.want)
	}
}

// covers P3.7
func TestLongestExpression(t *testing.T) {
	t.Parallel()
	compiled(strings.Repeat(" ", bcp.MaxConstraintBytes-4) + "true")
}

// An expression that could cost too much is refused before it ever sees a
// value, and one within the bounds stays fast on the longest answers.
//
// covers P3.7
func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	bombs := []string{
		"name.contains(name)",
		strings.Repeat("name.contains('aaaaaaaaaaaaaaaaaaab') || ", 24) + "true",
		strings.Repeat("name == name && ", 60) + "true",
		strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200),
		strings.Repeat("!(", 300) + "true" + strings.Repeat(")", 300),
		strings.Repeat("[", 200) + strings.Repeat("]", 200) + " == []",
		strings.Repeat("n+", 400) + "n == n",
		"n in [" + strings.Repeat("n,", 300) + "n]",
	}
	for _, bomb := range bombs {
		stopIf(t, len(bomb) > bcp.MaxConstraintBytes, "%.30s has %d bytes", bomb, len(bomb))
		_, err := constraint.Compile(bomb, variables)
		failIf(t, err == nil, "%.60s compiles", bomb)
	}
	c := compiled("name.contains('" + strings.Repeat("x", 40) + "') || name == 'y' || name < 'b'")
	longest := strings.Repeat("a", bcp.MaxAnswerChars)
	got, err := c.Holds(values(true, bcp.Date{}, 0, longest, bcp.Date{}))
	failIf(t, !got || err != nil, "longest answer: %v, %v", got, err)
	// Longer than any answer: the limit while it runs refuses.
	got, err = c.Holds(values(true, bcp.Date{}, 0, strings.Repeat(longest, 100), bcp.Date{}))
	failIf(t, got || !errors.Is(err, constraint.ErrEvaluation), "too long an answer: %v, %v", got, err)
}

// A condition without a result does not hold.
//
// covers P3.7
func TestErrorsDeny(t *testing.T) {
	t.Parallel()
	tests := []struct {
		expression string
		n          int64
	}{
		{"n + 1 > n", math.MaxInt64},
		{"n - 1 < n", math.MinInt64},
		{"-n < 0", math.MinInt64},
		{"n * 2 > 0", math.MaxInt64},
		{"10 / n > 0", 0},
		{"10 % n == 0", 0},
		{"n / -1 > 0", math.MinInt64},
	}
	for _, tt := range tests {
		got, err := compiled(tt.expression).Holds(values(true, bcp.Date{}, tt.n, "", bcp.Date{}))
		failIf(t, got || !errors.Is(err, constraint.ErrEvaluation), "%s of %d: %v, %v", tt.expression, tt.n, got, err)
	}
	c := compiled("true")
	for name, wrong := range map[string][]bcp.Value{
		"none": nil, "few": make([]bcp.Value, 4), "zero values": make([]bcp.Value, 5), "many": make([]bcp.Value, 6),
	} {
		got, err := c.Holds(wrong)
		failIf(t, got || !errors.Is(err, constraint.ErrValues), "%s: %v, %v", name, got, err)
	}
}

// Any name that a spec may give an answer must not break the other answers.
//
// covers P3.7
func TestOddNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"int", "string", "bool", "type", "list", "size", "contains", "has", "date", "constraint", "in", "true", "null", "as", "1st", "_", "__", "9", "month"} {
		_, err := constraint.Compile("ok", []bcp.Variable{{Name: "ok", Kind: bcp.KindBool}, {Name: name, Kind: bcp.KindInt}})
		failIf(t, err != nil, "%s: %v", name, err)
	}
	_, err := constraint.Compile("true", []bcp.Variable{{Name: "x"}})
	failIf(t, err == nil, "a variable without a kind is declared")
	many := make([]bcp.Variable, bcp.MaxFields+1)
	_, err = constraint.Compile("true", many)
	failIf(t, err == nil, "more variables than a spec has answers")
}

// covers P3.7
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	shared := compiled("n > 3 && q_date.month == 3")
	for i := range 8 {
		group.Go(func() {
			own, err := constraint.Compile("n > 3 && q_date.month == 3", variables)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range int64(100) {
				v := values(true, bcp.Date{Month: 3, Day: i + 1}, n, "", bcp.Date{})
				for _, c := range []bcp.Constraint{shared, own} {
					got, err := c.Holds(v)
					failIf(t, got != (n > 3) || err != nil, "%d: %v, %v", n, got, err)
				}
			}
		})
	}
	group.Wait()
}

// No expression panics, and what compiles has a result or an error for every
// kind of values.
//
// covers P3.7
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"(q_date.month <= 3) == q_is_q1", "n in [1,2]", "has(q_date.year)", "name.contains('x')", "((((", "[1].all(x, x)", "date{}", "'\\u", "n+n*n/n%n>-n",
		"name.matches('a')", "{1:2}", "`a`", "a.b.c", ".n == 1", "1.e", "\"\"\"x", "r'\\'", "0x10 == n", "true ? n : name",
	} {
		f.Add(seed, int64(1), "text")
	}
	f.Fuzz(func(t *testing.T, expression string, n int64, name string) {
		c, err := constraint.Compile(expression, variables)
		if err != nil {
			failIf(t, c != nil, "a constraint beside an error")
			return
		}
		v := values(n%2 == 0, bcp.Date{Year: 2026, Month: 2, Day: 28}, n, name, bcp.Date{Month: 2, Day: 29})
		first, err1 := c.Holds(v)
		second, err2 := c.Holds(v)
		failIf(t, first != second || (err1 == nil) != (err2 == nil) || (err1 != nil && first),
			"%q: %v %v, then %v %v", expression, first, err1, second, err2)
	})
}
