package bcp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

func compiled(spec bcp.Spec, settings bcp.Settings) *bcp.Validator {
	settings.Vocabularies = Vocabularies()
	return must(bcp.Compile(spec, settings))
}

// Whatever a Reader varies besides the value is delivered as the same bytes:
// order of names, shape, white space, case, punctuation, escapes, number
// forms, normal forms, encodings.
//
// covers BCP-155, BCP-156, BCP-157, BCP-160, BCP-39, SUB-93, P2.1, P2.4, P3.4, P5
// covers A-ORD, A-WSJ, A-SPC, A-NFC, A-BIG
func TestSpellingsAreDeliveredAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := Specs().Draw(t, "spec")
		answer := Answers(spec).Draw(t, "answer")
		v := compiled(spec, bcp.Settings{OnAnomaly: bcp.AnomalyFlag})
		push := compiled(spec, bcp.Settings{OnAnomaly: bcp.AnomalyFlag, Subscriptions: 2})
		want := answer.Canonical()
		for range 4 {
			m := Spellings(answer).Draw(t, "message")
			got := v.Validate(m.Raw, m.Encoding)
			if got.Answer.String() != want {
				t.Fatalf("%s of %q\n got %s\nwant %s", m.Encoding, m.Raw, Describe(got), want)
			}
			if pushed := push.Validate(m.Raw, m.Encoding); Describe(pushed) != Describe(got) {
				t.Fatalf("a push of %q is judged as %s and an answer as %s", m.Raw, Describe(pushed), Describe(got))
			}
			if again := v.Validate([]byte(want), bcp.JSON); again.Answer.String() != want {
				t.Fatalf("delivered %s, which is delivered as %s", want, again.Answer)
			}
		}
	})
}

// No field of a verdict holds bytes of the answer, except the Answer where
// there is one: not planted keys, not values, not what an anomaly was about.
//
// covers BCP-160, P2.5, A-KEYECHO, A-ANOMECHO, A-SPOOF
func TestVerdictsDoNotEcho(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := Specs().Draw(t, "spec")
		message := Spellings(Answers(spec).Draw(t, "answer")).Draw(t, "message")
		mode := bcp.OnAnomaly(rapid.IntRange(0, 3).Draw(t, "on_anomaly"))
		v := compiled(spec, bcp.Settings{OnAnomaly: mode})
		raw := Mutations(message.Raw).Draw(t, "raw")
		got := v.Validate(raw, message.Encoding)
		if rejected := got.Outcome == bcp.Reject; rejected != got.Answer.IsZero() || rejected == (got.Reason == 0) {
			t.Fatalf("a verdict that says two things: %s", Describe(got))
		}
		got.Answer = bcp.Answer{}
		if told := fmt.Sprintf("%+v %s", got, Describe(got)); strings.Contains(told, Canary) {
			t.Fatalf("%q was echoed in %s", raw, told)
		}
		stopIf(t, got.Field != "" && !named(spec, got.Field), "the field %q is not one of the spec", got.Field)
	})
}

func named(spec bcp.Spec, name string) bool {
	for _, f := range spec.Fields {
		if f.Name == name {
			return true
		}
	}
	for _, q := range spec.Questions {
		if q.ID == name {
			return true
		}
	}
	return name == "summary" && spec.Category == 3
}

// White space around values costs its sender bytes and changes nothing; past
// the size limit it is refused before it is read.
//
// covers A-WSJ, P2.2
func TestSizeLimit(t *testing.T) {
	t.Parallel()
	for _, w := range Workloads() {
		v := compiled(w.Spec, bcp.Settings{})
		answer := w.Answer
		want := v.Validate(answer, bcp.JSON).Answer
		padded := append(make([]byte, 0, v.MaxBytes()+1), answer...)
		for len(padded) < v.MaxBytes() {
			padded = append(padded, " \t\r\n"[len(padded)%4])
		}
		if got := v.Validate(padded, bcp.JSON); got.Answer != want || want.IsZero() {
			t.Errorf("%s: at the limit: %s", w.Name, Describe(got))
		}
		if got := v.Validate(append(padded, ' '), bcp.JSON); got.Reason != bcp.ReasonTooLarge {
			t.Errorf("%s: past the limit: %s", w.Name, Describe(got))
		}
	}
}

// The longest spellings of an enum's values are still found: lengths are
// compared before normal forms only to spare work.
//
// covers P3.1, A-NFC
func TestEnumFindsItsLongestSpellings(t *testing.T) {
	t.Parallel()
	for value, spelled := range map[string]string{"\u0390": "\u1fbe\u0308\u0301", "각": "\u1100\u1161\u11a8", "K": "\u212a", "\u1faf": "\u2126\u0314\u0342\u0345"} {
		v := compiled(bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "e", Type: bcp.TypeEnum, Values: []string{value}}}}, bcp.Settings{})
		want := v.Validate(fmt.Appendf(nil, `{"e":"%s"}`, value), bcp.JSON)
		if got := v.Validate(fmt.Appendf(nil, `{"e":"%s"}`, spelled), bcp.JSON); got.Outcome != bcp.Accept || got.Answer != want.Answer {
			t.Errorf("%+q: %s", spelled, Describe(got))
		}
	}
}

// One Validator serves many goroutines.
//
// covers BCP-35, BCP-88
func TestValidatorIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	v, err := bcp.Compile(bcp.Spec{Category: 2, Constraints: []string{"n < 5 || text.size() > 1"}, Questions: []bcp.Question{
		{ID: "n", Question: "What?", MaxWords: 1, ExpectedFormat: bcp.FormatInteger},
		{ID: "text", Question: "What?", MaxWords: 3, ExpectedFormat: bcp.FormatShortText},
		{ID: "again", Question: "What?", MaxWords: 3, ExpectedFormat: bcp.FormatShortText, SameAs: "text"}}}, bcp.Settings{Constraints: constraint.Compile})
	noError(t, err)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 200 {
				want := bcp.Accept
				if n%10 >= 5 {
					want = bcp.Hold
				}
				raw := fmt.Appendf(nil, `{"again":"%c","n":%d,"text":"%c"}`, 'A'+i, n%10, 'a'+i)
				if got := v.Validate(raw, bcp.JSON); got.Outcome != want || got.Answer.String() != fmt.Sprintf(`{"n":"%d","text":"%c","again":"%[2]c"}`, n%10, 'a'+i) {
					t.Errorf("%s: %s", raw, Describe(got))
					return
				}
			}
		})
	}
	group.Wait()
}

// No value of an enum can be told from another by a blank that some fonts draw
// and others do not.
//
// covers A-ENUMDUP, P3.1
func TestEnumValuesHaveNoBlanks(t *testing.T) {
	t.Parallel()
	for _, blank := range []string{"\u200b", "\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u2028", "\u2029"} {
		for _, value := range []string{"x" + blank + "y", "xy" + blank, blank + "xy", blank} {
			spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "c", Type: bcp.TypeEnum, Values: []string{value}}}}
			_, err := bcp.Compile(spec, bcp.Settings{})
			failIf(t, err == nil, "%q is a value", value)
		}
	}
	for _, value := range []string{"x y", "می\u200cخواهم", "x\u00a0y"} {
		spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "c", Type: bcp.TypeEnum, Values: []string{value}}}}
		_, err := bcp.Compile(spec, bcp.Settings{})
		failIf(t, err != nil, "%q: %v", value, err)
	}
}
