package wire

import (
	"bytes"
	"cmp"
	"math/big"
	"regexp"
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
	return textOrNumber.ReplaceAllFunc(b, func(part []byte) []byte {
		if part[0] == '"' || !bytes.ContainsAny(part, ".eE") && string(part) != "-0" { // it is spelled so already
			return part
		}
		return wholeNumber(part)
	})
}

// textOrNumber finds the texts and the numbers of what may be JSON.
var textOrNumber = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"?|[-0-9][-+.eE0-9]*`)

// wholeNumber spells a whole number that has a fraction or an exponent, or is a negative zero, without; others stay.
func wholeNumber(number []byte) []byte {
	_, exponent, _ := strings.Cut(strings.ToLower(string(number)), "e")
	e, err := strconv.Atoi(cmp.Or(exponent, "0"))
	if len(number) > maxSpelling || !jsontext.Value(number).IsValid() || err != nil || e < -maxExponent || e > maxExponent {
		return number
	}
	n, ok := new(big.Rat).SetString(string(number))
	if !ok || !n.IsInt() {
		return number
	}
	return n.Num().Append(nil, 10)
}
