package bcp_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// judgedAlike compares the verdict on an answer with that of the slow path, twice: the second time it may be one that is kept.
func judgedAlike(t interface {
	Helper()
	Fatalf(string, ...any)
}, v *bcp.Validator, raw []byte, encoding bcp.Encoding) {
	t.Helper()
	want := bcptest.Describe(v.WithoutUsual().Validate(raw, encoding))
	for range 2 {
		if got := bcptest.Describe(v.Validate(raw, encoding)); got != want {
			t.Fatalf("%q: %s, by the slow path %s", raw, got, want)
		}
	}
	wrapped := append([]byte(`{"type":"bcp_response","query_id":"q","fields":`), append(raw, '}')...)
	if incoming, code := bcp.ParseResponse(wrapped, bcp.JSON); code == "" {
		if got, want := bcptest.Describe(v.Judge(incoming.Raw)), bcptest.Describe(v.WithoutUsual().Judge(incoming.Raw)); got != want {
			t.Fatalf("%q as fields: %s, by the slow path %s", raw, got, want)
		}
	}
}

// usualSpecs have few answers and many, names and values that begin alike, and ends of ranges.
func usualSpecs(t testing.TB) []*bcp.Validator {
	integer := func(name string, least, most int64) bcp.Field {
		return bcp.Field{Name: name, Type: bcp.TypeInteger, Min: &least, Max: &most}
	}
	enum := func(name string, values ...string) bcp.Field {
		return bcp.Field{Name: name, Type: bcp.TypeEnum, Values: values}
	}
	boolean := func(name string) bcp.Field { return bcp.Field{Name: name, Type: bcp.TypeBoolean} }
	var validators []*bcp.Validator
	for _, fields := range [][]bcp.Field{
		bcptest.Workloads()[0].Spec.Fields,
		{boolean("b")},
		{boolean("fields")},
		{integer("n", math.MinInt64, math.MaxInt64), boolean("nn")},
		{integer("n", -3, 60), boolean("answers")},
		{integer("n", 0, 0), integer("m", math.MaxInt64, math.MaxInt64), integer("o", math.MinInt64, math.MinInt64+1)},
		{enum("long_name_one", "value", "value two", "value twofold", "v"), enum("long_name_two", "value", "{", "}", ","), boolean("long_nam")},
		{enum("e", "é", "x"), boolean("b")},
		{enum("e", `"`, `\`, "x"), boolean("b")},
		{enum("e", "a/b", "<b>", "null", "0", "true"), integer("i", -1, 1)},
		{boolean("a"), boolean("c"), boolean("d"), boolean("e"), boolean("f"), boolean("g"), boolean("h"), boolean("i")},
		{boolean("a"), boolean("c"), boolean("d"), boolean("e"), boolean("f"), boolean("g"), boolean("h"), boolean("i"), boolean("j")},
	} {
		v, err := bcp.Compile(bcp.Spec{Category: 1, Fields: fields}, bcp.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		validators = append(validators, v)
	}
	return validators
}

// usualAnswers are usual ones to some spec, and what hostile Readers make of them.
var usualAnswers = []string{
	`{"is_urgent":true,"sentiment":"positive","confidence":3}`, `{"confidence":5, "is_urgent":false, "sentiment":"negative"}`,
	"\t{\r\n\"sentiment\" :\t\"neutral\" , \"confidence\": 1,\"is_urgent\":true }\n", `{"b":true}`, `{"b":false}`, `{"fields":{"b":true}}`, `{"fields":true}`,
	`{"fields":{"fields":true}}`, `{"b":true,"b":true}`, `{"b":true,"b":false}`, `{"b":true,"c":1}`, `{"b":tru}`, `{"b":truee}`, `{"b":true`, `{"b":true}}`, `{"b":true} x`,
	`{"b":true,}`, `{,"b":true}`, `{"b" true}`, `{"b":"true"}`, `{"b":1}`, `{"b":null}`, `{"b":[true]}`, `{"b":{"b":true}}`, `{"\u0062":true}`, `{"b":true}` + "\x00", "{\"b\":true\x00}",
	"{\"b\":\u00a0true}", "{\"b\":\vtrue}", "\ufeff{\"b\":true}", "{\"b\xff\":true}", `{"B":true}`, `{"b ":true}`, `{}`, `[]`, ``, `{`, `{"`, `{"b`, `{"b"`, `{"b":`, `{"b":t`,
	`{"n":0,"nn":true}`, `{"n":-0,"nn":true}`, `{"n":00,"nn":true}`, `{"n":01,"nn":true}`, `{"n":+1,"nn":true}`, `{"n":1.0,"nn":true}`, `{"n":1e3,"nn":true}`, `{"n":1E0,"nn":true}`,
	`{"n":-,"nn":true}`, `{"n":- 1,"nn":true}`, `{"n":1 2,"nn":true}`, `{"n":0x1,"nn":true}`, `{"n":"1","nn":true}`, `{"n":9223372036854775807,"nn":true}`,
	`{"n":9223372036854775808,"nn":true}`, `{"n":-9223372036854775808,"nn":true}`, `{"n":-9223372036854775809,"nn":true}`, `{"n":999999999999999999,"nn":false}`,
	`{"n":-999999999999999999,"nn":false}`, `{"n":1000000000000000000,"nn":false}`, `{"n":99999999999999999999999999,"nn":true}`, `{"nn":true,"n":-5}`,
	`{"n":60,"answers":true}`, `{"n":61,"answers":true}`, `{"n":-3,"answers":true}`, `{"n":-4,"answers":true}`,
	`{"n":0,"m":9223372036854775807,"o":-9223372036854775808}`, `{"n":0,"m":9223372036854775807,"o":-9223372036854775806}`,
	`{"long_name_one":"value two","long_name_two":"}","long_nam":true}`, `{"long_name_two":",","long_nam":false,"long_name_one":"value twofold"}`,
	`{"long_name_one":"value t","long_name_two":"{","long_nam":true}`, `{"long_name_one":"value","long_name_one":"value","long_nam":true}`, `{"long_name_one":"v","long_name_two":"value","long_nam":true}`,
	`{"e":"é","b":true}`, `{"e":"é","b":true}`, `{"e":"x","b":true}`, `{"e":"\"","b":true}`, `{"e":""","b":true}`, `{"e":"\\","b":true}`, `{"e":"\u0078","b":true}`,
	`{"e":"a/b","i":0}`, `{"e":"a\/b","i":0}`, `{"e":"null","i":-1}`, `{"e":null,"i":1}`, `{"e":"true","i":1}`, `{"e":true,"i":1}`, `{"e":"0","i":1}`, `{"e":0,"i":1}`,
	`{"a":true,"c":true,"d":false,"e":true,"f":true,"g":true,"h":true,"i":false}`, `{"i":true,"h":true,"g":false,"f":true,"e":true,"d":true,"c":true,"a":false}`,
	`{"a":true,"c":true,"d":false,"e":true,"f":true,"g":true,"h":true,"i":false,"j":true}`, `{"a":true,"c":true,"d":false,"e":true,"f":true,"g":true,"h":true,"i":false,"i":true}`,
	strings.Repeat("[", 100), strings.Repeat(`{"b":`, 9) + "true" + strings.Repeat("}", 9),
}

// covers P2.2, P3.1, BCP-35, A-CRASH, A-UTF8, A-CTRL
func TestUsualAnswersAreJudgedAlike(t *testing.T) {
	t.Parallel()
	validators, usual := usualSpecs(t), 0
	for _, raw := range usualAnswers {
		for _, v := range validators {
			judgedAlike(t, v, []byte(raw), bcp.JSON)
			judgedAlike(t, v, []byte(strings.ReplaceAll(raw, ":", ": ")), bcp.JSON)
			if v.Usual([]byte(raw)) {
				usual++
			}
		}
	}
	if usual < 15 {
		t.Errorf("only %d of these answers are usual", usual)
	}
	v := validators[0]
	for _, size := range []int{v.MaxBytes(), v.MaxBytes() + 1} {
		judgedAlike(t, v, []byte(usualAnswers[0]+strings.Repeat(" ", size-len(usualAnswers[0]))), bcp.JSON)
	}
	if v := validators[11]; v.Usual([]byte(usualAnswers[len(usualAnswers)-4])) {
		t.Error("nine fields are usual")
	}
}

// covers P2.2, P3.1, P3.2
func TestUsualSpellingsAreJudgedAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := bcptest.Specs().Draw(t, "spec")
		v, err := bcp.Compile(spec, bcp.Settings{Vocabularies: bcptest.Vocabularies()})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			answer := bcptest.Answers(v.Spec()).Draw(t, "answer")
			judgedAlike(t, v, []byte(answer.Canonical()), bcp.JSON)
			message := bcptest.Spellings(answer).Draw(t, "message")
			judgedAlike(t, v, message.Raw, message.Encoding)
			judgedAlike(t, v, bcptest.Mutations([]byte(answer.Canonical())).Draw(t, "damaged"), bcp.JSON)
		}
	})
}

// covers P2.2, P3.1, P3.2, BCP-35, A-CRASH, A-UTF8, A-CTRL, A-LEN
func FuzzUsual(f *testing.F) {
	validators := usualSpecs(f)
	for i, raw := range usualAnswers {
		f.Add([]byte(raw), uint8(i))
	}
	f.Fuzz(func(t *testing.T, raw []byte, which uint8) {
		judgedAlike(t, validators[int(which)%len(validators)], raw, bcp.JSON)
	})
}

// Conditions look at every answer: to a spec that has any no answer is usual.
//
// covers P3.7, P12.2
func TestNoAnswerIsUsualToConditions(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeBoolean}}}
	never := func(string, []bcp.Variable) (bcp.Constraint, error) { return refusing{}, nil }
	raw := []byte(`{"b":true}`)
	if got := compiled(t, spec, bcp.Settings{}).Validate(raw, bcp.JSON); got.Outcome != bcp.Accept {
		t.Fatal(bcptest.Describe(got))
	}
	filtered := compiled(t, spec, bcp.Settings{Constraints: never, Subscriptions: 1, PublishWhen: "b"})
	if got := filtered.Validate(raw, bcp.JSON); got.Reason != bcp.ReasonFiltered {
		t.Error(bcptest.Describe(got))
	}
	spec.Constraints = []string{"b"}
	if got := compiled(t, spec, bcp.Settings{Constraints: never}).Validate(raw, bcp.JSON); got.Outcome != bcp.Hold {
		t.Error(bcptest.Describe(got))
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
	if found == 0 {
		t.Error("nothing was prose")
	}
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
