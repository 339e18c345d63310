package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// nested returns a document with n arrays around a number.
func nested(n int) string { return strings.Repeat("[", n) + "1" + strings.Repeat("]", n) }

// manyKeys returns an object with n different keys.
func manyKeys(n int) string {
	b := []byte{'{'}
	for i := range n {
		b = append(appendKey(b, "k"+strconv.Itoa(i)), '1')
	}
	return string(append(b, '}'))
}

// strictness has a case for every rule of P2.2: at the limit, and past it.
var strictness = []struct {
	name string
	in   string
	want error
}{
	{"object", `{"a":1,"b":[true,false,"x"],"c":{}}`, nil},
	{"scalar string", `"x"`, nil},
	{"space around", " \t\r\n{ \"a\" :\n[ 1 , 2 ] , \"b\" : {} } \t\r\n", nil},
	{"empty containers", `[{},[]]`, nil},

	{"nothing", ``, ErrTruncated},
	{"only space", `  `, ErrTruncated},
	{"open array", `[1,`, ErrTruncated},
	{"only a minus", `-`, ErrTruncated},
	{"byte order mark", "\ufeff{}", ErrSyntax},
	{"NUL as space", "\x00{}", ErrSyntax},
	{"comma before brace", `{"a":1,}`, ErrSyntax},
	{"leading comma", `[,1]`, ErrSyntax},
	{"no colon", `{"a" 1}`, ErrSyntax},
	{"key without quotes", `{a:1}`, ErrSyntax},
	{"number as key", `{1:1}`, ErrSyntax},
	{"wrong bracket", `[1}`, ErrSyntax},
	{"comment", `/**/1`, ErrSyntax},
	{"misspelt true", `tru`, ErrTruncated},
	{"NaN", `NaN`, ErrSyntax},

	{"two values", `1 2`, ErrTrailing},
	{"NUL behind", "{}\x00", ErrTrailing},
	{"letter behind a number", `1x`, ErrTrailing},

	{"null", `null`, ErrKind},
	{"null inside", `{"a":[null]}`, ErrKind},

	{"zero", `0`, nil},
	{"negative", `-1`, nil},
	{"largest", `9223372036854775807`, nil},
	{"past largest", `9223372036854775808`, ErrNumber},
	{"smallest", `-9223372036854775808`, nil},
	{"past smallest", `-9223372036854775809`, ErrNumber},
	{"19 nines", `9999999999999999999`, ErrNumber},
	{"20 digits", `10000000000000000000`, ErrNumber},
	{"wraps to 0 in 64 bits", `18446744073709551616`, ErrNumber},
	{"past 2^53", `9007199254740993`, nil},
	{"minus zero", `-0`, ErrNumber},
	{"leading zero", `01`, ErrTrailing},
	{"fraction", `1.0`, ErrNumber},
	{"bare point", `1.`, ErrTruncated},
	{"exponent", `1e2`, ErrNumber},
	{"plus", `+1`, ErrSyntax},
	{"minus alone", `[-]`, ErrSyntax},

	{"deepest", nested(MaxDepth), nil},
	{"too deep", nested(MaxDepth + 1), ErrDepth},
	{"too deep in objects", strings.Repeat(`{"a":`, MaxDepth+1), ErrDepth},

	{"most keys", manyKeys(MaxKeys), nil},
	{"too many keys", manyKeys(MaxKeys + 1), ErrTooManyKeys},
	{"most keys twice", `[` + manyKeys(MaxKeys) + `,` + manyKeys(MaxKeys) + `]`, nil},
	{"most keys within most keys", strings.TrimSuffix(manyKeys(MaxKeys), "1}") + manyKeys(MaxKeys) + `}`, nil},

	{"repeated key", `{"a":1,"a":1}`, ErrDuplicateKey},
	{"repeated key inside", `[{"x":{"a":1,"b":2,"a":1}}]`, ErrDuplicateKey},
	{"repeated key behind an object", `{"a":{"b":1},"a":1}`, ErrDuplicateKey},
	{"repeated key by escape", `{"a":1,"\u0061":1}`, ErrDuplicateKey},
	{"repeated key by two escapes", `{"\u00e9\n":1,"é\u000A":1}`, ErrDuplicateKey},
	{"repeated last of many", strings.TrimSuffix(manyKeys(MaxKeys-1), "}") + `,"k7":1}`, ErrDuplicateKey},
	{"key of another level", `{"a":{"a":{"a":1}},"b":{"a":1}}`, nil},
	{"key of a sibling", `[{"a":1},{"a":1}]`, nil},
	{"keys by case", `{"a":1,"A":1}`, nil},
	{"keys by normal form", "{\"\u00e9\":1,\"e\u0301\":1}", nil},

	{"all escapes", `"\"\\\/\b\f\n\r\t\u0041"`, nil},
	{"escaped controls", `"\u0000\u001f\u007f"`, nil},
	{"unknown escape", `"\x41"`, ErrSyntax},
	{"escape without hex", `"\u00g1"`, ErrSyntax},
	{"surrogate pair", `"\ud83d\ude00"`, nil},
	{"lone high surrogate", `"\ud83d"`, ErrSyntax},
	{"lone low surrogate", `"\ude00"`, ErrSyntax},
	{"high surrogate before a broken escape", `"\ud83d\u00zz"`, ErrSyntax},

	{"two, three and four bytes", "\"\u0080\u07ff\u0800\uffff\U00010000\U0010ffff\"", nil},
	{"replacement character itself", "\"\ufffd\"", nil},
	{"byte order mark in text", "\"\ufeff\"", nil},
	{"stray 0xff", "\"\xff\"", ErrUTF8},
	{"stray continuation", "\"a\x80\"", ErrUTF8},
	{"overlong slash", "\"\xc0\xaf\"", ErrUTF8},
	{"surrogate in UTF-8", "\"\xed\xa0\x80\"", ErrUTF8},
	{"bad UTF-8 behind long text", `"` + strings.Repeat("a", 40) + "\xff\"", ErrUTF8},
	{"bad UTF-8 in a key", "{\"a\xff\":1}", ErrUTF8},
	{"bad UTF-8 outside strings", "{\xff}", ErrUTF8},

	{"raw NUL", "\"\x00\"", ErrSyntax},
	{"raw newline", "\"a\nb\"", ErrSyntax},
	{"raw space", "\" \"", nil},
	{"raw DEL", "\"\x7f\"", ErrControl},
	{"raw DEL behind text", "\"12345678901234\x7f\"", ErrControl},
	{"raw control in a key", "{\"a\x01\":1}", ErrSyntax},
}

// covers P2.2, A-DUP, A-BIG, A-UTF8, A-CTRL, A-HASH
func TestCheckIsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range strictness {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := Check([]byte(c.in))
			stopIf(t, !errors.Is(err, c.want), "Check: got %v, want %v", err, c.want)
			if c.want == nil {
				return
			}
			failIf(t, !errors.Is(err, ErrMalformed), "%v does not wrap ErrMalformed", err)
			var e *Error
			failIf(t, !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(c.in), "no offset within the input: %+v", e)
		})
	}
}

// covers A-CTRL
func TestControlHasItsPlace(t *testing.T) {
	t.Parallel()
	var e *Error
	if err := Check([]byte("{\"a\":[\"b\x7f\"],\"c\":1}")); !errors.As(err, &e) || e.Offset != 8 {
		t.Errorf("got %+v", err)
	}
}

// covers P2.2
func TestScannerReadsValues(t *testing.T) {
	t.Parallel()
	s := NewScanner([]byte(` { "a\u0062" : "x\ty\ud83d\ude00é" , "n" : [ -12 , 0 , 9223372036854775807 ] , "t" : true , "raw" : { "k" : [ 1 ] } } `))
	var got []any
	note := func(v any, err error) {
		t.Helper()
		noError(t, err)
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		got = append(got, v)
	}
	stopIf(t, s.Kind() != KindObject, "kind of the document")
	note(nil, s.ObjectStart())
	for s.More() {
		key, err := s.Key()
		note(key, err)
		switch string(key) {
		case "ab":
			v, err := s.String()
			note(v, err)
		case "n":
			note(nil, s.ArrayStart())
			for s.More() {
				v, err := s.Int64()
				note(v, err)
			}
		case "t":
			v, err := s.Bool()
			note(v, err)
		case "raw":
			v, err := s.RawValue()
			note(v, err)
		}
	}
	note(nil, s.End())
	want := []any{nil, "ab", "x\ty😀é", "n", nil, int64(-12), int64(0), int64(9223372036854775807), "t", true, "raw", `{ "k" : [ 1 ] }`, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// covers P2.2, P3.1
func TestScannerKinds(t *testing.T) {
	t.Parallel()
	docs := map[jsontext.Kind]string{
		KindObject: `{}`, KindArray: `[]`, KindString: `"true"`, KindNumber: `1`, KindBool: `true`, KindNull: `null`,
	}
	calls := map[jsontext.Kind]func(*Scanner) error{
		KindObject: (*Scanner).ObjectStart,
		KindArray:  (*Scanner).ArrayStart,
		KindString: func(s *Scanner) error { _, err := s.String(); return err },
		KindNumber: func(s *Scanner) error { _, err := s.Int64(); return err },
		KindBool:   func(s *Scanner) error { _, err := s.Bool(); return err },
	}
	for kind, doc := range docs {
		for asked, call := range calls {
			s := NewScanner([]byte(doc))
			if got := s.Kind(); got != kind {
				t.Errorf("%s: kind %d, want %d", doc, got, kind)
			}
			err := call(&s)
			failIf(t, kind == asked && err != nil, "%s: %v", doc, err)
			failIf(t, kind != asked && !errors.Is(err, ErrKind), "%s read as kind %v: got %v, want %v", doc, asked, err, ErrKind)
		}
	}
	for _, doc := range []string{"", "]", "}", ",", "x", "\xff"} {
		s := NewScanner([]byte(doc))
		failIf(t, s.Kind() != KindInvalid, "%q has a kind", doc)
	}
}

// covers P2.2
func TestScannerRefusalIsFinal(t *testing.T) {
	t.Parallel()
	s := NewScanner([]byte(`{"a":1.5,"b":2}`))
	noError(t, s.ObjectStart())
	stopIf(t, !s.More(), "no member")
	if _, err := s.Key(); err != nil {
		t.Fatal(err)
	}
	_, first := s.Int64()
	stopIf(t, !errors.Is(first, ErrNumber), "%v", first)
	failIf(t, s.More(), "More after a refusal")
	failIf(t, s.Kind() != KindInvalid, "Kind after a refusal")
	_, e1 := s.Key()
	_, e2 := s.String()
	_, e3 := s.Int64()
	_, e4 := s.Bool()
	_, e5 := s.RawValue()
	for i, err := range []error{e1, e2, e3, e4, e5, s.ObjectStart(), s.ArrayStart(), s.End()} {
		failIf(t, err != first, "call %d: got %v, want the first refusal", i, err)
	}
}

// What a slice of the input gets appended must not reach the input.
//
// covers P2.2
func TestReturnedSlicesAreClipped(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"a":"b","c":[1]}`)
	s := NewScanner(doc)
	var got [][]byte
	_ = s.ObjectStart()
	for s.More() {
		key, _ := s.Key()
		got = append(got, key)
		if s.Kind() == KindString {
			text, _ := s.String()
			got = append(got, text)
		} else {
			raw, _ := s.RawValue()
			got = append(got, raw)
		}
	}
	for _, b := range got {
		_ = append(b, 'X')
	}
	failIf(t, string(doc) != `{"a":"b","c":[1]}`, "input changed: %s", doc)
}

// covers P2.5, A-KEYECHO
func TestErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for _, why := range []error{ErrSyntax, ErrTruncated, ErrTrailing, ErrUTF8, ErrControl, ErrNumber, ErrNotMinimal, ErrKind, ErrDepth, ErrDuplicateKey, ErrTooManyKeys} {
		texts[why.Error()] = true
	}
	stopIf(t, len(texts) != 11, "two reasons have one text")
	for _, c := range strictness {
		if err := Check([]byte(c.in)); err != nil && !texts[err.Error()] {
			t.Errorf("%s: text %q is not one of the constants", c.name, err)
		}
	}
}
