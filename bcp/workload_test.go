package bcp_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// WorkloadInputs is how many varied answers a workload has: a constant input flatters the
// branch predictor.
const WorkloadInputs = 1024

// Workload is answers of one category to measure with.
type Workload struct {
	Name   string
	Spec   bcp.Spec
	honest func(*rand.Rand) string
	// before and behind enclose the text that an attacker fills.
	before, behind string
	// PerSecond and Ratio are the targets on one core: answers a second, and
	// against encoding/json decoding the same bytes to a map.
	PerSecond, Ratio float64
}

// Workloads returns one workload of each category, in their order.
func Workloads() []Workload {
	one, five := int64(1), int64(5)
	return []Workload{
		{
			Name: "category=1", PerSecond: 8e6, Ratio: 2.5,
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{
				{Name: "is_urgent", Type: bcp.TypeBoolean},
				{Name: "sentiment", Type: bcp.TypeEnum, Values: []string{"positive", "neutral", "negative"}},
				{Name: "confidence", Type: bcp.TypeInteger, Min: &one, Max: &five},
			}},
			honest: func(r *rand.Rand) string {
				members := []string{
					fmt.Sprintf(`"is_urgent":%t`, r.IntN(2) == 0),
					fmt.Sprintf(`"sentiment":%q`, pick(r, "positive", "neutral", "negative")),
					fmt.Sprintf(`"confidence":%d`, 1+r.IntN(5)),
				}
				r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
				return "{" + strings.Join(members, pick(r, ",", ", ")) + "}"
			},
			before: `{"is_urgent":true,"confidence":1,"sentiment":"`, behind: `"}`,
		},
		{
			Name: "category=2", PerSecond: 1e6, Ratio: 0.6,
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{
				{ID: "q1", Question: "What is the sender's full name?", MaxWords: 5, ExpectedFormat: bcp.FormatPersonName},
				{ID: "q2", Question: "What date is the meeting scheduled for?", MaxWords: 4, ExpectedFormat: bcp.FormatDate},
				{ID: "q3", Question: "What are the three action items listed?", MaxWords: 30, ExpectedFormat: bcp.FormatShortList},
			}},
			honest: func(r *rand.Rand) string {
				name := pick(r, "Maria", "John", "Aisha", "Peter", "Olga") + " " + pick(r, "del Carmen ", "J. ", "van der ", "") +
					pick(r, "Gonzalez", "O'Brien", "Smith-Jones", "Nakamura", "Berg")
				date := pick(r, "2026-03-15", "March 15", "15 March 2026", "Mar 5, 2026", "September 3rd, 2027")
				return padTo(fmt.Sprintf(`{"q1":%q,"q2":%q,"q3":"%s"}`, name, date, "1. "+prose(r, 7)+`\n2. `+prose(r, 8)+`\n3. `+prose(r, 7)), 236)
			},
			before: `{"q1":"Maria Gonzalez","q2":"March 15, 2026","q3":"`, behind: `"}`,
		},
		{
			Name: "category=3", PerSecond: 300e3, Ratio: 0.35,
			Spec: bcp.Spec{Category: 3, Directive: "Summarize the key findings of this document.", MaxWords: 100},
			honest: func(r *rand.Rand) string {
				var b strings.Builder
				for range 10 {
					s := prose(r, 10)
					b.WriteString(strings.ToUpper(s[:1]) + s[1:] + ". ")
				}
				return `{"summary":"` + strings.TrimSpace(b.String()) + `"}`
			},
			before: `{"summary":"`, behind: `"}`,
		},
	}
}

func pick(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

func prose(r *rand.Rand, n int) string {
	words := []string{"the", "vendor", "moves", "delivery", "to", "next", "week", "budget", "review", "with", "finance", "team",
		"contract", "signed", "by", "both", "parties", "invoice", "paid", "after", "quarter", "report", "meeting", "room",
		"and", "open", "questions", "about", "shipping", "costs", "remain", "for", "a", "second", "round"}
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = words[r.IntN(len(words))]
	}
	return strings.Join(chosen, " ")
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

func padTo(s string, size int) string {
	if len(s) >= size {
		return s
	}
	return s + strings.Repeat(" ", size-len(s))
}

// Inputs returns the same [WorkloadInputs] answers each time: honest ones, or as long
// ones of an attacker.
func (w Workload) Inputs(hostile bool) [][]byte {
	r := rand.New(rand.NewPCG(7, 11))
	inputs := make([][]byte, WorkloadInputs)
	for i := range inputs {
		s := w.honest(r)
		if hostile {
			s = w.Attack(pick(r, HostileUnits...), len(s))
		}
		inputs[i] = []byte(s)
	}
	return inputs
}
