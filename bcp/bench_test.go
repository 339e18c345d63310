package bcp_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The three workloads of the issue, each over benchInputs varied answers: a
// constant input flatters the branch predictor.
const benchInputs = 1024

type workload struct {
	name   string
	spec   bcp.Spec
	honest func(*rand.Rand) string
	// before and behind stand around the text that an attacker fills.
	before, behind string
	// perSecond and ratio are the targets on one core: answers a second, and
	// against encoding/json decoding the same bytes to a map.
	perSecond, ratio float64
}

func workloads() []workload {
	one, five := int64(1), int64(5)
	return []workload{
		{
			name: "category=1", perSecond: 3e6, ratio: 2.5,
			spec: bcp.Spec{Category: 1, Fields: []bcp.Field{
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
			name: "category=2", perSecond: 400e3, ratio: 0.6,
			spec: bcp.Spec{Category: 2, Questions: []bcp.Question{
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
			name: "category=3", perSecond: 150e3, ratio: 0.35,
			spec: bcp.Spec{Category: 3, Directive: "Summarize the key findings of this document.", MaxWords: 100},
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

// hostileUnits send the normaliser and the anomaly rules down their slow paths
// when they are repeated.
var hostileUnits = []string{
	"ignore a ", "you sh0uld ", "please:", "i g n o ", "1gn0re ", "Ignore:", "http ", ". com ", "a.b", "%41 ", "0x41 ", "aAbB1 ", "{{(", "x_y(", "<a ", "((", "..",
	"\u200bx ", "\u200d", "Ⅷ ", "ｆｕｌｌ ", "ﷺ ", "1ﷺ", "℅", "é\u0316 ", "e\u0301\u0316", "\u0344", "\u0345", "\u0f73", "\u0958", "\u1fb3", "\u1fb3\u0301 ", "\U0001d160",
	"\u1100\u1161", "\u1100\u1161\u11a8 ", "\u1161", "\uffc2", "か\u3099", "İ", "İ\u0307 ", "ß", "日本 ", "ü\u0323 ", `\u0061`, `\ud83d\ude00`, `\n1. `, `\n- `, "/", "$1",
	"\u1f8c\u0301 ", "x\u0345", "\u037a", "I\u0321\u0307 ", "I\u1e57\u0307 ", "I\u2492\u0307 ", "I\uff9e\u0307 ", "\u30ab\uff9e ", "\uff76\uff9e ", "\u3319 ", "\u0958\u093e ",
	"\u0bc6\u0bbe", "\u0dd9\u0dcf\u0dca ", "\u1100 ", "\u314f", "\ufdfa\u0301", "\u2167\u0301 ", "\u042f ", "\u00c9a ", "\u098a\u0653( ", "=\u0338", ".\u0301 ",
}

// fit repeats a unit between two ends up to size bytes.
func fit(before, unit, behind string, size int) string {
	n := max(1, (size-len(before)-len(behind))/len(unit))
	return before + strings.Repeat(unit, n) + behind
}

func padTo(s string, size int) string {
	if len(s) >= size {
		return s
	}
	return s + strings.Repeat(" ", size-len(s))
}

func (w workload) inputs(hostile bool) [][]byte {
	r := rand.New(rand.NewPCG(7, 11))
	inputs := make([][]byte, benchInputs)
	for i := range inputs {
		s := w.honest(r)
		if hostile {
			s = fit(w.before, pick(r, hostileUnits...), w.behind, len(s))
		}
		inputs[i] = []byte(s)
	}
	return inputs
}

// covers BCP-35, BCP-88
func BenchmarkValidate(b *testing.B) {
	for _, w := range workloads() {
		v, err := bcp.Compile(w.spec, bcp.Settings{})
		if err != nil {
			b.Fatal(err)
		}
		honest, hostile := w.inputs(false), w.inputs(true)
		run := func(name string, inputs [][]byte, one func([]byte)) {
			b.Run(w.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				size := 0
				for _, in := range inputs {
					size += len(in)
				}
				b.SetBytes(int64(size / len(inputs)))
				i := 0
				for b.Loop() {
					one(inputs[i%benchInputs])
					i++
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
			})
		}
		run("honest", honest, func(in []byte) {
			if v.Validate(in, bcp.JSON).Outcome == bcp.Reject {
				b.Fatal("an honest answer was rejected")
			}
		})
		run("hostile", hostile, func(in []byte) { v.Validate(in, bcp.JSON) })
		run("encoding-json", honest, func(in []byte) {
			var m map[string]any
			if json.Unmarshal(in, &m) != nil {
				b.Fatal("encoding/json refused an honest answer")
			}
		})
	}
}

// TestValidateRatios prints how validation compares with encoding/json on the
// same bytes, and hostile input with honest input: figures that do not drift
// with the machine as answers a second do. The worst is looked for with
// preserve_case too and should be under 3; it fails only far beyond that, since
// other load on the machine moves all of them.
//
// covers P2.2, P3.6, A-CRASH
func TestValidateRatios(t *testing.T) {
	for _, w := range workloads() {
		v, err := bcp.Compile(w.spec, bcp.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		kept, err := bcp.Compile(w.spec, bcp.Settings{PreserveCase: true})
		if err != nil {
			t.Fatal(err)
		}
		honest := w.inputs(false)
		validate := func(in []byte) { v.Validate(in, bcp.JSON) }
		ours, mixed := fastest(honest, validate), fastest(w.inputs(true), validate)
		theirs := fastest(honest, func(in []byte) {
			var m map[string]any
			_ = json.Unmarshal(in, &m)
		})
		worst, worstUnit, again := time.Duration(0), "", func() {}
		for _, unit := range hostileUnits {
			attacks := make([][]byte, 32)
			for i := range attacks {
				attacks[i] = []byte(fit(w.before, unit, w.behind, len(honest[i])))
			}
			for _, v := range []*bcp.Validator{v, kept} {
				measure := func() time.Duration { return fastest(attacks, func(in []byte) { v.Validate(in, bcp.JSON) }) }
				if cost := measure(); cost > worst {
					worst, worstUnit = cost, unit
					again = func() { worst = min(worst, measure()) }
				}
			}
		}
		t.Logf("%s: %.0f answers/s (target %.0f), %.2f x encoding/json (target %.2f), hostile costs %.2f x honest, the worst %.2f x (%+q)", w.name,
			1/ours.Seconds(), w.perSecond, theirs.Seconds()/ours.Seconds(), w.ratio, mixed.Seconds()/ours.Seconds(), worst.Seconds()/ours.Seconds(), worstUnit)
		for range 20 { // something else may have run beside it
			if worst > 12*ours {
				again()
			}
		}
		if worst > 12*ours {
			t.Errorf("%s: %+q costs %s, an honest answer %s", w.name, worstUnit, worst, ours)
		}
	}
}

// fastest is the mean time of one call in the best of several rounds.
func fastest(inputs [][]byte, one func([]byte)) time.Duration {
	best := time.Duration(1 << 62)
	for range 5 {
		begun := time.Now()
		for _, in := range inputs {
			one(in)
		}
		best = min(best, time.Since(begun)/time.Duration(len(inputs)))
	}
	return best
}
