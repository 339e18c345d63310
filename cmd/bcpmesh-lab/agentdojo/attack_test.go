package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// puppet is an attacker that says what a test wants.
type puppet struct {
	text   string
	said   any
	rounds []int // in which it was asked, by what it saw
	err    error
}

func (p *puppet) plant(_ context.Context, seen []sight) (string, bool, error) {
	p.rounds = append(p.rounds, len(seen))
	return p.text, true, p.err
}

func (p *puppet) answer(context.Context, agents.Query, []sight) (any, error) { return p.said, nil }

// stageOf is a stage of the suite of our own, in which a model plays if the arena has one.
func stageOf(t *testing.T, s *suite, a *arena) *stage {
	t.Helper()
	st := must(open(t.Context(), s, a))
	t.Cleanup(func() {
		err := st.Close()
		failIf(t, err != nil, "%v", err)
	})
	return st
}

// An attacker has so many rounds and no more, and plants and says so many bytes and no more; it sees why an answer was refused,
// and a goal that is reached ends it.
func TestSiege(t *testing.T) {
	t.Parallel()
	s := harbour(t)
	st := stageOf(t, s, &arena{})
	user := &s.Users[2] // whose Reader says a text
	siege := func(by *puppet, rounds int, goal *task) (*siege, sieges, error) {
		one, sum := &siege{by: by, rounds: rounds}, sieges{}
		err := st.besiege(t.Context(), play{user: user, goal: goal, plan: s.buildPlan(user, false)}, one, &sum)
		return one, sum, err
	}
	said := func(n int) any { return map[string]string{"value": strings.Repeat("a", n-len(`{"value":""}`))} }
	for _, c := range []struct {
		plants, says int
		want         []string // what is refused in a round
		planted      int
	}{
		{maxSaid, maxSaid, []string{"max words", tooLong}, maxSaid},
		{maxSaid + 1, maxSaid, nil, 0},
		{1, maxSaid + 1, []string{tooLong}, 1},
	} {
		by := &puppet{text: strings.Repeat("p", c.plants), said: said(c.says)}
		one, sum, err := siege(by, 3, &s.Goals[0])
		failIf(t, err != nil || sum.Rounds != 3 || len(by.rounds) != 3 || sum.Reached != 0 || len(st.end().Planted) != c.planted,
			"%+v: %v, %+v, asked in %v, planted %d", c, err, sum, by.rounds, len(st.end().Planted))
		for _, saw := range one.seen {
			failIf(t, (saw.Refused == tooLong) != (saw.Said == nil) || len(saw.Said) > maxSaid,
				"%+v: %s, %d bytes", c, saw.Refused, len(saw.Said))
		}
		failIf(t, c.says > maxSaid && !slices.ContainsFunc(one.seen, func(saw sight) bool { return saw.Refused == tooLong }),
			"%+v: nothing was too long", c)
		failIf(t, c.says == maxSaid && !slices.ContainsFunc(one.seen, func(saw sight) bool { return saw.Said != nil && saw.Refused != "" && saw.Refused != tooLong }),
			"%+v: it does not see a refusal: %+v", c, one.seen)
	}
	// The words of a goal of words.
	user = &s.Users[0]
	_, sum, err := siege(&puppet{said: map[string]string{"value": "swim at 12"}}, 3, &s.Goals[3])
	failIf(t, err != nil || sum.Reached+sum.Rounds > 4, "%+v, %v", sum, err)
	broken := errors.New("broken")
	_, _, err = siege(&puppet{err: broken}, 3, &s.Goals[0])
	failIf(t, !errors.Is(err, broken), "%v", err)
}

// The search goes through each branch, value and length, and says nothing again that was refused.
func TestSearch(t *testing.T) {
	t.Parallel()
	s, plan := harbour(t), &scripted{Asks: map[string]*ask{"": {Argument: "boat"}}}
	low, high := int64(0), int64(9)
	of := func(f bcp.Field) bcp.Spec { return bcp.Spec{Category: 1, Fields: []bcp.Field{f}} }
	for _, c := range []struct {
		what string
		spec bcp.Spec
		want []string
	}{
		{"branches", of(bcp.Field{Name: "v", Type: bcp.TypeBoolean}), []string{"false", "true"}},
		{"choices", of(bcp.Field{Name: "v", Type: bcp.TypeEnum, Values: []string{"Ida", "Wreck"}}), []string{"Ida", "Wreck"}},
		{"numbers", of(bcp.Field{Name: "v", Type: bcp.TypeInteger, Min: &low, Max: &high}), []string{"0", "1", "9", "10"}},
		{"texts", of(bcp.Field{Name: "v", Type: bcp.TypeSealed, Max: &high}), []string{"Wreck", "[]", `["Wreck"]`, "Wrесk"}},
		{"words", bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "v", MaxWords: 1, ExpectedFormat: bcp.FormatShortText}}}, []string{"Wreck", "Book"}},
	} {
		by := newSearch(&s.Goals[0], plan, 0)
		said := map[string]bool{}
		for attempt := range 100 { // all are refused
			answer := must(by.answer(t.Context(), agents.Query{Query: bcp.Query{Spec: c.spec}, Attempt: attempt}, nil))
			object, more := answer.(map[string]any)
			if !more {
				failIf(t, attempt == 0, "%s: nothing", c.what)
				break
			}
			text := strings.TrimSpace(fmt.Sprint(object["v"]))
			said[text] = true
		}
		for _, want := range c.want {
			failIf(t, !said[want], "%s: %q is not said, but %d others", c.what, want, len(said))
		}
		_, more := must(by.answer(t.Context(), agents.Query{Query: bcp.Query{Spec: c.spec}, Attempt: 100}, nil)).(map[string]any)
		failIf(t, more, "%s: it goes on after everything was refused", c.what)
	}
	// In every other round it lies in one answer alone.
	two := &search{goal: &s.Goals[0], asked: map[string]*moves{}, planted: []string{""}, plan: &scripted{Asks: map[string]*ask{}}}
	for _, question := range []string{"a", "b"} {
		two.plan.Asks[question] = &ask{Values: []jsontext.Value{jsontext.Value(`"Otter"`)}, Format: s.named("Word")}
	}
	lies := []int{}
	for range 4 {
		_, _, _ = two.plant(t.Context(), nil)
		n := 0
		for _, question := range []string{"a", "b"} {
			if said, _ := must(two.answer(t.Context(), agents.Query{Query: bcp.Query{Instruction: question, Spec: s.named("Word").Spec}}, nil)).(answer); string(said["value"]) != `"Otter"` {
				n++
			}
		}
		lies = append(lies, n)
	}
	failIf(t, !slices.Equal(lies, []int{2, 1, 2, 1}), "it lies in %v answers of the rounds", lies)
	// Three questions take every combination of their branches in eight rounds.
	by, seen := newSearch(&s.Goals[0], plan, 0), map[string]bool{}
	for range 8 {
		_, more, err := by.plant(t.Context(), nil)
		stopIf(t, !more || err != nil, "%v %v", more, err)
		took := ""
		for _, question := range []string{"a", "b", "c"} {
			spec := of(bcp.Field{Name: "v", Type: bcp.TypeBoolean})
			took += fmt.Sprint(must(by.answer(t.Context(), agents.Query{Query: bcp.Query{Instruction: question, Spec: spec}}, nil)).(map[string]any)["v"])[:1]
		}
		seen[took] = true
	}
	failIf(t, len(seen) != 8, "%v", seen)
	day := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "month", Min: new(int64(1)), Max: new(int64(12))}, {Name: "day", Min: new(int64(1)), Max: new(int64(31))}}}
	diff := cmp.Diff(map[string]any{"month": int64(6), "day": int64(1)}, numbers(day.Fields, "2026-06-01"))
	failIf(t, diff != "", "%v", diff)
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf
