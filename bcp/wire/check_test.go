package wire

import (
	"errors"
	"strconv"
	"strings"
	"testing"
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
	err := Check([]byte("{\"a\":[\"b\x7f\"],\"c\":1}"))
	failIf(t, !errors.As(err, &e) || e.Offset != 8, "got %+v", err)
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
		err := Check([]byte(c.in))
		failIf(t, err != nil && !texts[err.Error()], "%s: text %q is not one of the constants", c.name, err)
	}
}
