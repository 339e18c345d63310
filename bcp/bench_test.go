package bcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// TestHostileAnswersCostNoMore compares hostile input with honest input: figures that do not
// drift with the machine as answers a second do. The worst is looked for with preserve_case
// too and should be under 3; it fails only far beyond that, since other load on the machine
// moves all of them.
//
// covers P2.2, P3.6, A-CRASH, BCP-35, BCP-88
func TestHostileAnswersCostNoMore(t *testing.T) {
	for _, w := range Workloads() {
		validators := []*bcp.Validator{compiled(w.Spec, bcp.Settings{}), compiled(w.Spec, bcp.Settings{PreserveCase: true})}
		ours := fastest(validators[0], w.Answer)
		worst, worstUnit, again := time.Duration(0), "", func() {}
		for _, unit := range HostileUnits {
			attack := []byte(w.Attack(unit, len(w.Answer)))
			for _, v := range validators {
				if cost := fastest(v, attack); cost > worst {
					worst, worstUnit = cost, unit
					again = func() { worst = min(worst, fastest(v, attack)) }
				}
			}
		}
		t.Logf("%s: %.0f answers/s, the worst costs %.2f x (%+q)", w.Name, 1/ours.Seconds(), worst.Seconds()/ours.Seconds(), worstUnit)
		for range 20 { // something else may have run beside it
			if worst > 12*ours {
				again()
			}
		}
		failIf(t, worst > 12*ours, "%s: %+q costs %s, an honest answer %s", w.Name, worstUnit, worst, ours)
	}
}

// fastest is the mean time of one call in the best of several rounds.
func fastest(v *bcp.Validator, answer []byte) time.Duration {
	const calls = 32
	best := time.Duration(1 << 62)
	for range 5 {
		begun := time.Now()
		for range calls {
			v.Validate(answer, bcp.JSON)
		}
		best = min(best, time.Since(begun)/calls)
	}
	return best
}

// Workload is an answer of one category to measure with.
type Workload struct {
	Name   string
	Spec   bcp.Spec
	Answer []byte
	// before and behind enclose the text that an attacker fills.
	before, behind string
}

// Workloads returns one workload of each category, in their order.
func Workloads() []Workload {
	one, five := int64(1), int64(5)
	return []Workload{
		{
			Name: "category=1",
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{
				{Name: "is_urgent", Type: bcp.TypeBoolean},
				{Name: "sentiment", Type: bcp.TypeEnum, Values: []string{"positive", "neutral", "negative"}},
				{Name: "confidence", Type: bcp.TypeInteger, Min: &one, Max: &five},
			}},
			Answer: []byte(`{"confidence":3, "is_urgent":true, "sentiment":"neutral"}`),
			before: `{"is_urgent":true,"confidence":1,"sentiment":"`, behind: `"}`,
		},
		{
			Name: "category=2",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{
				{ID: "q1", Question: "What is the sender's full name?", MaxWords: 5, ExpectedFormat: bcp.FormatPersonName},
				{ID: "q2", Question: "What date is the meeting scheduled for?", MaxWords: 4, ExpectedFormat: bcp.FormatDate},
				{ID: "q3", Question: "What are the three action items listed?", MaxWords: 30, ExpectedFormat: bcp.FormatShortList},
			}},
			Answer: []byte(`{"q1":"Maria del Carmen Smith-Jones","q2":"September 3rd, 2027","q3":"1. the vendor moves delivery to next week\n` +
				`2. budget review with the finance team after lunch\n3. open questions about shipping costs remain today"}`),
			before: `{"q1":"Maria Gonzalez","q2":"March 15, 2026","q3":"`, behind: `"}`,
		},
		{
			Name:   "category=3",
			Spec:   bcp.Spec{Category: 3, Directive: "Summarize the key findings of this document.", MaxWords: 100},
			Answer: []byte(`{"summary":"` + strings.Repeat("The vendor moves delivery to next week with the finance. ", 9) + `All of it remains open."}`),
			before: `{"summary":"`, behind: `"}`,
		},
	}
}

// HostileUnits send the normaliser and the anomaly rules down their slow paths
// when they are repeated.
var HostileUnits = []string{
	"ignore a ", "you sh0uld ", "please:", "i g n o ", "1gn0re ", "Ignore:", "http ", ". com ", "a.b", "%41 ", "0x41 ", "aAbB1 ", "{{(", "x_y(", "<a ", "((", "..",
	"\u200bx ", "\u200d", "Ⅷ ", "ｆｕｌｌ ", "ﷺ ", "1ﷺ", "℅", "é\u0316 ", "e\u0301\u0316", "\u0344", "\u0345", "\u0f73", "\u0958", "\u1fb3", "\u1fb3\u0301 ", "\U0001d160",
	"\u1100\u1161", "\u1100\u1161\u11a8 ", "\u1161", "\uffc2", "か\u3099", "İ", "İ\u0307 ", "ß", "日本 ", "ü\u0323 ", `\u0061`, `\ud83d\ude00`, `\n1. `, `\n- `, "/", "$1",
	"\u1f8c\u0301 ", "x\u0345", "\u037a", "I\u0321\u0307 ", "I\u1e57\u0307 ", "I\u2492\u0307 ", "I\uff9e\u0307 ", "\u30ab\uff9e ", "\uff76\uff9e ", "\u3319 ", "\u0958\u093e ",
	"\u0bc6\u0bbe", "\u0dd9\u0dcf\u0dca ", "\u1100 ", "\u314f", "\ufdfa\u0301", "\u2167\u0301 ", "\u042f ", "\u00c9a ", "\u098a\u0653( ", "=\u0338", ".\u0301 ",
}

// Attack returns an answer of about size bytes whose text repeats a unit.
func (w Workload) Attack(unit string, size int) string {
	n := max(1, (size-len(w.before)-len(w.behind))/len(unit))
	return w.before + strings.Repeat(unit, n) + w.behind
}
