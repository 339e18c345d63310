// What letters look like: which letters stay, what the others are spelled as, which marks a letter may bear, and which
// letters of different scripts look alike. It works from the data files in unicode.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/runenames"
)

var dataFiles = []string{"unicode/confusables.txt", "unicode/identifiers.txt", "unicode/alphabets.txt", "unicode/intentional.txt"}

// Scripts by UAX 31, tables 5 and 7. Those that are in neither are written in no living language and refused.
var (
	recommendedScripts = strings.Fields(`Common Inherited Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek
		Gujarati Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana
		Thai Tibetan`)
	limitedScripts = strings.Fields(`Adlam Balinese Bamum Batak Canadian_Aboriginal Chakma Cham Cherokee Gunjala_Gondi Hanifi_Rohingya
		Javanese Kayah_Li Lepcha Limbu Lisu Mandaic Meetei_Mayek Miao New_Tai_Lue Newa Nko Nyiakeng_Puachue_Hmong Ol_Chiki Osage
		Saurashtra Sundanese Syloti_Nagri Syriac Tai_Le Tai_Tham Tai_Viet Tifinagh Vai Wancho Yi`)
	firstScripts = []string{"Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Thai", "Telugu"} // where nothing says which is meant
	eastAsian    = []string{"Bopomofo", "Han", "Hangul", "Hiragana", "Katakana"}
)

// spelled is how letters are written in ASCII whose look is ASCII, where what they look like is not what they are.
// The Yiddish digraphs and the Ossetian letter are two letters each.
var spelled = map[rune]string{'ĸ': "k", 'þ': "th", 'ʋ': "v", 'ɣ': "gh", 'ʔ': "'", 'ӕ': "ае", 'װ': "וו", 'ױ': "וי", 'ײ': "יי"}

// joined are pairs that no spelling needs, since they look like one letter: mostly a vowel letter and a vowel sign (chapters 12 to 16 of
// the Unicode Standard, "do not use").
const joined = `अा=आ अॅ=ॲ अॆ=ऄ अॉ=ऑ अॏ=ॵ अऺ=ॳ अऻ=ॴ अो=ओ अौ=औ आऺ=ॴ आॅ=ऑ आॆ=ऒ आे=ओ आै=औ एॅ=ऍ एॆ=ऎ एे=ऐ ाऺ=ऻ ाॅ=ॉ ाे=ो ाै=ौ ॅं=ँ
	অা=আ ঋৃ=ৠ ਅਾ=ਆ ਅੈ=ਐ ਅੌ=ਔ ੲਿ=ਇ ੲੀ=ਈ ੲੇ=ਏ ੳੁ=ਉ ੳੂ=ਊ અા=આ અૅ=ઍ અે=એ અૈ=ઐ આૅ=ઑ આે=ઓ આૈ=ઔ ଅା=ଆ உௗ=ஊ ఋా=ౠ ఌా=ౡ ఒౌ=ఔ ఒౕ=ఓ
	ుా=ూ ృా=ౄ ಌಾ=ೡ ಒೌ=ಔ ഇൗ=ഈ ഉൗ=ഊ ഒാ=ഓ ഒൗ=ഔ െെ=ൈ එ්=ඒ එෙ=ඓ เเ=แ ເເ=ແ ེེ=ཻ ོོ=ཽ သြ=ဩ ьі=ы ьї=ӹ`

// inheritedMark is the script of a mark that Unicode gives to several.
func inheritedMark(r rune) string {
	switch {
	case r >= 0x64b && r <= 0x655, r == 0x670:
		return "Arabic"
	case r == 0x951, r == 0x952:
		return "Devanagari"
	}
	return "Inherited"
}

// stretchers only lengthen a word.
const stretchers = "\u0640\u07fa"

// looks is what the data files say, and what follows for the letters that the normaliser would leave.
type looks struct {
	prototypes map[rune]string
	allowed    map[rune]bool
	languages  map[rune][]string
	clusters   map[string]bool
	glyphs     map[rune]rune // the first of the code points that are one glyph
	script     map[rune]string
	living     map[rune]bool
	folds      map[rune]string
	refused    map[rune]bool
	symbols    map[rune]bool // letters of no script that are no letters of an alphabet
}

func lines(name string, line func(fields []string)) {
	data, err := os.ReadFile(name)
	if err != nil {
		fail(err.Error())
	}
	for in := bufio.NewScanner(bytes.NewReader(data)); in.Scan(); {
		text, _, _ := strings.Cut(in.Text(), "#")
		if strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) == "" {
			continue
		}
		fields := strings.Split(text, ";")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		line(fields)
	}
}

func hexRune(s string) rune {
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		fail(err.Error())
	}
	return rune(n)
}

func hexString(s string) string {
	var b strings.Builder
	for _, f := range strings.Fields(s) {
		b.WriteRune(hexRune(f))
	}
	return b.String()
}

// ranges calls each for the code points of "0041..005A 0061".
func ranges(s string, each func(rune)) {
	for _, f := range strings.Fields(s) {
		from, to, more := strings.Cut(f, "..")
		if !more {
			to = from
		}
		for r := hexRune(from); r <= hexRune(to); r++ {
			each(r)
		}
	}
}

func readLooks() *looks {
	l := &looks{prototypes: map[rune]string{}, allowed: map[rune]bool{}, languages: map[rune][]string{}, clusters: map[string]bool{}, glyphs: map[rune]rune{},
		script: map[rune]string{}, living: map[rune]bool{}, folds: map[rune]string{}, refused: map[rune]bool{}, symbols: map[rune]bool{}}
	lines(dataFiles[0], func(f []string) {
		if r := hexRune(f[0]); r >= 0x80 { // ASCII stands for itself
			l.prototypes[r] = hexString(f[1])
		}
	})
	for r := range rune(unicode.MaxRune) { // their small letters are their capitals made smaller; the data has half of them
		if p := l.prototypes[unicode.ToUpper(r)]; p != "" && l.prototypes[r] == "" && unicode.In(r, unicode.Cherokee, unicode.Osage) {
			l.prototypes[r] = p
		}
	}
	lines(dataFiles[1], func(f []string) {
		if f[1] == "Allowed" {
			ranges(f[0], func(r rune) { l.allowed[r] = true })
		}
	})
	lines(dataFiles[2], func(f []string) {
		ranges(f[1], func(r rune) { l.languages[r] = append(l.languages[r], f[0]) })
		for _, c := range strings.Split(f[2], ",") {
			if s := hexString(c); s != "" {
				l.clusters[s] = true
			}
		}
	})
	lines(dataFiles[3], func(f []string) {
		a, b := hexRune(f[0]), hexRune(f[1])
		if first, ok := l.glyphs[a]; ok {
			a = first
		}
		l.glyphs[b] = a
	})
	for name, table := range unicode.Scripts {
		for _, t := range table.R16 {
			for r := rune(t.Lo); r <= rune(t.Hi); r += rune(t.Stride) {
				l.script[r] = name
			}
		}
		for _, t := range table.R32 {
			for r := rune(t.Lo); r <= rune(t.Hi); r += rune(t.Stride) {
				l.script[r] = name
			}
		}
	}
	return l
}

// digest names the data.
func dataDigest() string {
	h := sha256.New()
	for _, name := range dataFiles {
		data, err := os.ReadFile(name)
		if err != nil {
			fail(err.Error())
		}
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// smaller are capitals beyond ASCII that letters without case look like, and whose small letters are the same made smaller.
var smaller = strings.NewReplacer("Ɔ", "ɔ", "Ɛ", "ɛ", "Ʌ", "ʌ", "Ⱶ", "ⱶ", "Π", "π", "Φ", "φ", "И", "и", "Ӄ", "ӄ")

// skeleton is that of UTS 39, but that ASCII stands for itself and capitals for small letters.
func (l *looks) skeleton(s string) string {
	for range 4 {
		var b strings.Builder
		for _, r := range norm.NFD.String(s) {
			if p, ok := l.prototypes[r]; ok {
				b.WriteString(p)
			} else {
				b.WriteRune(r)
			}
		}
		s = smaller.Replace(norm.NFD.String(b.String()))
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func inASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// modernJamo are the conjoining letters that syllables are made of.
func modernJamo(r rune) bool {
	return r >= 0x1100 && r <= 0x1112 || r >= 0x1161 && r <= 0x1175 || r >= 0x11a8 && r <= 0x11c2
}

// lives says whether a living language writes the letter or mark.
func (l *looks) lives(r rune) bool {
	script := l.script[r]
	switch {
	case script == "Common":
		return r == 'ー' || r == '〆'
	case slices.Contains(limitedScripts, script):
		return true
	case !slices.Contains(recommendedScripts, script):
		return false
	}
	if d := []rune(norm.NFD.String(string(r))); len(d) > 1 {
		return l.lives(d[0])
	}
	return script == "Hangul" && modernJamo(r) || l.allowed[r] || len(l.languages[r]) > 0
}

// smallCapital is the letters whose small capital r is by its name.
func smallCapital(r rune) string {
	name, ok := strings.CutPrefix(runenames.Name(r), "LATIN LETTER SMALL CAPITAL ")
	if ok && len(name) <= 2 {
		return strings.ToLower(name)
	}
	return ""
}

// settle decides about every letter and mark that the normaliser would leave as it is: plain are they in order.
func (l *looks) settle(plain []rune) {
	classes := map[string][]rune{}
	for _, r := range plain {
		if l.living[r] = l.lives(r); l.living[r] && r >= 0x80 && !unicode.Is(unicode.Nd, r) {
			key := l.script[r] + " " + l.skeleton(string(r))
			if unicode.Is(unicode.M, r) {
				key += " mark"
			}
			classes[key] = append(classes[key], r)
		}
	}
	for _, r := range plain {
		look := l.skeleton(string(r))
		script := l.script[r]
		switch {
		case r < 0x80 || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.M, r):
		case strings.ContainsRune(stretchers, r):
			l.folds[r] = ""
		case script == "Common" && !l.living[r]:
			if look == "'" || r == 'ʿ' {
				l.folds[r] = "'"
			} else {
				l.symbols[r] = true
			}
		case spelled[r] != "":
			l.folds[r] = spelled[r]
		case script == "Latin" && inASCII(look):
			l.folds[r] = look
		case l.living[r]:
		case smallCapital(r) != "":
			l.folds[r] = smallCapital(r)
		default:
			if class := classes[script+" "+look]; len(class) > 0 {
				l.folds[r] = string(class[0])
			} else {
				l.refused[r] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(classes)) {
		l.merge(classes[key])
	}
	for _, r := range plain { // æ with an accent is a and e with an accent
		if d := []rune(norm.NFD.String(string(r))); len(d) > 1 && l.folds[d[0]] != "" && l.folds[r] == "" {
			l.folds[r] = norm.NFC.String(l.folds[d[0]] + string(d[1:]))
			delete(l.refused, r)
		}
	}
	for r := range l.folds {
		l.living[r] = false
	}
}

// merge folds letters of one script that look alike to one of them, and leaves one of such marks. Where some language writes two of them, only those
// go that no language writes.
func (l *looks) merge(class []rune) {
	class = slices.DeleteFunc(slices.Clone(class), func(r rune) bool { _, gone := l.folds[r]; return gone })
	if len(class) < 2 || slices.Contains(append(eastAsian, "Inherited"), l.script[class[0]]) {
		return
	}
	slices.SortFunc(class, func(a, b rune) int {
		return cmp.Or(cmp.Compare(min(1, len(l.languages[b])), min(1, len(l.languages[a]))), cmp.Compare(a, b))
	})
	apart := false
	for i, a := range class {
		for _, b := range class[i+1:] {
			apart = apart || slices.ContainsFunc(l.languages[a], func(s string) bool { return slices.Contains(l.languages[b], s) })
		}
	}
	for _, r := range class[1:] {
		switch {
		case apart && len(l.languages[r]) > 0:
		case unicode.Is(unicode.M, r):
			l.living[r] = false
		default:
			l.folds[r] = string(class[0])
		}
	}
}

// joins are the pairs of letters and marks that are read as one letter, in the order of the text.
func (l *looks) joins(normal func(string) string) (pairs [][2]rune, wholes []rune) {
	add := func(pair, whole string) {
		p, w := []rune(pair), []rune(normal(whole))
		if len(p) == 2 && len(w) == 1 && normal(string(p[0])) == string(p[0]) && normal(string(p[1])) == string(p[1]) {
			pairs, wholes = append(pairs, [2]rune(p)), append(wholes, w[0])
		}
	}
	for _, j := range strings.Fields(joined) {
		pair, whole, _ := strings.Cut(j, "=")
		add(pair, whole)
	}
	arabic := slices.Sorted(maps.Keys(l.living))
	arabic = slices.DeleteFunc(arabic, func(r rune) bool {
		return !l.living[r] || l.script[r] != "Arabic" && inheritedMark(r) != "Arabic" || unicode.Is(unicode.Nd, r)
	})
	whole := map[string]rune{}
	for _, r := range slices.Backward(arabic) {
		whole[l.skeleton(string(r))] = r
	}
	for _, a := range arabic {
		for _, b := range arabic {
			pair := string(a) + string(b)
			if w := whole[l.skeleton(pair)]; w != 0 && norm.NFC.String(pair) == pair && unicode.Is(unicode.L, a) && unicode.Is(unicode.L, w) {
				add(pair, string(w))
			}
		}
	}
	return pairs, wholes
}

// A lookClass is what looks alike in several scripts: a letter, or a letter with a mark, of each.
type lookClass struct {
	keys    [][2]rune // all of them; the second is 0 or a mark
	members map[string][2]rune
}

// glyph is what a letter and its marks are drawn as: letters of one glyph have the same.
func (l *looks) glyph(key [2]rune) string {
	s := string(key[0])
	if key[1] != 0 {
		s += string(key[1])
	}
	return strings.Map(func(r rune) rune {
		if first, ok := l.glyphs[r]; ok {
			return first
		}
		return r
	}, norm.NFD.String(s))
}

// rare says whether fewer than half as many languages write a letter as write the commonest of its script, or it needs a mark that does
// not compose with it.
func (l *looks) rare(key [2]rune) bool {
	r := []rune(norm.NFD.String(string(key[0])))[0]
	if key[1] != 0 {
		return true
	}
	most := 0
	for other, languages := range l.languages {
		if l.script[other] == l.script[r] {
			most = max(most, len(languages))
		}
	}
	return l.script[r] != "Latin" && 2*len(l.languages[r]) < most
}

// alike finds the letters of different scripts that look alike, by their skeletons. The scripts come in the order of preference.
func (l *looks) alike(normal func(string) string) (classes []lookClass, scripts []string) {
	bySkeleton := map[string]*lookClass{}
	note := func(s string) {
		r := []rune(s)
		script := l.script[r[0]]
		if !l.living[r[0]] || script == "Common" || s != "〇" && (slices.Contains(eastAsian, script) || !unicode.Is(unicode.L, r[0])) || len(r) > 2 || normal(s) != s {
			return
		}
		key := [2]rune{r[0], 0}
		if len(r) == 2 {
			key[1] = r[1]
		}
		look := l.skeleton(s)
		if slices.Contains(limitedScripts, script) { // such as Cherokee, whose small letters are drawn like small capitals
			look = strings.Map(func(r rune) rune {
				if small := smallCapital(r); len(small) == 1 {
					return rune(small[0])
				}
				return r
			}, look)
		}
		c := bySkeleton[look]
		if c == nil {
			c = &lookClass{members: map[string][2]rune{}}
			bySkeleton[look] = c
		}
		c.keys = append(c.keys, key)
		if _, ok := c.members[script]; !ok {
			c.members[script] = key
		}
	}
	for _, r := range slices.Sorted(maps.Keys(l.living)) {
		note(string(r))
	}
	for _, s := range slices.Sorted(maps.Keys(l.clusters)) {
		note(s)
	}
	found := map[string]bool{}
	for _, look := range slices.Sorted(maps.Keys(bySkeleton)) {
		if c := bySkeleton[look]; len(c.members) > 1 {
			classes = append(classes, *c)
			for script := range c.members {
				found[script] = true
			}
		}
	}
	for _, name := range slices.Concat(firstScripts, recommendedScripts, limitedScripts) {
		if found[name] && !slices.Contains(scripts, name) {
			scripts = append(scripts, name)
		}
	}
	return classes, scripts
}

// doubtfulCapitals finds capitals, given with their small letters, that look like a letter or capital of other scripts: across has these
// scripts. gone are those that look like another capital of their own; of these the one of most languages is not gone.
func (l *looks) doubtfulCapitals(capitals map[rune]rune) (across map[rune][]string, gone map[rune]bool) {
	weight := func(small rune) int {
		n := len(l.languages[small])
		if l.allowed[small] {
			n += 1000
		}
		return n
	}
	byLook := map[string][]rune{}
	note := func(r rune) {
		look := l.skeleton(string(r))
		byLook[look] = append(byLook[look], r)
	}
	for _, r := range slices.Sorted(maps.Keys(l.living)) {
		if l.living[r] && unicode.Is(unicode.L, r) && !slices.Contains(eastAsian, l.script[r]) {
			note(r)
		}
	}
	for _, r := range slices.Sorted(maps.Keys(capitals)) {
		note(r)
	}
	across, gone = map[rune][]string{}, map[rune]bool{}
	for _, alike := range byLook {
		keeper := map[string]rune{}
		for _, r := range alike {
			before := keeper[l.script[r]]
			if small, ok := capitals[r]; ok && (before == 0 || weight(small) > weight(capitals[before])) {
				keeper[l.script[r]] = r
			}
		}
		for _, r := range alike {
			if _, capital := capitals[r]; !capital || r < 0x80 {
				continue
			}
			gone[r] = keeper[l.script[r]] != r
			for _, other := range alike {
				if l.script[other] != l.script[r] {
					across[r] = append(across[r], l.script[other])
				}
			}
		}
	}
	return across, gone
}

// lookRare stands for letters that are rare wherever they stand; rare letters of Cyrillic have numbers below it.
const lookRare = 63

// Keys of lookTable beside those of letters, which are pairKey of the letter and 0 or a mark.
const (
	keyMember  = 1 << 62 // and the class << 8 and the place of the script: the letter, and the mark, of that script
	keyCapital = 1 << 61 // and a capital: the class of small letters like it << 48, the scripts that have a letter or capital like it << 1, and 1 where its own has another one
)

// lookPlaces has the place of each script among those with looks, from 1, by its number, and names them.
func lookPlaces(names, scripts []string) (places []uint8, list string) {
	places = make([]uint8, len(names)+1)
	for i, name := range scripts {
		places[slices.Index(names, name)+1] = uint8(i + 1)
	}
	return places, strings.Join(scripts, ", ")
}

// looks adds which letters look alike.
func (t *tables) looks(table []uint32, classes []lookClass, scripts []string) {
	masks := []uint64{0}
	var keys, values []uint64
	rares := 0
	byLook := map[string]uint64{}
	for i, c := range classes {
		k := c.keys[0]
		byLook[look.skeleton(strings.TrimRight(string(k[:]), "\x00"))] = uint64(i + 1)
		mask := uint64(0)
		for name, m := range c.members {
			at := slices.Index(scripts, name)
			mask |= 1 << at
			keys = append(keys, keyMember|uint64(i+1)<<8|uint64(at))
			values = append(values, pairKey(m[0], m[1]))
		}
		for _, k := range c.keys {
			same := uint64(0)
			for name, m := range c.members {
				if name == look.script[k[0]] || look.glyph(m) == look.glyph(k) {
					same |= 1 << slices.Index(scripts, name)
				}
			}
			value := uint64(i+1) | same<<24
			switch name := look.script[k[0]]; {
			case slices.Contains(limitedScripts, name):
				value |= lookRare << 16
			case name == "Cyrillic" && k[1] == 0 && look.rare(k):
				rares++
				value |= uint64(rares) << 16
			case look.rare(k):
				value |= lookRare << 16
			}
			keys, values = append(keys, pairKey(k[0], k[1])), append(values, value)
		}
		masks = append(masks, mask)
	}
	fmt.Fprintf(&t.source, "// lookMasks are the scripts of each class of letters that look alike, as bits by their places.\n")
	t.add("lookMasks", fmt.Sprintf("[%d]uint64", len(masks)), masks)
	if rares >= lookRare || len(scripts) > 40 || len(classes) > 0xffff {
		fail("no room in a value of lookTable")
	}
	capitals := map[rune]rune{}
	for r, e := range table {
		if e&0xff == mapped && e&entryCapital != 0 {
			if to := rune(e &^ entryCapital >> 8); unicode.ToUpper(to) == rune(r) {
				capitals[rune(r)] = to
			}
		}
	}
	across, gone := look.doubtfulCapitals(capitals)
	for _, r := range slices.Sorted(maps.Keys(gone)) {
		value := byLook[look.skeleton(string(r))] << 48
		if gone[r] {
			value |= 1
		}
		for _, name := range across[r] {
			if at := slices.Index(scripts, name); at >= 0 {
				value |= 2 << at
			}
		}
		if value != 0 {
			keys, values = append(keys, keyCapital|uint64(r)), append(values, value)
		}
	}
	t.slots("lookTable", keys, values)
	fmt.Fprintf(os.Stderr, "%d letters spelled as others, %d refused, %d symbols, %d classes of looks in %d scripts\n",
		len(look.folds), len(look.refused), len(look.symbols), len(classes), len(scripts))
}
