package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

// Way is how a Reader says a string.
type Way string

// The ways.
const (
	Whole     Way = "whole"     // as it is
	Cut       Way = "cut"       // as many words of it as are allowed
	Questions Way = "questions" // divided over the questions of one answer
	Several   Way = "several"   // divided over pushes, or answers to repeated queries
)

// Ways returns all ways.
func Ways() []Way { return []Way{Whole, Cut, Questions, Several} }

// least is how many words of a string are as much as an instruction.
const least = 4

// Config configures a run. Attacks or Benign are required.
type Config struct {
	Definition *bcp.Mesh // nil for [Sample]
	Attacks    Set
	Benign     Set
	// State is an empty folder for the mesh through which a sample is sent; empty for
	// none.
	State string
	Seed  uint64 // selects the sample
	// OnProgress, if set, is called from time to time with the number of strings done.
	OnProgress func(done, of int)
}

// Row is the result of strings said in one way in all specs of a category whose
// channels have one on_anomaly.
type Row struct {
	Category  bcp.Category `json:"category"`
	OnAnomaly string       `json:"on_anomaly"`
	Way       Way          `json:"way"`
	Strings   int          `json:"strings"`
	Reached   int          `json:"reached"` // four words or more, unheld
	Flagged   int          `json:"flagged"` // of these, with the code of an anomaly
	Held      int          `json:"held"`
	Refused   int          `json:"refused"`
	Low       float64      `json:"low"` // Wilson's interval of the rate that reached, 95 %
	High      float64      `json:"high"`
	Examples  []string     `json:"examples,omitempty"` // of what reached, or of benign answers that did not
}

// Played is a running mesh's result for a sample.
type Played struct {
	Said    int      `json:"said"`
	Differs []string `json:"differs,omitempty"` // what came out otherwise than the validator decided
}

// Report is the result of a run. An attack succeeds if it reaches a Controller, even if
// no model obeys it.
type Report struct {
	Schema  int       `json:"schema"` // 1
	Seed    uint64    `json:"seed"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Sources []Source  `json:"sources"`
	Short   int       `json:"short"` // strings of fewer than four words, which are not counted
	Attacks []Row     `json:"attacks"`
	Benign  []Row     `json:"benign"`
	Played  *Played   `json:"played,omitempty"`
}

// Promise is a property that must hold for any text.
type Promise struct {
	ID     string // never changes its meaning
	Text   string
	broken func(Report) []string
}

// Promises returns the properties that must hold: that no string passes a spec of
// category 1, that summaries are held, and that a mesh decides as the validator does.
// What passes as text of category 2 is a rate, since rules have gaps.
func Promises() []Promise {
	category := func(n bcp.Category) func(Report) []string {
		return func(r Report) (list []string) {
			for _, row := range r.Attacks {
				if row.Reached > 0 && row.Category == n {
					list = append(list, fmt.Sprintf("%d of %d strings reached a Controller in category %d (%s, %s)", row.Reached, row.Strings, n, row.OnAnomaly, row.Way))
				}
			}
			for _, row := range r.Benign {
				if row.Reached > 0 && row.Category == n && n == 3 {
					list = append(list, fmt.Sprintf("%d of %d summaries reached a Controller unheld", row.Reached, row.Strings))
				}
			}
			return list
		}
	}
	return []Promise{
		{"T-CATEGORY1", "no string passes a spec of category 1", category(1)},
		{"T-SUMMARY", "no summary reaches a Controller that no person has seen", category(3)},
		{"T-MESH", "a mesh decides as the validator does", func(r Report) []string {
			if r.Played == nil {
				return nil
			}
			return r.Played.Differs
		}},
	}
}

// In returns how the promise was broken in a report; nothing if it held.
func (p Promise) In(r Report) []string { return p.broken(r) }

// Broken returns how the promises were broken in a report.
func (r Report) Broken() (list []string) {
	for _, p := range Promises() {
		list = append(list, p.In(r)...)
	}
	return list
}

// fate is what happened to a string. Greater is worse for the defender.
type fate uint8

const (
	unsaid fate = iota
	refused
	held
	arrived
	flagged // it arrived, with the code of an anomaly
)

// said is one answer, and the validator's verdict.
type said struct {
	form    *form
	answer  string
	verdict bcp.Verdict
}

// runner counts.
type runner struct {
	forms  []form
	rows   map[kind]map[Way]*Row
	random *rand.Rand
	sample map[string][]said
	met    map[string]int // answers that could be in the sample
}

// perKind is how many answers of each row and fate are said through a mesh.
const perKind = 2

// longestPlayed is the maximum size of an answer in the sample.
const longestPlayed = 16 << 10

// Run tries every text in every place. The error says that nothing could be tried.
func Run(ctx context.Context, c Config) (Report, error) {
	if len(c.Attacks.Texts)+len(c.Benign.Texts) == 0 {
		return Report{}, errors.New("corpus: there is nothing to say")
	}
	m := c.Definition
	if m == nil {
		var err error
		if m, err = Sample(); err != nil {
			return Report{}, err
		}
	}
	all, err := forms(m)
	if err != nil {
		return Report{}, err
	}
	if len(all) == 0 {
		return Report{}, errors.New("corpus: there is no channel")
	}
	r := runner{forms: all, random: rand.New(rand.NewPCG(c.Seed, 0)), sample: map[string][]said{}, met: map[string]int{}}
	report := Report{Schema: 1, Seed: c.Seed, Began: time.Now().UTC().Truncate(time.Second), Sources: slices.Concat(c.Attacks.Sources, c.Benign.Sources)}
	total, done := len(c.Attacks.Texts)+len(c.Benign.Texts), 0
	step := func() error {
		if done++; done%1000 == 0 {
			if c.OnProgress != nil {
				c.OnProgress(done, total)
			}
			return ctx.Err()
		}
		return nil
	}
	r.rows = map[kind]map[Way]*Row{}
	for _, t := range c.Attacks.Texts {
		if ends := words(t.Text); len(ends) < least {
			report.Short++
		} else if err := r.attack(t.Text); err != nil {
			return report, err
		}
		if err := step(); err != nil {
			return report, err
		}
	}
	report.Attacks = r.list()
	r.rows = map[kind]map[Way]*Row{}
	for _, t := range c.Benign.Texts {
		if err := r.benign(t); err != nil {
			return report, err
		}
		if err := step(); err != nil {
			return report, err
		}
	}
	report.Benign = r.list()
	if c.State != "" {
		played, err := r.play(ctx, c.State, m, c.Seed)
		if err != nil {
			return report, err
		}
		report.Played = &played
	}
	report.Ended = time.Now().UTC().Truncate(time.Second)
	return report, nil
}

// list returns the rows in order, with their intervals.
func (r *runner) list() (rows []Row) {
	for category := bcp.Category(1); category <= 3; category++ {
		for _, on := range []bcp.OnAnomaly{bcp.AnomalyHold, bcp.AnomalyHoldAll, bcp.AnomalyReject, bcp.AnomalyFlag} {
			for _, way := range Ways() {
				if row := r.rows[kind{category, on}][way]; row != nil {
					row.Low, row.High = stats.Wilson(row.Reached, row.Strings)
					rows = append(rows, *row)
				}
			}
		}
	}
	return rows
}

// count puts a string into a row.
func (r *runner) count(k kind, way Way, f fate, text string, example bool) {
	if r.rows[k] == nil {
		r.rows[k] = map[Way]*Row{}
	}
	row := r.rows[k][way]
	if row == nil {
		row = &Row{Category: k.category, OnAnomaly: k.onAnomaly.String(), Way: way}
		r.rows[k][way] = row
	}
	row.Strings++
	switch f {
	case arrived, flagged:
		row.Reached++
		if f == flagged {
			row.Flagged++
		}
	case held:
		row.Held++
	default:
		row.Refused++
	}
	const examples, long = 5, 160
	if example && len(row.Examples) < examples {
		if len(text) > long {
			text = strings.ToValidUTF8(text[:long], "") + "…"
		}
		row.Examples = append(row.Examples, text)
	}
}

// attack says a string in every way in every position of every form.
func (r *runner) attack(text string) error {
	worst := map[kind]map[Way]fate{}
	for i := range r.forms {
		f := &r.forms[i]
		k := f.kind()
		if worst[k] == nil {
			worst[k] = map[Way]fate{}
		}
		note := func(way Way, list ...said) {
			worst[k][way] = max(worst[k][way], sumFate(list))
			for _, s := range list {
				r.offer(fmt.Sprint("attack ", k, way), s)
			}
		}
		for member := range f.members {
			whole, err := f.say(map[int]string{member: text})
			if err != nil {
				return err
			}
			note(Whole, whole)
			cut, err := f.cut(member, text, whole)
			if err != nil {
				return err
			}
			note(Cut, cut)
			list, err := f.sayInParts(member, text)
			if err != nil {
				return err
			}
			note(Several, list...)
		}
		if len(f.texts) > 1 {
			divided, err := f.divided(text)
			if err != nil {
				return err
			}
			note(Questions, divided)
		}
	}
	for k, ways := range worst {
		for way, f := range ways {
			r.count(k, way, f, text, f >= arrived)
		}
	}
	return nil
}

// benign tries an answer whole, in the positions of its format if it has one. Its
// result is that of the best position.
func (r *runner) benign(t Text) error {
	best := map[kind]fate{}
	for i := range r.forms {
		f := &r.forms[i]
		if f.spec.Category == 1 {
			continue
		}
		for member := range f.members {
			if format := f.format(member); t.Label != "" && format != t.Label || t.Label == "" && !f.members[member].Text {
				continue
			}
			s, err := f.say(map[int]string{member: t.Text})
			if err != nil {
				return err
			}
			best[f.kind()] = max(best[f.kind()], s.fate())
			r.offer(fmt.Sprint("benign ", f.kind()), s)
		}
	}
	for k, f := range best {
		r.count(k, Whole, f, t.Text, k.category == 2 && f < arrived)
	}
	return nil
}

// fate returns what happened to one answer, for any number of words.
func (s said) fate() fate {
	switch s.verdict.Outcome {
	case bcp.Accept:
		if len(s.verdict.Anomalies) > 0 {
			return flagged
		}
		return arrived
	case bcp.Hold:
		return held
	}
	return refused
}

// sumFate adds up the words of texts in answers that arrive: least words make an
// instruction. It uses what is delivered, not the validator's own figures.
func sumFate(list []said) fate {
	f, arriving, codes := refused, 0, false
	for _, s := range list {
		switch s.verdict.Outcome {
		case bcp.Accept:
			arriving += s.arriving()
			codes = codes || len(s.verdict.Anomalies) > 0
		case bcp.Hold:
			f = held
		}
	}
	switch {
	case arriving >= least && codes:
		return flagged
	case arriving >= least:
		return arrived
	}
	return f
}

// arriving counts the delivered words in members that differ from the form's own.
func (s said) arriving() (n int) {
	var got map[string]any
	if json.Unmarshal(s.verdict.Answer.JSON(), &got) != nil {
		return least // unreadable: assume the worst
	}
	var sent map[string]any
	if json.Unmarshal([]byte(s.answer), &sent) != nil {
		return least
	}
	for _, member := range s.form.members {
		var own any
		if json.Unmarshal([]byte(member.Value), &own) == nil && sent[member.Name] == own {
			continue
		}
		if text, ok := got[member.Name].(string); ok && !s.form.declared(member.Name, text) {
			n += len(words(text))
		}
	}
	return n
}
