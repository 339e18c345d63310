package text

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// The slow, plain reading of PROTOCOL P3.3 and P3.4 that the scanner is compared with. It shares no table with it, but for which
// letters are spelled as others and which pairs are one letter: look_test.go compares those with the data of Unicode.

func refInvisible(r rune) bool {
	return unicode.Is(unicode.Cc, r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

func refStrip(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0x200b:
			return ' '
		case r == 0xb4 || r == 0x1ffd:
			return '\''
		case refInvisible(r), r == 0x640, r == 0x7fa:
			return -1
		}
		return r
	}, s)
}

// refLook is what a letter that folding leaves is spelled as, for its look.
func refLook(r rune) string {
	e := lookUp(r)
	switch class(e & entryClass) {
	case classMapped:
		return string(mappedTo(e))
	case classExpand:
		s := strings.ReplaceAll(expand(e), string(rune(capitalMark)), "")
		if d := []rune(s); len(d) == 2 && norm.NFC.String(s) == string(r) {
			return string(rune(slot(composeTable[:], pairKey(d[0], d[1]))))
		}
		return s
	}
	return string(r)
}

// refJoin reads pairs as one letter that NFC does not compose.
func refJoin(s string) string {
	var out []rune
	for _, r := range s {
		ccc := norm.NFC.PropertiesString(string(r)).CCC()
		at := len(out) - 1
		for ; at >= 0 && ccc != 0 && norm.NFC.PropertiesString(string(out[at])).CCC() != 0; at-- {
			if norm.NFC.PropertiesString(string(out[at])).CCC() >= ccc && at == len(out)-1 {
				break
			}
		}
		if at >= 0 {
			if whole := rune(slot(composeTable[:], pairKey(out[at], r))); whole != 0 && (at == len(out)-1 || norm.NFC.PropertiesString(string(out[at])).CCC() == 0) {
				out[at] = whole
				continue
			}
		}
		out = append(out, r)
	}
	return string(out)
}

var refFolds = strings.NewReplacer("İ", "i", "ı", "i", "ß", "ss", "ẞ", "ss", "ς", "σ",
	"‘", "'", "’", "'", "‛", "'", "′", "'", "\u02b9", "'", "\u02bb", "'", "\u02bc", "'", "\u02bd", "'", "\u02c8", "'",
	"\u055a", "'", "\u05f3", "'", "\ua78b", "'", "\ua78c", "'", "`", "'",
	"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2212", "-", "\u058a", "-", "\u05be", "-", "\u2043", "-",
	"\u2044", "/", "\u2215", "/", "\u2236", ":", "\u066a", "%", "\u066b", ".", "\u066c", ",")

func refDigit(r rune) (rune, bool) {
	zero := r // digits stand in tens, and begin with a zero
	for unicode.Is(unicode.Nd, zero-1) {
		zero--
	}
	return '0' + (r-zero)%10, unicode.Is(unicode.Nd, r)
}

// refSettle finds the fixpoint; iota subscript folds through its decomposition.
func refSettle(s string) string {
	for range 10 {
		was := s
		s = norm.NFKC.String(refStrip(norm.NFKC.String(refStrip(s))))
		s = strings.Map(func(r rune) rune {
			if d, ok := refDigit(r); ok {
				return d
			}
			return r
		}, refFolds.Replace(refStrip(s)))
		var b strings.Builder
		iota := ""
		for _, r := range s {
			if norm.NFC.PropertiesString(string(r)).CCC() == 0 {
				b.WriteString(iota)
				iota = ""
			}
			d := []rune(norm.NFD.String(string(r)))
			if len(d) > 1 && d[len(d)-1] == 0x345 {
				iota = "ι"
				r = []rune(norm.NFC.String(string(d[:len(d)-1])))[0]
			}
			b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
		}
		b.WriteString(iota)
		s = norm.NFKC.String(strings.ReplaceAll(b.String(), "i\u0307", "i"))
		b.Reset()
		for _, r := range s {
			b.WriteString(refLook(r))
		}
		s = refJoin(norm.NFKC.String(b.String()))
		if s == was {
			return s
		}
	}
	return s
}

// refBase says whether a settled code point is a letter or digit.
func refBase(r rune) bool {
	return (unicode.Is(unicode.L, r) || r == 0x3007) && !refSymbol(r) || r >= '0' && r <= '9'
}

// refSymbol says whether Unicode has a letter that belongs to no script and no alphabet.
func refSymbol(r rune) bool {
	return unicode.Is(unicode.Common, r) && unicode.Is(unicode.L, r) && r != 'ー' && r != '〆'
}

// refBears says whether a mark may stand behind what is before it.
func refBears(before, mark rune) bool {
	if entryScriptNumber(lookUp(mark)) == 0 {
		return refData().clusters[[2]rune{before, mark}]
	}
	return before != mark
}

// refNormal is the canonical text for Join None.
func refNormal(s string) string {
	text := []rune(refSettle(s))
	at := func(i int) rune {
		if i < 0 || i >= len(text) {
			return ' '
		}
		return text[i]
	}
	mark := func(i int) bool {
		for ; i >= 0 && unicode.Is(unicode.M, at(i)); i-- {
			if !refBears(at(i-1), at(i)) {
				return false
			}
		}
		return refBase(at(i)) && !digit(at(i))
	}
	word := func(i int) bool { return refBase(at(i)) || unicode.Is(unicode.M, at(i)) && mark(i) }
	for i, was := range append([]rune(nil), text...) {
		keep := false
		switch {
		case refBase(was):
			keep = true
		case unicode.Is(unicode.M, was):
			keep = mark(i)
		case was == '\'' || was == '-' || was == '&' || was == '+':
			keep = word(i-1) && refBase(at(i+1))
		case was == '.' || was == ',' || was == ':' || was == '/':
			keep = digit(at(i-1)) && digit(at(i+1))
		case was == '%' || unicode.Is(unicode.Sc, was):
			keep = digit(at(i-1)) || digit(at(i+1))
		}
		if !keep {
			text[i] = ' '
		}
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

func digit(r rune) bool { return r >= '0' && r <= '9' }

// refWords counts a normalised text: the larger of the library's segmentation and the split.
func refWords(s string) int {
	segments := 0
	for it := words.FromString(s); it.Next(); {
		if strings.ContainsFunc(it.Value(), func(r rune) bool { return refBase(r) || unicode.Is(unicode.M, r) }) {
			segments++
		}
	}
	splits, inside := 0, false
	text := []rune(s)
	for i, r := range text {
		switch {
		case refBase(r) || unicode.Is(unicode.M, r):
			if !inside {
				splits++
			}
			inside = true
		case r == '\'':
		case (r == '.' || r == ',' || r == ':' || r == '/') && i > 0 && i+1 < len(text) && digit(text[i-1]) && digit(text[i+1]):
		default:
			inside = false
		}
	}
	return max(segments, splits)
}

// refPieces parses a delivered text into its pieces.
func refPieces(s string, join Join) []string {
	switch join {
	case List:
		s = strings.ReplaceAll(s, ", ", " ")
	case Summary:
		s = strings.ReplaceAll(s, ". ", " ")
	}
	var pieces []string
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '-' }) {
		piece, last := "", rune(0)
		for it := words.FromString(run); it.Next(); {
			first := []rune(it.Value())[0]
			if piece != "" && refWordRune(last) && refWordRune(first) {
				pieces = append(pieces, piece)
				piece = ""
			}
			piece += it.Value()
			rs := []rune(it.Value())
			last = rs[len(rs)-1]
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

func refWordRune(r rune) bool { return refBase(r) || unicode.Is(unicode.M, r) }

// checkPremise is the premise of the capacity bound, see the package documentation.
func checkPremise(t bcptest.TB, r Result, o Options) {
	t.Helper()
	text := string(r.Text)
	if o.PreserveCase {
		text = refSettle(text)
	}
	pieces := refPieces(text, o.Join)
	stopIf(t, len(pieces) > r.Words || r.Words > o.MaxWords,
		"%q: %d pieces, %d words, limit %d", text, len(pieces), r.Words, o.MaxWords)
	stopIf(t, r.Capitals > len(pieces), "%q: %d capitals in %d pieces", text, r.Capitals, len(pieces))
	rest := text
	for i, p := range pieces {
		gap, behind, found := strings.Cut(rest, p)
		rest = behind
		stopIf(t, !found || i == 0 && gap != "" || i > 0 && !joins(gap, o), "%q: %q is joined by %q", text, p, gap)
		n := 0
		for _, c := range p {
			n++
			stopIf(t, c == ' ' || c == '-' || !refHas(o.Alphabet, c) || !inAlphabet(c),
				"%q: %q is not over the alphabet", text, p)
		}
		stopIf(t, n < 1 || n > MaxWordChars, "%q: piece of %d characters", text, n)
	}
	stopIf(t, rest != "", "%q ends in %q", text, rest)
	if n := len([]rune(string(r.Text))); n != r.Chars || o.MaxChars > 0 && n > o.MaxChars {
		t.Fatalf("%q: %d characters, reported %d, limit %d", text, n, r.Chars, o.MaxChars)
	}
}

// joins says whether a gap between two pieces is one of those that Joiners counts.
func joins(gap string, o Options) bool {
	switch gap {
	case " ", "-":
		return true
	case "":
		return o.Alphabet == Any
	case ", ":
		return o.Join == List
	case ". ":
		return o.Join == Summary
	}
	return false
}

// refHas says whether a character of a word is in an alphabet.
func refHas(a Alphabet, r rune) bool {
	script, ok := map[Alphabet]*unicode.RangeTable{Armenian: unicode.Armenian, Cyrillic: unicode.Cyrillic, Greek: unicode.Greek, Hebrew: unicode.Hebrew}[a]
	if !ok {
		return r < a.limit()
	}
	if unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r) {
		for c := range refData().clusters {
			if c[1] == r && unicode.Is(script, c[0]) {
				return true
			}
		}
		return false
	}
	return r < 0x80 || unicode.Is(script, r) || unicode.Is(unicode.Sc, r)
}

// inAlphabet is the positive list.
func inAlphabet(r rune) bool {
	return refWordRune(r) || unicode.Is(unicode.Sc, r) || strings.ContainsRune("'.,:/%&+", r)
}
