package bcp_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Message is an answer as a Reader could send it.
type Message struct {
	Raw      []byte
	Encoding bcp.Encoding
}

// Spellings generates messages that all say a: in any order of names, shape,
// white space, case, punctuation, escapes, number form and encoding that
// canonical spelling folds. Each must be delivered as a.Canonical().
func Spellings(a Answer) *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		var b strings.Builder
		gap := func() { b.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n  "}).Draw(t, "gap")) }
		quoted := func(s string) { b.WriteString(quote(t, s)) }
		order := rapid.Permutation(a.Values).Draw(t, "order")
		object := func() {
			b.WriteByte('{')
			for i, v := range order {
				if i > 0 {
					b.WriteByte(',')
				}
				gap()
				quoted(v.Name)
				gap()
				b.WriteByte(':')
				gap()
				b.WriteString(value(t, a.Category, v))
				gap()
			}
			b.WriteByte('}')
		}
		gap()
		switch whole := rapid.Bool().Draw(t, "outer shape"); {
		case whole && a.Category == 1:
			b.WriteString(`{"fields":`)
			gap()
			object()
			b.WriteByte('}')
		case whole && a.Category == 2:
			b.WriteString(`{"answers":[`)
			for i, v := range order {
				if i > 0 {
					b.WriteByte(',')
				}
				gap()
				parts := []string{`"id":` + quote(t, v.Name), `"answer":` + value(t, a.Category, v)}
				if rapid.Bool().Draw(t, "answer first") {
					slices.Reverse(parts)
				}
				b.WriteString("{" + strings.Join(parts, ",") + "}")
			}
			gap()
			b.WriteString("]}")
		default:
			object()
		}
		gap()
		m := Message{Raw: []byte(b.String()), Encoding: bcp.JSON}
		if rapid.Bool().Draw(t, "msgpack") {
			packed, err := wire.MsgpackFromJSON(nil, m.Raw)
			stopIf(t, err != nil, "spelled what has no MessagePack: %v", err)
			m = Message{Raw: packed, Encoding: bcp.MessagePack}
		}
		return m
	})
}

// quote writes a JSON string with some characters escaped.
func quote(t *rapid.T, s string) string {
	b := []byte{'"'}
	every := rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "escape every")
	for i, r := range []rune(s) {
		switch {
		case every > 0 && i%every == 0 && r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		case every > 0 && i%every == 0:
			b = fmt.Appendf(b, `\u%04X\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			one, _ := wire.AppendString(nil, string(r))
			b = append(b, one[1:len(one)-1]...)
		}
	}
	return string(append(b, '"'))
}

// value spells one value in JSON.
func value(t *rapid.T, category bcp.Category, v Value) string {
	typed := category == 1 || rapid.Bool().Draw(t, "typed")
	switch v.Format {
	case bcp.FormatBoolean:
		if typed {
			return v.Delivered
		}
		return quote(t, padded(t, anyCase(t, v.Delivered)))
	case bcp.FormatInteger:
		if typed {
			return v.Delivered
		}
		return quote(t, padded(t, v.Delivered))
	case bcp.FormatEnum:
		return quote(t, composed(t, v.Delivered))
	case bcp.FormatDate:
		return quote(t, padded(t, date(t, v.Delivered)))
	case bcp.FormatTime:
		return quote(t, padded(t, v.Delivered))
	case bcp.FormatEmail:
		return quote(t, rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "before")+anyCase(t, v.Delivered))
	case bcp.FormatShortList:
		return quote(t, list(t, v.Delivered))
	case bcp.FormatSummary:
		return quote(t, sentences(t, v.Delivered))
	case bcp.FormatPersonName:
		return quote(t, padded(t, respaced(t, v.Delivered, ",.")))
	default:
		return quote(t, padded(t, respaced(t, v.Delivered, `!?";:()`)))
	}
}

func padded(t *rapid.T, s string) string {
	spaces := rapid.SampledFrom([]string{"", "", " ", "\t", "\n", "\u00a0", "\u2003 "})
	return spaces.Draw(t, "before") + s + spaces.Draw(t, "behind")
}

// anyCase changes the case of letters where that folds back.
func anyCase(t *rapid.T, s string) string {
	how := rapid.IntRange(0, 3).Draw(t, "case")
	return strings.Map(func(r rune) rune {
		up := unicode.ToUpper(r)
		if how == 0 || how == 1 && up%2 == 0 || how == 2 && up%3 == 0 || unicode.ToLower(up) != r {
			return r
		}
		return up
	}, s)
}

func composed(t *rapid.T, s string) string {
	if rapid.Bool().Draw(t, "decomposed") {
		return norm.NFD.String(s)
	}
	return s
}

// wide writes ASCII letters and digits in their full-width forms.
func wide(t *rapid.T, s string) string {
	if rapid.IntRange(0, 4).Draw(t, "full width") > 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r - '!' + '\uff01'
		}
		return r
	}, s)
}

// respaced spells a text of words between single spaces; marks may stand between.
func respaced(t *rapid.T, s, marks string) string {
	parts := strings.Split(s, " ")
	for i := range parts {
		parts[i] = wide(t, composed(t, anyCase(t, parts[i])))
		if strings.Contains(parts[i], "'") && rapid.Bool().Draw(t, "curly") {
			parts[i] = strings.ReplaceAll(parts[i], "'", "\u2019")
		}
	}
	spaces := []string{" ", " ", "  ", "\t", "\u00a0", "\u2003", "\n"}
	for _, mark := range marks {
		spaces = append(spaces, string(mark)+" ")
	}
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString(rapid.SampledFrom(spaces).Draw(t, "space"))
		}
		b.WriteString(part)
	}
	return b.String()
}

func list(t *rapid.T, s string) string {
	items := strings.Split(s, ", ")
	style := rapid.SampledFrom([]string{", ", "; ", "\n", "\n- ", "\n\u2022 ", "#", ",,", ";\r\n"}).Draw(t, "list style")
	var b strings.Builder
	for i, item := range items {
		item = oneLine(respaced(t, item, `!?":()`))
		if style == "#" {
			fmt.Fprintf(&b, "%d. %s\n", i+1, item)
			continue
		}
		if i > 0 {
			b.WriteString(style)
		}
		b.WriteString(item)
	}
	return b.String()
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

func sentences(t *rapid.T, s string) string {
	parts := strings.Split(s, ". ")
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString(rapid.SampledFrom([]string{". ", "! ", "?\n", "...  ", ".\u00a0", "?! "}).Draw(t, "stop"))
		}
		b.WriteString(respaced(t, part, `",;:()`))
	}
	return b.String() + rapid.SampledFrom([]string{"", ".", "!", " "}).Draw(t, "end")
}

// date writes an ISO date in one of the layouts.
func date(t *rapid.T, iso string) string {
	year := ""
	rest, bare := strings.CutPrefix(iso, "--")
	if !bare {
		year, rest = iso[:4], iso[5:]
	}
	month, _ := strconv.Atoi(rest[:2])
	day, _ := strconv.Atoi(rest[3:])
	name := time.Month(month).String()
	switch rapid.IntRange(0, 5).Draw(t, "layout") {
	case 0:
		return wide(t, iso)
	case 1:
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", day, anyCase(t, strings.ToLower(name)), year))
	case 2:
		return strings.TrimSuffix(fmt.Sprintf("%s %d, %s", name, day, year), ", ")
	case 3:
		return strings.TrimSpace(fmt.Sprintf("%s  %02d %s", name[:3], day, year))
	case 4:
		return strings.TrimSpace(fmt.Sprintf("%s. %d %s", name[:3], day, year))
	default:
		return strings.TrimSuffix(fmt.Sprintf("%s %d%s, %s", name, day, ordinal(day), year), ", ")
	}
}

func ordinal(n int) string {
	switch {
	case n%100/10 == 1:
	case n%10 == 1:
		return "st"
	case n%10 == 2:
		return "nd"
	case n%10 == 3:
		return "rd"
	}
	return "th"
}
