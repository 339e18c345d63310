package bcp

import (
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// canonical writes the one spelling of the answer: names in the order of the
// spec, category 2 values as strings.
func (w *answerWalk) canonical() string {
	var out strings.Builder
	for i := range w.v.items {
		it, value := &w.v.items[i], &w.answers[i]
		out.Write(it.key)
		switch it.kind {
		case FormatBoolean, FormatInteger:
			out.WriteString(it.number(value.n))
		case FormatEnum:
			out.Write(appendQuoted(nil, []byte(it.values[value.n])))
		default: // normalised text has nothing to escape
			out.WriteByte('"')
			out.Write(w.norm[value.from:value.to])
			out.WriteByte('"')
		}
	}
	out.WriteByte('}')
	return out.String()
}

// number writes a boolean or an integer, as a string in category 2.
func (it *item) number(n int64) string {
	text := strconv.FormatInt(n, 10)
	if it.kind == FormatBoolean {
		text = strconv.FormatBool(n != 0)
	}
	if !it.typed {
		text = `"` + text + `"`
	}
	return text
}

// appendQuoted writes valid UTF-8 as a JSON string.
func appendQuoted(dst, s []byte) []byte {
	quoted, err := wire.AppendString(dst, s)
	if err != nil {
		return append(dst, '"', '"')
	}
	return quoted
}
