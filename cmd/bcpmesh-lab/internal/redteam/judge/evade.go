package judge

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// evasionFile has what an attacker says around an order, and words of other languages. The verbs of orders.json are each
// other's synonyms.
//
//go:embed evasions.json
var evasionFile []byte

type evasions struct {
	Politeness, Passive struct{ Before, After []string }
	Languages           map[string][]string
	synonyms            map[string][]string
}

func readEvasions() (e evasions, err error) {
	var grammar struct{ Orders []struct{ Verbs []string } }
	if err = json.Unmarshal(evasionFile, &e); err == nil {
		err = json.Unmarshal(orderFile, &grammar)
	}
	e.synonyms = map[string][]string{}
	for _, group := range grammar.Orders {
		for _, verb := range group.Verbs {
			e.synonyms[verb] = append(e.synonyms[verb], group.Verbs...)
		}
	}
	return e, err
}

// edit yields what one change makes of a text.
type edit func(words []string, yield func([]string))

func replacing(by map[string][]string) edit {
	return func(words []string, yield func([]string)) {
		for i, word := range words {
			for _, other := range by[word] {
				yield(slices.Concat(words[:i], strings.Fields(other), words[i+1:]))
			}
		}
	}
}

func surrounding(before, after []string) edit {
	return func(words []string, yield func([]string)) {
		for _, b := range before {
			yield(slices.Concat(strings.Fields(b), words))
		}
		for _, a := range after {
			yield(slices.Concat(words, strings.Fields(a)))
		}
	}
}

// splitting is the edit of which each part is an answer of its own, to another question.
const splitting = "split over two questions"

// goesThrough says whether words are no strong sign, how far they are, and whether they are none as the answers to two questions.
func goesThrough(rules *text.Rules, words []string, split bool) (passed bool, weight int) {
	whole, codes := rules.Weigh([]byte(strings.Join(words, " ")))
	for _, w := range whole {
		weight += w.Weight
	}
	if codes&text.Instruction == 0 {
		return true, weight
	}
	for cut := 1; split && cut < len(words); cut++ {
		_, first := rules.Weigh([]byte(strings.Join(words[:cut], " ")))
		_, second := rules.Weigh([]byte(strings.Join(words[cut:], " ")))
		if (first|second)&text.Instruction == 0 {
			return true, weight
		}
	}
	return false, weight
}

// mostEdits is how many changes an attacker makes at most.
const mostEdits = 5

// cheapest returns after how many edits, the best at each step, a text passes; more than mostEdits if it does not. Dividing it is one edit.
func cheapest(rules *text.Rules, words []string, edits []edit, split bool) int {
	if split {
		if passed, _ := goesThrough(rules, words, true); passed {
			return 1
		}
	}
	for n := 1; n <= mostEdits; n++ {
		best, least, through := words, 1<<30, false
		for _, change := range edits {
			change(words, func(changed []string) {
				if len(changed) > maxWords {
					return
				}
				passed, weight := goesThrough(rules, changed, false)
				if through = through || passed; weight < least {
					best, least = changed, weight
				}
			})
		}
		if through {
			return n
		}
		words = best
		if passed, _ := goesThrough(rules, words, split); passed && n < mostEdits {
			return n + 1
		}
	}
	return mostEdits + 1
}

// evaded writes how many of the hostile rows that are held pass after each number of edits. The attacker knows the table.
func evaded(rules [folds]*text.Rules, rows []row) (string, error) {
	e, err := readEvasions()
	if err != nil {
		return "", err
	}
	kinds := []struct {
		name  string
		edits []edit
	}{
		{"synonyms", []edit{replacing(e.synonyms)}},
		{"politeness", []edit{surrounding(e.Politeness.Before, e.Politeness.After)}},
		{"passive and reports", []edit{surrounding(e.Passive.Before, e.Passive.After)}},
		{"words of other languages", []edit{replacing(e.Languages)}},
		{splitting, nil},
		{"all of these", nil},
	}
	for _, k := range kinds {
		kinds[len(kinds)-1].edits = append(kinds[len(kinds)-1].edits, k.edits...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| evasion | 1 edit | 2 | 3 | %d |\n|---|---|---|---|---|\n", mostEdits)
	for i, k := range kinds {
		held, through := 0, [mostEdits + 2]int{}
		for _, r := range rows {
			words := strings.Fields(r.spoken())
			if passed, _ := goesThrough(rules[r.fold()], words, false); passed || !r.hostile || r.Kind == kindPlain {
				continue
			}
			held++
			for n := cheapest(rules[r.fold()], words, k.edits, i >= len(kinds)-2); n < len(through); n++ {
				through[n]++
			}
		}
		fmt.Fprintf(&b, "| %s |", k.name)
		for _, n := range []int{1, 2, 3, mostEdits} {
			fmt.Fprintf(&b, " %.0f%% |", share100(through[n], held))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
