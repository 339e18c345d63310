package bcp

import (
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

// What writes itself is what the library would write, whatever members it has, and
// what the library refuses is refused. What has a spec inside does not write that
// alone.
//
// covers P2.4
func TestMessagesAreTheLibrarys(t *testing.T) {
	t.Parallel()
	texts := rapid.OneOf(rapid.StringMatching(`[a-z]{0,3}`), rapid.SampledFrom([]string{`"quoted" \ and <b>&amp;`, "tab\tand\x00zero", "\x7f \u2028 é 😀"}))
	damaged := rapid.SampledFrom([]string{"bad \xff", "\xed\xa0\x80"})
	values := rapid.SampledFrom([]jsontext.Value{nil, []byte(`{"a":true}`), []byte(` { "a" : "\u0041\/" } `)})
	var fill func(t *rapid.T, v reflect.Value)
	fill = func(t *rapid.T, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if v.SetString(texts.Draw(t, "text")); rapid.IntRange(0, 200).Draw(t, "damage") == 0 {
				v.SetString(damaged.Draw(t, "damaged"))
			}
		case reflect.Bool:
			v.SetBool(rapid.Bool().Draw(t, "flag"))
		case reflect.Int, reflect.Int64:
			v.SetInt(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, 1)).Draw(t, "number"))
		case reflect.Uint8:
			v.SetUint(uint64(rapid.SampledFrom([]int{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 0, 99}).Draw(t, "word")))
		case reflect.Pointer:
			if rapid.Bool().Draw(t, "there") {
				v.Set(reflect.New(v.Type().Elem()))
				fill(t, v.Elem())
			}
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[jsontext.Value]() {
				v.Set(reflect.ValueOf(values.Draw(t, "value")))
				return
			}
			for range rapid.IntRange(0, 2).Draw(t, "length") {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
				fill(t, v.Index(v.Len()-1))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				fill(t, v.Field(i))
			}
		default:
			t.Fatalf("a member of type %s", v.Type())
		}
	}
	alike := 0
	rapid.Check(t, func(t *rapid.T) {
		for _, kind := range []any{Spec{}, Ask{}, Query{}, ValidationResult{}, Accepted{}, Delivery{}} {
			v := reflect.New(reflect.TypeOf(kind)).Elem()
			fill(t, v)
			message := v.Interface()
			want, wrong := json.Marshal(message, json.Deterministic(true), jsontext.AllowInvalidUTF8(false))
			got, err := Encode(message, JSON)
			if (err != nil) != (wrong != nil) {
				t.Fatalf("%T: %v, and the library says %v", message, err, wrong)
			}
			if wrong == nil {
				if alike++; string(got) != string(want) {
					t.Fatalf("%T: %s", message, cmp.Diff(string(want), string(got)))
				}
			}
		}
	})
	if alike < effort.Rounds(100, 20) {
		t.Errorf("%d messages were written", alike)
	}
}
