package bcp_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// Conditions look at every answer.
//
// covers P3.7, P12.2
func TestConditionsLookAtEveryAnswer(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeBoolean}}}
	never := func(string, []bcp.Variable) (bcp.Constraint, error) { return refusing{}, nil }
	raw := []byte(`{"b":true}`)
	if got := compiled(spec, bcp.Settings{}).Validate(raw, bcp.JSON); got.Outcome != bcp.Accept {
		t.Fatal(Describe(got))
	}
	filtered := compiled(spec, bcp.Settings{Constraints: never, Subscriptions: 1, PublishWhen: "b"})
	if got := filtered.Validate(raw, bcp.JSON); got.Reason != bcp.ReasonFiltered {
		t.Error(Describe(got))
	}
	spec.Constraints = []string{"b"}
	if got := compiled(spec, bcp.Settings{Constraints: never}).Validate(raw, bcp.JSON); got.Outcome != bcp.Hold {
		t.Error(Describe(got))
	}
}

// refusing is a condition that never holds.
type refusing struct{}

func (refusing) Holds([]bcp.Value) (bool, error) { return false, nil }

// secretParts are what anchors of secrets begin with, and what is between words.
var secretParts = append(strings.Split("basic Basic bearer Bearer authorization password secret token key apikey pat path patient cio ciox dapi AKIA ASIA AIza eyJ SK SU SG sk gsk "+
	"BEGIN PRIVATE KEY dXNlcjpwYXNz dXNlcjpwYXNzd29yZA QWxhZGRpbjpvcGVu YWxhZGRpbjpvcGVuc2VzYW1l hunter hunter2 abcdefghijklmno ABCDEFGHIJKLMNO 123456 1234567 2026 1. 2.", " "),
	" ", " ", " ", " ", ". ", ", ", "\n", ".", ":", "=", "-", "  ", "\t")

// Whether a text that is prose holds a secret is not looked at, so none may.
//
// covers P3.6
func TestProseHoldsNoSecret(t *testing.T) {
	t.Parallel()
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(rapid.SampledFrom(secretParts), 1, 30).Draw(t, "parts"), "")
		if proseHoldsNone(t, raw, rapid.SampledFrom([]text.Join{text.None, text.List, text.Summary}).Draw(t, "join")) {
			found++
		}
	})
	failIf(t, found == 0, "nothing was prose")
}

func proseHoldsNone(t interface {
	Helper()
	Fatalf(string, ...any)
}, raw string, join text.Join) bool {
	t.Helper()
	r, err := text.Normalise(make([]byte, 0, 2*len(raw)+64), []byte(raw), text.Options{Alphabet: text.Any, Join: join, MaxWords: 1000})
	if err != nil || !r.Prose {
		return false
	}
	if guard.HasSecret([]byte(raw)) || guard.HasSecret(r.Text) {
		t.Fatalf("%q is prose, and %q with it, and one has %v and %v", raw, r.Text, guard.Find(raw, guard.Keys), guard.Find(string(r.Text), guard.Keys))
	}
	return true
}

// covers P3.6
func FuzzProse(f *testing.F) {
	for i, part := range secretParts {
		f.Add("The "+part+" of "+part+" Basic "+part+". bearer "+part+"\n1. "+part, uint8(i))
	}
	f.Fuzz(func(t *testing.T, raw string, join uint8) {
		proseHoldsNone(t, raw, text.Join(join%3))
	})
}
