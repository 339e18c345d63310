package wire

import (
	"bytes"
	"cmp"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxExponent and maxSpelling, in bytes, bound a number that is spelled out: beyond them none is an integer of the wire.
const (
	maxExponent = 32
	maxSpelling = 64
)

// WholeNumbers returns JSON with each whole number as the wire spells it: to JSON Schema 12.0, 1.2e1 and 12 are one integer,
// and models write all of them. It is for what a model wrote, before that is judged; the wire takes no such spelling. What
// else is there stays as it is, and what is no JSON does not become any.
func WholeNumbers(b []byte) []byte {
	var out []byte // nil as long as nothing has changed
	kept := 0      // of b are in out
	inText := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && (c == '-' || c-'0' <= 9):
			end := i + 1
			for end < len(b) && (b[end]-'0' <= 9 || strings.IndexByte("+-.eE", b[end]) >= 0) {
				end++
			}
			if whole, ok := wholeNumber(b[i:end]); ok {
				out = append(append(out, b[kept:i]...), whole...)
				kept = end
			}
			i = end - 1
		}
	}
	if kept == 0 {
		return b
	}
	return append(out, b[kept:]...)
}

// wholeNumber spells a whole number that has a fraction or an exponent, or is a negative zero, without.
func wholeNumber(number []byte) (whole []byte, ok bool) {
	_, exponent, _ := strings.Cut(strings.ToLower(string(number)), "e")
	e, err := strconv.Atoi(cmp.Or(exponent, "0"))
	switch {
	case len(number) > maxSpelling || !jsontext.Value(number).IsValid(), err != nil, e < -maxExponent || e > maxExponent,
		!bytes.ContainsAny(number, ".eE") && string(number) != "-0": // it is spelled so already
		return nil, false
	}
	n, ok := new(big.Rat).SetString(string(number))
	if !ok || !n.IsInt() {
		return nil, false
	}
	return n.Num().Append(nil, 10), true
}
