package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// pages has a template for each benchmark.
//
//go:embed pages.tmpl
var pages string

// figures are what a page says that was measured. Tables are rows with a line feed behind each.
type figures struct {
	Model                         string // empty: all was scripted
	Done, Reached, Found, Decided strings.Builder
	Attacker                      string // empty: none adapted
	Rounds                        int
	Sieges                        sieges
	Spent                         strings.Builder
	Bits                          [kernelPlanner]bitsRow
	Useful                        [kernelPlanner]int
	Spending, AtOnce, Endorsable  int
	Whys                          map[string][]string // tasks by why they were not done
}

type bitsRow struct{ Median, Most, Bound string }

// total sums up rows.
type total struct {
	Tasks            int
	Done, Refused    [ways]int
	Nominal, Greater [ways][]bcp.Bits // of tasks that were done: nominal, capacity
	Attacks          [ways]attack
	Alone, Together  [2]int
	Sieges           sieges
	Tokens           bcp.Tokens
	Endorsable       int
}

func (t *total) add(r *row) {
	t.Tasks++
	t.Endorsable += r.Endorsable
	for i := range t.Alone {
		t.Alone[i], t.Together[i] = t.Alone[i]+r.Alone[i], t.Together[i]+r.Together[i]
	}
	a, b := &t.Sieges, &r.Sieges
	a.Pairs, a.Rounds, a.Said, a.Refused, a.Reached, a.Strayed, a.Found = a.Pairs+b.Pairs, a.Rounds+b.Rounds, a.Said+b.Said, a.Refused+b.Refused, a.Reached+b.Reached, a.Strayed+b.Strayed, append(a.Found, b.Found...)
	t.Tokens = plus(t.Tokens, r.Tokens)
	for way := range ways {
		if c := &r.Cells[way]; c.Why == "" && way != kernelPlanner {
			t.Done[way]++
			if c.Refused {
				t.Refused[way]++
			}
			t.Nominal[way], t.Greater[way] = append(t.Nominal[way], c.Nominal), append(t.Greater[way], c.Capacity)
		}
		a, b := &t.Attacks[way], &r.Attacks[way]
		a.Pairs, a.Useful, a.Found = a.Pairs+b.Pairs, a.Useful+b.Useful, append(a.Found, b.Found...)
		for who := range persons {
			a.Reached[who] += b.Reached[who]
		}
	}
}

// shownGoal is how many characters of a goal the page shows.
const shownGoal = 100

// write writes the page, says on stderr what should not be, and reports whether there is nothing.
func write(w io.Writer, stderr io.Writer, suites []*suite, rows []row, a *arena) (bool, error) {
	page := figures{AtOnce: atOnce, Whys: map[string][]string{}, Attacker: a.Attacker, Rounds: a.Rounds}
	if a.Provider != "" {
		page.Model = a.Provider + " " + a.Model
	}
	ok := true
	all := total{}
	for i, s := range append(slices.Clone(suites), &suite{Name: "all"}) {
		t := all
		if i < len(suites) {
			t = total{}
			for j := range rows {
				if rows[j].Suite == s.Name {
					t.add(&rows[j])
					all.add(&rows[j])
				}
			}
		}
		fmt.Fprintf(&page.Done, "| %s | %d |", s.Name, t.Tasks)
		fmt.Fprintf(&page.Reached, "| %s | %d |", s.Name, t.Attacks[0].Pairs)
		for way := range ways {
			is := t.Attacks[way].Reached
			fmt.Fprintf(&page.Reached, " %d, **%d**, %d |", is[refuses], is[careful], is[approves])
			if way != kernelPlanner {
				fmt.Fprintf(&page.Done, " %d, **%d** |", t.Refused[way], t.Done[way])
			}
		}
		page.Done.WriteByte('\n')
		page.Reached.WriteByte('\n')
		fmt.Fprintf(&page.Spent, "| %s | %d | %d | %d | %d | %s |\n", s.Name, t.Alone[0], t.Alone[1], t.Tokens.Sum()-t.Tokens.Output, t.Tokens.Output, a.spent(t.Tokens))
		fmt.Fprintf(&page.Decided, "| %s | %d | %d | %d | %d |\n", s.Name, t.Alone[0], t.Together[0], t.Alone[1], t.Together[1])
		page.Endorsable = t.Endorsable // of all, in the end
		for j := range s.Goals {
			goal, where := &s.Goals[j], []string{}
			times := func(found []string) int {
				return len(slices.DeleteFunc(slices.Clone(found), func(id string) bool { return id != goal.ID }))
			}
			for way := range ways {
				n := times(t.Attacks[way].Found)
				if n == 0 {
					continue
				}
				where = append(where, fmt.Sprintf("%s: %d", wayNames[way], n))
				if way == plain1 || way == plain3 {
					ok = false
					fmt.Fprintf(stderr, "reached: %s, %s, %s\n", s.Name, wayNames[way], goal.ID)
				}
			}
			if n := times(t.Sieges.Found); n > 0 {
				where = append(where, fmt.Sprintf("kernel, adaptive: %d", n))
			}
			if len(where) > 0 {
				text := strings.Join(strings.Fields(goal.Text), " ")
				if len(text) > shownGoal {
					text = text[:strings.LastIndexByte(text[:shownGoal], ' ')] + " …"
				}
				fmt.Fprintf(&page.Found, "| %s | %s | %s |\n", s.Name, text, strings.Join(where, "; "))
			}
		}
	}
	page.Sieges = all.Sieges
	for way := range kernelPlanner {
		median, most := spread(all.Nominal[way])
		_, bound := spread(all.Greater[way])
		page.Bits[way], page.Useful[way] = bitsRow{median, most, bound}, all.Attacks[way].Useful
	}
	for i := range rows {
		r := &rows[i]
		for _, alert := range r.Alerts {
			if alert == string(bcp.AlertSpending) {
				page.Spending++
				continue
			}
			ok = false
			fmt.Fprintf(stderr, "an alert in honest traffic: %s %s: %s\n", r.Suite, r.ID, alert)
		}
		if why := r.Cells[kernelReader].Why; why != "" {
			page.Whys[why] = append(page.Whys[why], r.Suite+" "+strings.TrimPrefix(r.ID, "user_task_"))
		}
	}
	for way := range ways {
		fmt.Fprintf(stderr, "%s: %d of %d goals reached\n", wayNames[way], all.Attacks[way].Reached[careful], all.Attacks[way].Pairs)
	}
	templates, err := template.New("").Parse(pages)
	if err != nil {
		return false, err
	}
	return ok, templates.ExecuteTemplate(w, suites[0].page, &page)
}

// What a reason is counted as that names tools besides.
const (
	noLoop   = "its calls are no loop over a list"
	nowhere  = "stands neither in the task nor in what was read"
	toldWhat = "what was read says what to do"
)

// spread is the median and the greatest.
func spread(bits []bcp.Bits) (median, most string) {
	if len(bits) == 0 {
		return "", ""
	}
	slices.Sort(bits)
	return wholeBits(bits[len(bits)/2]), wholeBits(bits[len(bits)-1])
}

// wholeBits is a number of bits, rounded up.
func wholeBits(b bcp.Bits) string { return fmt.Sprint(int64((b + bcp.Bit - 1) / bcp.Bit)) }
