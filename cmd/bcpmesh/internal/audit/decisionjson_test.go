package audit

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// anyDecision draws a decision in which each member is empty or anything that its
// type holds. Most have JSON; the others have text that is not UTF-8, or words
// without a meaning.
func anyDecision(t *rapid.T) *bcp.Decision {
	var d bcp.Decision
	texts := []string{"mailer", "a\x00\"\\/\x1f\t\n<>&\x7f", "\u202e\u2028é👍🏽"}
	strange := rapid.IntRange(0, 3).Draw(t, "strange") == 0
	if strange && rapid.Bool().Draw(t, "text") {
		texts = append(texts, "\xff")
	}
	fill(t, "decision", reflect.ValueOf(&d).Elem(), texts)
	if rapid.IntRange(0, 3).Draw(t, "rare") > 0 {
		d.Files, d.Truncation, d.Credential, d.Egress, d.Run, d.Declare, d.Usage = nil, nil, nil, nil, nil, nil, nil
	}
	if !strange {
		d.Kind, d.Role, d.Verdict, d.Check = 1+d.Kind%bcp.DecisionKind(len(bcp.DecisionKinds())), d.Role%6, d.Verdict%4, d.Check%2
		if d.Credential != nil {
			d.Credential.Role %= 6
		}
	}
	return &d
}

// fill draws a value, half of them zero.
func fill(t *rapid.T, name string, v reflect.Value, texts []string) {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			fill(t, v.Type().Field(i).Name, v.Field(i), texts)
		}
		return
	}
	if !rapid.Bool().Draw(t, name+" is set") {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.SampledFrom(texts).Draw(t, name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, name)) >> rapid.IntRange(0, 7).Draw(t, name+" is small"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	case reflect.Array:
		fill(t, name, v.Index(rapid.IntRange(0, v.Len()-1).Draw(t, name)), texts)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, name), 3))
		for i := range v.Len() {
			fill(t, fmt.Sprint(name, i), v.Index(i), texts)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, name, v.Elem(), texts)
	default:
		t.Fatalf("%s: nothing to fill a %s with", name, v.Type())
	}
}

// A decision is written as the library would write it, to the byte, and refused
// with its words. Nothing but what is rare or has no JSON is left to the library.
//
// covers P11.3
func TestDecisionJSON(t *testing.T) {
	t.Parallel()
	written := 0
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecision(t)
		before := []byte("before")
		got, ok := d.AppendJSON(before)
		want, err := json.Marshal(d, json.Deterministic(true), json.FormatNilSliceAsNull(false))
		if ok && (err != nil || !bytes.Equal(got, append(before, want...))) {
			t.Errorf("written as\n%s\nand by the library, %v, as\n%s", got, err, want)
		}
		if rare := len(d.Files) > 0 || d.Truncation != nil || d.Credential != nil || d.Egress != nil || d.Run != nil || d.Declare != nil || d.Usage != nil || d.Endorsed != nil; !ok && err == nil && !rare {
			t.Errorf("left to the library: %s", want)
		}
		if ok {
			written++
		}
	})
	if written == 0 {
		t.Error("all were left to the library")
	}
}

// What is printed of one decision does not depend on the one before, and is what
// any other command prints of it.
//
// covers P2.5, P11.3
func TestDecisionsAreLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lines, decisions bytes.Buffer
		one := cli.NewOutput(&lines, io.Discard, func(string) string { return "" })
		other := cli.NewOutput(&decisions, io.Discard, func(string) string { return "" })
		write := writeDecisions(other)
		for range rapid.IntRange(1, 4).Draw(t, "decisions") {
			d := anyDecision(t)
			if want, got := one.Line(d), write(d); fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("it fails with %v, want %v", got, want)
			}
		}
		if one.Flush() != nil || other.Flush() != nil || lines.String() != decisions.String() {
			t.Errorf("written:\n%s\nwant:\n%s", &decisions, &lines)
		}
	})
}
