package wire

import (
	"bytes"
	"strings"
)

// maxExponent bounds the exponent of a number that is spelled out: beyond it none is an integer of the wire.
const maxExponent = 32

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
	rest, negative := bytes.CutPrefix(number, []byte("-"))
	end := digits(rest, 0)
	integer, rest := rest[:end], rest[end:]
	if len(integer) == 0 || len(integer) > 1 && integer[0] == '0' {
		return nil, false
	}
	var fraction []byte
	if after, has := bytes.CutPrefix(rest, []byte(".")); has {
		end := digits(after, 0)
		if end == 0 {
			return nil, false
		}
		fraction, rest = after[:end], after[end:]
	} else if len(rest) == 0 && !(negative && integer[0] == '0') {
		return nil, false // it is spelled so already
	}
	exponent := 0
	if len(rest) > 0 {
		if rest[0]|0x20 != 'e' {
			return nil, false
		}
		rest = rest[1:]
		below := len(rest) > 0 && rest[0] == '-'
		if below || len(rest) > 0 && rest[0] == '+' {
			rest = rest[1:]
		}
		if len(rest) == 0 || digits(rest, 0) != len(rest) {
			return nil, false
		}
		for _, c := range rest {
			exponent = min(10*exponent+int(c-'0'), maxExponent+1)
		}
		if below {
			exponent = -exponent
		}
	}
	all := bytes.TrimRight(append(bytes.Clone(integer), fraction...), "0")
	point := len(integer) + exponent // after so many digits
	all = append(all, bytes.Repeat([]byte("0"), max(0, min(point, maxExponent)-len(all)))...)
	if trimmed := bytes.TrimLeft(all, "0"); len(trimmed) == 0 {
		return []byte("0"), true
	} else if len(all) > point || exponent > maxExponent || point > maxExponent {
		return nil, false
	} else if negative {
		return append([]byte("-"), trimmed...), true
	} else {
		return trimmed, true
	}
}
