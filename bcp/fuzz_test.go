package bcp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// fuzzSpecs cover every format in few specs.
func fuzzSpecs(f *testing.F) []*bcp.Validator {
	least, greatest := int64(-5), int64(5)
	q := func(id string, format bcp.Format, more ...func(*bcp.Question)) bcp.Question {
		q := bcp.Question{ID: id, Question: "What?", MaxWords: 6, ExpectedFormat: format}
		for _, change := range more {
			change(&q)
		}
		return q
	}
	specs := []bcp.Spec{
		{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeBoolean}, {Name: "e", Type: bcp.TypeEnum, Values: []string{"x", "é", `"`}},
			{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &greatest}}},
		{Category: 2, Questions: []bcp.Question{q("p", bcp.FormatPersonName), q("d", bcp.FormatDate), q("m", bcp.FormatEmail), q("t", bcp.FormatShortText)}},
		{Category: 2, Constraints: []string{"i < 3 || b"}, Questions: []bcp.Question{q("l", bcp.FormatShortList), q("i", bcp.FormatInteger), q("b", bcp.FormatBoolean),
			q("e", bcp.FormatEnum, func(q *bcp.Question) { q.Values = []string{"x", "y z"} }), q("c", bcp.FormatTime),
			q("v", bcp.FormatVocabulary, func(q *bcp.Question) { q.Vocabulary = Vocabulary })}},
		{Category: 2, Questions: []bcp.Question{q("t", bcp.FormatShortText, func(q *bcp.Question) { q.Alphabet, q.MaxChars = "ascii", 12 }),
			q("u", bcp.FormatShortText, func(q *bcp.Question) { q.SameAs = "t" })}},
		{Category: 3, Directive: "Summarize.", MaxWords: 20},
	}
	var validators []*bcp.Validator
	for _, spec := range specs {
		for _, settings := range []bcp.Settings{{}, {OnAnomaly: bcp.AnomalyFlag, PreserveCase: true}} {
			settings.Vocabularies, settings.Constraints = Vocabularies(), constraint.Compile
			v := must(bcp.Compile(spec, settings))
			validators = append(validators, v)
		}
	}
	return validators
}

// Any bytes, in both encodings: no panic, one clear verdict, and what is
// delivered is JSON that is delivered as itself.
//
// covers P2.2, P2.4, BCP-35, BCP-160, A-CRASH, A-UTF8, A-CTRL, A-LEN
func FuzzValidate(f *testing.F) {
	validators := fuzzSpecs(f)
	groups := Load(os.DirFS(vectorFolder))
	for _, g := range groups {
		for i, c := range g.Cases {
			if !c.IsSpec && i%5 == 0 {
				f.Add(c.Raw, uint8(i), c.Encoding == bcp.MessagePack)
			}
		}
	}
	for _, s := range []string{`{"b":true,"e":"x","n":3}`, `{"p":"Jane","d":"March 15","m":"a@b.cd","t":"x"}`, `{"t":"A","u":"a"}`, `{"summary":"One. Two"}`,
		`{"l":"a, b","i":"2","b":false,"e":"y z","c":"10:00","v":"red blue"}`} {
		for which := range validators {
			f.Add([]byte(s), uint8(which), false)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, which uint8, packed bool) {
		v := validators[int(which)%len(validators)]
		encoding := bcp.JSON
		if packed {
			encoding = bcp.MessagePack
		}
		got := v.Validate(raw, encoding)
		again := v.Validate(raw, encoding)
		stopIf(t, Describe(again) != Describe(got), "two verdicts on %q: %s, %s", raw, Describe(got), Describe(again))
		if got.Outcome == bcp.Reject {
			if !got.Answer.IsZero() || got.Reason == 0 {
				t.Fatalf("%q: %s", raw, Describe(got))
			}
			return
		}
		answer := got.Answer.JSON()
		stopIf(t, wire.Check(answer) != nil || bytes.ContainsAny(answer, "\n\r\t\x00\x1b"), "%q is delivered as %q", raw, answer)
		if again := v.Validate(answer, bcp.JSON); again.Answer != got.Answer {
			t.Fatalf("%q is delivered as %s, and that as %s", raw, answer, Describe(again))
		}
		packedAnswer := must(wire.MsgpackFromJSON(nil, answer))
		if again := v.Validate(packedAnswer, bcp.MessagePack); again.Answer != got.Answer {
			t.Fatalf("%s in MessagePack is delivered as %s", answer, Describe(again))
		}
	})
}

// Any bytes as a spec: refused, or a validator whose prices add up and whose
// spec is its own compiled form.
//
// covers P1.3, P3.1, P3.2, A-ENUMDUP, A-ZEROW, A-FMT
func FuzzSpec(f *testing.F) {
	groups := Load(os.DirFS(vectorFolder))
	for _, g := range groups {
		f.Add(g.Spec)
		for _, c := range g.Cases {
			if c.IsSpec && len(c.Raw) < 2000 {
				f.Add(c.Raw)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		spec, err := bcp.ParseSpec(b)
		if err != nil {
			return
		}
		v, err := bcp.Compile(spec, bcp.Settings{Vocabularies: Vocabularies(), Constraints: constraint.Compile})
		if err != nil {
			return
		}
		p := v.Prices()
		stopIf(t, p.Nominal < 0 || p.Capacity < bcp.Bit || p.FailedCapacity < bcp.Bit || p.FailedNominal > p.Nominal || v.MaxBytes() < 1024,
			"%s costs %+v", b, p)
		written := must(bcp.Encode(v.Spec(), bcp.JSON))
		again, err := bcp.ParseSpec(written)
		stopIf(t, err != nil, "%s is written as %s, which is no spec: %v", b, written, err)
		w, err := bcp.Compile(again, bcp.Settings{Vocabularies: Vocabularies(), Constraints: constraint.Compile})
		stopIf(t, err != nil || w.Prices() != p, "%s is written as %s: %v", b, written, err)
	})
}

// Any bytes as a message: a code of the closed list, or a message that is
// written and read again as itself.
//
// covers P2.1, P2.2, P2.6, P10, SUB-58, SUB-59, SUB-60, A-CRASH, A-SUBJTOK
func FuzzMessage(f *testing.F) {
	for _, s := range messages {
		f.Add([]byte(s), false)
		if packed, err := wire.MsgpackFromJSON(nil, []byte(s)); err == nil {
			f.Add(packed, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, packed bool) {
		encoding := bcp.JSON
		if packed {
			encoding = bcp.MessagePack
		}
		if in, code := bcp.ParseResponse(b, encoding); code == "" {
			stopIf(t, (in.QueryID == "") == (in.SubscriptionID == "") || (in.SubscriptionID == "") != (in.Controller == ""),
				"%q: %+v", b, in)
		} else if code != bcp.Malformed {
			t.Fatalf("%q: %s", b, code)
		}
		switch session, code := bcp.ParseSession(b, encoding); code {
		case "":
			stopIf(t, session.Verb != bcp.VerbOpen && session.Verb != bcp.VerbClose && session.Verb != bcp.VerbChannels && (session.Verb != bcp.VerbTaint || !session.Taint.Source.Valid()),
				"%q: %+v", b, session)
		case bcp.Malformed, bcp.MessageTooLarge:
		default:
			t.Fatalf("%q: %s", b, code)
		}
		ask, code := bcp.ParseAsk(b, encoding, "researcher")
		switch code {
		case "":
		case bcp.Malformed, bcp.MessageTooLarge, bcp.InvalidQuery:
			return
		default:
			t.Fatalf("%q: %s", b, code)
		}
		if ask.Category == 0 {
			return // to be refused by Compile
		}
		written, err := bcp.Encode(ask, encoding)
		if err != nil {
			return // an ask may hold words that are no words of ours
		}
		again, code := bcp.ParseAsk(written, encoding, "researcher")
		one, two := dump(t, ask), dump(t, again)
		stopIf(t, code != "" || one != two, "%q is %s, written %q, read as %s: %s", b, one, written, two, code)
	})
}

func dump(t *testing.T, v any) string {
	b := must(json.Marshal(v))
	return strings.ReplaceAll(string(b), " ", "")
}
