// Letters writes tables.bin of package text, and the sizes of it in tables.go: for every code point what the normaliser
// does with it. It works from the definitions of TEXT and PROTOCOL P3.4 with the Unicode libraries, slowly and plainly. It
// runs in the folder of the package, where the data files of Unicode are:
//
//	go generate ./bcp/text
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"go/format"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// Same order as in class.go.
const (
	refuse = iota
	strip
	space
	line
	letter
	digit
	mark
	quote
	hyphen
	inner
	stop
	comma
	between
	money
	end
	full
	semi
	other
	mapped
	expand
	stretch
)

const (
	entryRough   = 1 << 10
	entryAccent  = 1 << 11
	entryLook    = 1 << 12
	entryCapital = 1 << 31
	capitalMark  = 0xf8ff
)

var (
	folds = map[rune]string{'İ': "i"}
	look  *looks // nil before it is known which letters there are
)

func assigned(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf)
}

func invisible(r rune) bool {
	return unicode.Is(unicode.Cc, r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

func stripped(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == 0x200b:
			b.WriteByte(' ')
		case r == 0xb4 || r == 0x1ffd:
			b.WriteByte('\'')
		case !invisible(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

func digitValue(r rune) rune {
	v := rune(0)
	for unicode.Is(unicode.Nd, r-v-1) && v < 9 {
		v++
	}
	return v
}

// fold is what a code point is spelled as.
func fold(r rune) string {
	s := foldCase(r)
	if look == nil {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if to, ok := look.folds[c]; ok {
			b.WriteString(to)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func foldCase(r rune) string {
	if s, ok := folds[r]; ok {
		return s
	}
	switch {
	case strings.ContainsRune("\u2018\u2019\u201b\u2032\u02b9\u02bb\u02bc\u02bd\u02c8\u055a\u05f3\ua78b\ua78c", r):
		return "'"
	case strings.ContainsRune("\u2010\u2011\u2012\u2013\u2212\u058a\u05be\u2043", r):
		return "-"
	case r == 0x2044 || r == 0x2215:
		return "/"
	case r == 0x2236:
		return ":"
	case r == 0x66b:
		return "."
	case r == 0x66c:
		return ","
	case r == 0x66a:
		return "%"
	case unicode.Is(unicode.Nd, r):
		if r >= 0x1d7ce && r <= 0x1d7ff {
			return string(r) // five alphabets without gaps; NFKC folds them
		}
		return string('0' + digitValue(r))
	}
	return string(unicode.ToLower(unicode.ToUpper(r)))
}

func normal(s string) string {
	for range 8 {
		was := s
		s = norm.NFKC.String(stripped(s))
		var b strings.Builder
		last := rune(0)
		for _, r := range stripped(s) {
			if r != 0x307 || last != 'i' {
				for _, f := range fold(r) {
					b.WriteRune(f)
					last = f
				}
			}
		}
		s = norm.NFKC.String(b.String())
		if s == was {
			return s
		}
	}
	fail(fmt.Sprintf("no fixpoint: %q", s))
	return ""
}

func segments(s string) int {
	n := 0
	for it := words.FromString(s); it.Next(); {
		n++
	}
	return n
}

func attach(r rune) uint32 {
	s := string(r)
	switch {
	case segments("a"+s) == 1 && segments(s+"a") == 1 && segments(s+"1") == 1 && segments("1"+s) == 1 && segments("ア"+s) == 2:
		return 1
	case segments("ア"+s) == 1 && segments(s+"ア") == 1 && segments("a"+s) == 2 && segments(s+"a") == 2 && segments("1"+s) == 2:
		return 3
	case segments("a"+s) == 2 && segments(s+"a") == 2 && segments(s+s) == 2 && segments("1"+s) == 2 && segments(s+"1") == 2:
		return 0
	}
	fail(fmt.Sprintf("letter %U attaches in an unknown way", r))
	return 0
}

func classify(r rune) uint32 {
	switch {
	case r <= ' ' && strings.ContainsRune("\n\v\f\r", r), r == 0x85, r == 0x2028, r == 0x2029:
		return line
	case r == 0x200b, unicode.IsSpace(r):
		return space
	case look != nil && look.refused[r]:
		return refuse
	case look != nil && look.symbols[r]:
		return other
	case unicode.Is(unicode.L, r), r == 0x3007:
		return letter
	case r >= '0' && r <= '9':
		return digit
	case unicode.Is(unicode.M, r):
		if look != nil && !slices.Contains(recommendedScripts, look.script[r]) && !look.lives(r) {
			return refuse
		}
		return mark
	case r == '\'', r == '`':
		return quote
	case r == '-':
		return hyphen
	case r == '&', r == '+':
		return inner
	case r == '.':
		return stop
	case r == ',':
		return comma
	case r == ':', r == '/':
		return between
	case r == '%', unicode.Is(unicode.Sc, r):
		return money
	case r == '!', r == '?', r == 0x61f, r == 0x6d4, r == 0x964, r == 0x965, r == 0x589:
		return end
	case r == 0x3002:
		return full
	case r == ';', r == 0x60c, r == 0x61b, r == 0x3001:
		return semi
	}
	return other
}

// sameParts says whether folding and canonical decomposition of a code point can change places.
func sameParts(r, to rune) bool {
	folded := ""
	for _, c := range norm.NFKD.String(string(r)) {
		folded += norm.NFD.String(fold(c))
	}
	return folded == norm.NFD.String(string(to))
}

// tables are the two files that are written.
type tables struct{ source, data bytes.Buffer }

// add adds a table, whose type is named in Go.
func (t *tables) add(name, kind string, values any) {
	fmt.Fprintf(&t.source, "\t%s = tableAt[%s](%d)\n", name, kind, t.data.Len())
	if err := binary.Write(&t.data, binary.LittleEndian, values); err != nil {
		fail(err.Error())
	}
}

// slots adds an open hash table, at most half full.
func (t *tables) slots(name string, keys, values []uint64) {
	size := uint64(2)
	for size < 2*uint64(len(keys)) {
		size *= 2
	}
	table := make([][2]uint64, size)
	for i, k := range keys {
		at := k * 0x9e3779b97f4a7c15 >> bits.LeadingZeros64(size-1)
		for table[at][0] != 0 && table[at][0] != k {
			at = (at + 1) % size
		}
		if table[at][0] == k && table[at][1] != values[i] {
			fail(fmt.Sprintf("%s: %#x twice", name, k))
		}
		table[at] = [2]uint64{k, values[i]}
	}
	t.add(name, fmt.Sprintf("[%d][2]uint64", size), table)
}

func pairKey(first, second rune) uint64 { return uint64(first)<<21 | uint64(second) }

// recomposed says whether a letter is spelled as another one that its parts are composed to.
func recomposed(r rune) bool {
	n := []rune(normal(string(r)))
	return len(n) == 1 && n[0] != unicode.ToLower(r) && look.folds[unicode.ToLower(unicode.ToUpper(r))] != ""
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}

func main() {
	source, data := generate()
	for name, content := range map[string][]byte{"tables.go": source, "tables.bin": data} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			fail(err.Error())
		}
	}
}

// generate makes both files.
func generate() (source, data []byte) {
	upper, title, lower := cases.Upper(language.Und), cases.Title(language.Und), cases.Lower(language.Und)
	for r := rune(0x80); r <= 0x10ffff; r++ {
		if !assigned(r) || normal(string(r)) != string(r) {
			continue
		}
		for _, c := range []cases.Caser{upper, title, lower} {
			if to := normal(c.String(string(r))); to != string(r) && folds[r] == "" {
				folds[r] = to
			}
		}
	}
	for r := rune(0x80); r <= 0x10ffff; r++ { // upper-case spellings of what changed above
		if assigned(r) && folds[r] == "" && !invisible(r) {
			if to, now := normal(upper.String(string(r))), normal(string(r)); to != now {
				folds[r] = to
			}
		}
	}
	var plain []rune
	for r := range rune(0x110000) {
		if assigned(r) && !invisible(r) && normal(string(r)) == string(r) {
			if c := classify(r); c == letter || c == mark {
				plain = append(plain, r)
			}
		}
	}
	look = readLooks()
	look.settle(plain)
	var names []string
	for name := range unicode.Scripts {
		if name != "Common" && name != "Inherited" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	script := func(r rune) uint32 {
		for i, name := range names {
			if unicode.Is(unicode.Scripts[name], r) {
				return uint32(i + 1)
			}
		}
		return 0
	}
	table := make([]uint32, 0x110000)
	var expansions []string
	settled := func(r rune) bool {
		p := norm.NFKC.PropertiesString(string(r))
		return p.BoundaryBefore() && p.CCC() == 0
	}
	// spell notes what the scanner reads in place of a code point: folded, but for what folds only after the marks that
	// follow, and with capitalMark before each letter that was a capital.
	spell := func(r rune) {
		var b strings.Builder
		for _, c := range norm.NFKC.String(stripped(string(r))) {
			if (unicode.IsUpper(c) || unicode.IsTitle(c)) && normal(string(c)) != string(c) {
				b.WriteRune(capitalMark)
			}
			d := []rune(norm.NFD.String(string(c)))
			switch {
			case c == 'İ':
				b.WriteString("I\u0307")
			case d[len(d)-1] == 0x345:
				b.WriteString(normal(string(d[:len(d)-1])) + "\u0345")
			case len(d) > 1 && norm.NFC.PropertiesString(string(d[1:])).CCC() != 0 && recomposed(c):
				b.WriteString(normal(string(d[:1])) + string(d[1:]))
			default:
				b.WriteString(normal(string(c)))
			}
		}
		s := b.String()
		if plain := strings.ReplaceAll(s, string(rune(capitalMark)), ""); normal(plain) != normal(string(r)) {
			fail(fmt.Sprintf("%U is spelled %+q", r, s))
		}
		accents := false
		for _, c := range s {
			accent := norm.NFD.PropertiesString(string(c)).CCC() != 0
			if accents && !accent {
				fail(fmt.Sprintf("%U is spelled %+q: marks inside", r, s))
			}
			accents = accents || accent
		}
		expansions = append(expansions, s)
		if s == "" || len(expansions) > 0xffff || len([]rune(s)) > 0xff {
			fail("no room in an entry")
		}
		table[r] = expand | uint32(len(expansions))<<8 | uint32(len([]rune(strings.ReplaceAll(s, string(rune(capitalMark)), "")))-1)<<24
	}
	for r := range rune(0x110000) {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		switch {
		case r == 0x200b || r == 0x85:
			table[r] = classify(r)
			continue
		case invisible(r):
			table[r] = strip
			continue
		case !assigned(r):
			continue
		case unicode.IsSpace(r):
			table[r] = classify(r)
			continue
		}
		n := []rune(normal(string(r)))
		if len(n) == 0 && strings.ContainsRune(stretchers, r) {
			table[r] = stretch
			continue
		}
		if len(n) != 1 {
			spell(r)
			continue
		}
		if n[0] != r {
			table[r] = mapped | uint32(n[0])<<8
			for _, c := range norm.NFKC.String(string(r)) {
				if unicode.IsUpper(c) || unicode.IsTitle(c) {
					table[r] |= entryCapital
				}
			}
			if !settled(n[0]) || !settled(r) || !sameParts(r, n[0]) {
				spell(r)
			}
			continue
		}
		e := classify(r)
		switch e {
		case letter:
			e |= attach(r)<<8 | script(r)<<16
		case digit:
			e |= 2 << 8
		case mark:
			if name := inheritedMark(r); look.living[r] && name != "Inherited" {
				e |= uint32(slices.Index(names, name)+1) << 16
			} else if look.living[r] {
				e |= script(r) << 16
			}
			if segments("a"+string(r)) != 1 || segments("ア"+string(r)) != 1 || segments("漢"+string(r)) != 1 {
				fail(fmt.Sprintf("mark %U does not extend", r))
			}
		}
		if !norm.NFKC.PropertiesString(string(r)).BoundaryBefore() && norm.NFKC.PropertiesString(string(r)).CCC() == 0 ||
			norm.NFKC.QuickSpanString("a"+string(r)) != 1+len(string(r)) {
			e |= entryRough
		}
		if ccc := norm.NFKC.PropertiesString(string(r)).CCC(); ccc != 0 {
			e |= entryAccent | uint32(ccc)<<24
		}
		table[r] = e
	}
	// What two code points compose to, but for Hangul, or to a letter that is spelled as another one; those with a mark that can
	// change places can be taken apart again. What looks like one letter composes, too.
	var pairs, wholes, ordered, orderedPairs []uint64
	compose := func(first, last, whole rune) {
		if c := table[whole] & 0xff; c == letter || c == mark {
			pairs = append(pairs, pairKey(first, last))
			wholes = append(wholes, uint64(whole))
		}
	}
	for r := range rune(len(table)) {
		d := []rune(norm.NFD.String(string(r)))
		if len(d) < 2 || r >= 0xac00 && r <= 0xd7a3 || norm.NFC.String(string(r)) != string(r) {
			continue
		}
		last := d[len(d)-1]
		first := []rune(norm.NFC.String(string(d[:len(d)-1])))
		n := []rune(normal(string(r)))
		if len(first) != 1 || len(n) != 1 || normal(string(first[0])) != string(first[0]) || last == 0x345 {
			continue
		}
		compose(first[0], last, n[0])
		if n[0] == r && table[last]&entryAccent != 0 {
			ordered = append(ordered, uint64(r))
			orderedPairs = append(orderedPairs, pairKey(first[0], last))
		}
	}
	joints, whole := look.joins(normal)
	for i, p := range joints {
		compose(p[0], p[1], whole[i])
		if table[p[1]]&entryAccent == 0 {
			table[p[1]] |= entryRough
		}
	}
	var clusters, yes []uint64
	for _, c := range slices.Sorted(maps.Keys(look.clusters)) {
		r := []rune(c)
		if strings.ContainsRune(c, 0x307) || normal(c) != c || table[r[0]]&0xff != letter {
			continue
		}
		for i := range len(r) - 1 {
			if k := pairKey(r[i], r[i+1]); !slices.Contains(clusters, k) {
				clusters, yes = append(clusters, k), append(yes, 1)
			}
		}
	}
	looks, lookScripts := look.alike(normal)
	for _, c := range looks {
		for _, k := range c.keys {
			if k[1] == 0 {
				table[k[0]] |= entryLook
			}
		}
	}
	var blocks []uint32
	seen := map[string]int{}
	var index []uint16
	for at := 0; at < len(table); at += 128 {
		key := fmt.Sprint(table[at : at+128])
		if _, ok := seen[key]; !ok {
			seen[key] = len(blocks) / 128
			blocks = append(blocks, table[at:at+128]...)
		}
		index = append(index, uint16(seen[key]))
	}
	var t tables
	b := &t.source
	fmt.Fprintf(b, "// Code generated by cmd/bcpmesh-lab/letters. DO NOT EDIT.\n\npackage text\n\nimport \"strings\"\n\n")
	fmt.Fprintf(b, "// Unicode versions of the tables; uax29 v2.7.0 follows Unicode 17.\n")
	fmt.Fprintf(b, "const (\ntableUnicode = %q\ntableNorm = %q\ntableSegmentation = \"17.0.0\"\n)\n\n", unicode.Version, norm.Version)
	fmt.Fprintf(b, "// tableLooks begins the SHA-256 of the data files in unicode, one after the other.\nconst tableLooks = %q\n\n", dataDigest())
	fmt.Fprintf(b, "const (\n")
	for _, name := range []string{"Latin", "Han", "Hiragana", "Katakana", "Bopomofo", "Hangul", "Arabic", "Armenian", "Cyrillic", "Greek", "Hebrew"} {
		fmt.Fprintf(b, "script%s = %d\n", name, slices.Index(names, name)+1)
	}
	places, scriptNames := lookPlaces(names, lookScripts)
	fmt.Fprintf(b, ")\n\n// lookScripts counts the scripts that have letters like those of another one: %s.\n", scriptNames)
	fmt.Fprintf(b, "const lookScripts = %d\n\nvar (\n", len(lookScripts))
	fmt.Fprintf(b, "// composeTable finds what two code points compose to, partsTable the two of one whose second is a mark with a combining class.\n")
	t.slots("composeTable", pairs, wholes)
	t.slots("partsTable", ordered, orderedPairs)
	fmt.Fprintf(b, "// clusterTable has the letters with a generic mark that does not compose but that some language writes.\n")
	t.slots("clusterTable", clusters, yes)
	fmt.Fprintf(b, "// lookPlaces has the place of each script among those with looks, from 1, by its number.\n")
	t.add("lookPlaces", fmt.Sprintf("[%d]uint8", len(places)), places)
	t.looks(table, looks, lookScripts)
	fmt.Fprintf(b, "// tokenKinds says for every byte what it is to tokens.\n")
	kinds := make([]uint8, 256)
	for i := range kinds {
		switch {
		case i >= 'a' && i <= 'z':
			kinds[i] = 1
		case i >= 'A' && i <= 'Z':
			kinds[i] = 2
		case i >= '0' && i <= '9':
			kinds[i] = 4
		case i == '\'':
			kinds[i] = 8
		case i >= 128:
			kinds[i] = 16
		}
	}
	t.add("tokenKinds", "[256]uint8", kinds)
	fmt.Fprintf(b, "// tableIndex has the block of tableBlocks of every 128 code points.\n")
	t.add("tableIndex", fmt.Sprintf("[%d]uint16", len(index)), index)
	t.add("tableBlocks", fmt.Sprintf("[%d]uint32", len(blocks)), blocks)
	fmt.Fprintf(b, "// expandTable has what the scanner reads in place of one code point, found by its entry.\n")
	fmt.Fprintf(b, "expandTable = strings.Split(string(tablesFile[%d:]), \"\\x00\")\n)\n", t.data.Len())
	t.data.WriteString("\x00" + strings.Join(expansions, "\x00"))
	source, err := format.Source(b.Bytes())
	if err != nil {
		fail(err.Error())
	}
	return source, t.data.Bytes()
}
