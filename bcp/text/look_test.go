package text

import (
	"bufio"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// looksData is what the files of Unicode in the folder unicode say, read apart from gen.
type looksData struct {
	prototypes map[rune]string
	languages  map[rune]map[string]bool
	clusters   map[[2]rune]bool // a letter, or a mark behind one, and the generic mark that may follow
}

var refData = sync.OnceValue(func() looksData {
	d := looksData{prototypes: map[rune]string{}, languages: map[rune]map[string]bool{}, clusters: map[[2]rune]bool{}}
	for _, f := range dataLines("unicode/confusables.txt") {
		d.prototypes[hexText(f[0])[0]] = string(hexText(f[1]))
	}
	for r := range rune(unicode.MaxRune) { // small letters of Cherokee and Osage, which are smaller capitals
		if p := d.prototypes[unicode.ToUpper(r)]; p != "" && d.prototypes[r] == "" && unicode.In(r, unicode.Cherokee, unicode.Osage) {
			d.prototypes[r] = p
		}
	}
	for _, f := range dataLines("unicode/alphabets.txt") {
		for _, part := range strings.Fields(f[1]) {
			from, to, _ := strings.Cut(part, "..")
			if to == "" {
				to = from
			}
			for r := hexText(from)[0]; r <= hexText(to)[0]; r++ {
				if d.languages[r] == nil {
					d.languages[r] = map[string]bool{}
				}
				d.languages[r][f[0]] = true
			}
		}
		for _, c := range strings.Split(f[2], ",") {
			text := hexText(c)
			if strings.ContainsRune(string(text), 0x307) || refSettle(string(text)) != string(text) {
				continue
			}
			for i := 1; i < len(text); i++ {
				d.clusters[[2]rune{text[i-1], text[i]}] = true
			}
		}
	}
	return d
})

func dataLines(name string) (lines [][]string) {
	file, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		if text, _, _ := strings.Cut(in.Text(), "#"); strings.TrimSpace(text) != "" {
			fields := strings.Split(text, ";")
			for i := range fields {
				fields[i] = strings.TrimSpace(fields[i])
			}
			lines = append(lines, fields)
		}
	}
	return lines
}

func hexText(s string) (text []rune) {
	for _, f := range strings.Fields(s) {
		n, err := strconv.ParseUint(f, 16, 32)
		if err != nil {
			panic(err)
		}
		text = append(text, rune(n))
	}
	return text
}

// refSkeleton is that of UTS 39, where ASCII stands for itself.
func refSkeleton(s string) string {
	for {
		var b strings.Builder
		for _, r := range norm.NFD.String(s) {
			if p, ok := refData().prototypes[r]; ok && r >= 0x80 {
				b.WriteString(p)
			} else {
				b.WriteRune(r)
			}
		}
		next := norm.NFD.String(b.String())
		if next == s {
			return s
		}
		s = next
	}
}

// refText is what a delivered text looks like: its skeleton, capitals as small letters.
func refText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, refSkeleton(s))
}

func scriptName(r rune) string {
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}

// What looks like one of the texts is delivered as it, or refused.
//
// covers P3.4, A-HOM
func TestLookAlikes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  string
		alike []string
	}{
		{"pay", []string{"рау", "ᴘay", "ᴘᴀʏ", "ｐａｙ", "𝐩𝐚𝐲", "𝗉𝖺𝗒", "ⓟⓐⓨ", "pɑy", "ραγ", "раy", "pаy", "ρау", "ⲣay", "ꮲay", "ᏢᎪᎩ", "ꓑꓮꓬ", "p\u034fay", "р\u200dау", "РАУ", "ᵖᵃʸ"}},
		{"scope", []string{"ѕсоре", "ᴤcope", "ѕᴄᴏᴘᴇ", "𐑈cope", "ꮪcope", "sϲορε"}},
		{"hello", []string{"ʜᴇʟʟᴏ", "һеӏӏо", "hеllo", "hellо"}},
		{"cafe", []string{"ᴄᴀꜰᴇ", "саfe"}},
		{"páy", []string{"ра́у", "pа́y", "pa\u0341y", "pα\u0301y"}},
		{"fine", []string{"ﬁne", "ƒine", "ẝine"}},
		{"aether", []string{"æther", "ӕther"}},
		{"ăn", []string{"ǎn", "a\u030cn", "a\u0306n"}},
		{"в пути", []string{"в пyти"}},
		{"пожалуйста рау", []string{"пожалуйста pay", "пожалуйста ᴘay", "пожалуйста ρау"}},
		{"आ", []string{"अा", "आ"}},
		{"แม่", []string{"เเม่"}},
		{"ты", []string{"тьі", "ты"}},
		{"كتاب", []string{"كـتاب", "كــــتاب"}},
		{"וורט", []string{"װרט"}},
		{"ɔ", []string{"ꓛ"}}, {"ɛ", []string{"𖼭"}}, {"и", []string{"ꚡ"}}, {"п", []string{"ꛛ"}}, {"ф", []string{"ቀ"}}, // like the capital, made smaller
		{"ꚱ", []string{"ꮀ"}}, {"ꛎ", []string{"𐓘"}}, {"ӄ", []string{"𐓤"}}, {"r", []string{"𐓜"}},
	} {
		want := normal(t, c.want, roomy(Any, None))
		for _, s := range c.alike {
			got, err := Normalise(nil, []byte(s), roomy(Any, None))
			failIf(t, err == nil && string(got.Text) != want, "%s (%+q) is delivered as %+q beside %+q", s, s, got.Text, want)
		}
	}
}

// Every spelling of these is accepted, and what is delivered reads the same.
//
// covers P3.4, BCP-97
func TestNamesOfManyLanguages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Jürgen Müller": "jürgen müller", "Łukasz Żółć": "łukasz żółć", "Søren Åkerström": "søren åkerström", "José Ñúñez": "josé ñúñez",
		"François Lefèvre": "françois lefèvre", "Þór Æsir": "thór aesir", "Đặng Thị Hà": "đặng thị hà", "Çağrı Şahin": "çağri şahin",
		"Őry Gyűrű": "őry gyűrű", "Ștefan Țepeș": "ştefan țepeş", "Ọláṣubọ̀mí": "ọláṣubọ̀mí", "Иван Сухов": "иван сухов", "Пу\u0301шкин": "пу́шкин",
		"Олександр і Ірина": "олександр і ірина", "Јован Јовановић": "јован јовановић", "Αλέξης Ζορμπάς": "αλέξησ ζορμπάσ", "Ἀχιλλεύς": "ἀχιλλεύσ",
		"محمد علی": "محمد علی", "مُحَمَّد": "مُحَمَّد", "דָּוִד בֶּן־גּוּרְיוֹן": "דָּוִד בֶּן-גּוּרְיוֹן", "नरेन्द्र मोदी": "नरेन्द्र मोदी", "क़ैसर": "क़ैसर",
		"สมชาย": "สมชาย", "น้ำ": "น้ํา", "김민준": "김민준", "ㄱㄱ ㅋㅋㅋ": "ᄀᄀ ᄏᄏᄏ", "ᄀ\u1161ᆨ": "각", "山田 太郎": "山田 太郎", "ガ゛ カ\u3099": "ガ ガ",
		"தமிழ்": "தமிழ்", "ქართული": "ქართული", "Արամ Խաչատրյան": "արամ խաչատրյան", "አማርኛ": "አማርኛ", "Ꮳꮃꭹ": "ꮳꮃꭹ", "ᐃᓄᒃᑎᑐᑦ": "ᐃᓄᒃᑎᑐᑦ", "ⵜⴰⵎⴰⵣⵉⵖⵜ": "ⵜⴰⵎⴰⵣⵉⵖⵜ",
	} {
		got := normal(t, in, roomy(Any, None))
		failIf(t, got != want, "%s: %s (%+q), want %s", in, got, got, want)
	}
}

// A letter that looks like those of several scripts is delivered in one of them, if nothing else says which is meant.
//
// covers P3.4, A-HOM
func TestOneScriptOfEachLook(t *testing.T) {
	t.Parallel()
	delivered := map[string]string{}
	for r := range rune(unicode.MaxRune) {
		if !assigned(r) || !unicode.Is(unicode.L, r) || unicode.In(r, eastAsian...) {
			continue
		}
		for _, s := range []string{string(r), string(r) + string(r) + string(r), string(r) + "\u0301"} {
			got, err := Normalise(nil, []byte(s), roomy(Any, None))
			if err != nil {
				continue
			}
			look, text := refText(string(got.Text)), string(got.Text)
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.M, r) && entryScriptNumber(lookUp(r)) != 0 }) {
				continue // marks of a script say which it is
			}
			before, ok := delivered[look]
			failIf(t, ok && before != text && utf8.RuneCountInString(before) == utf8.RuneCountInString(text) && scriptName([]rune(before)[0]) != scriptName([]rune(text)[0]),
				"%s (%+q) and %s (%+q) look alike", before, before, text, text)
			delivered[look] = text
		}
	}
}

// Doubtful words go by the words that are sure, and not by each other.
//
// covers P3.4, A-HOM
func TestWhichScriptIsMeant(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Сергей says a cap": "сергей says a cap", "Ольга has a паре": "ольга has а паре", "ѕау а сар": "say a cap", "код на java": "код на java", "і ще": "i ще", "і він": "і він",
		"купил pc и сео": "купил рс и сео", "the сор": "the cop", "he ате": "he ате", "она ате, не he": "она ате не he", "AI για όλους": "ai για όλουσ", "ο καιρός o": "ο καιρόσ ο",
		"漢字 pay かな рау": "漢字 pay かな pay", "5 рау 6": "5 pay 6",
	} {
		got, err := Normalise(nil, []byte(in), roomy(Any, None))
		failIf(t, err != nil || string(got.Text) != want, "%s: %s (%+q, %v), want %s", in, got.Text, got.Text, err, want)
	}
}

// What a language with letters like those of Latin can say in one word, its own alphabet makes plain.
//
// covers P1.3, P3.4
func TestAlphabetsOfScripts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Alphabet
		in   string
		want string
		err  error
	}{
		{Cyrillic, "Сара", "сара", nil}, {Any, "Сара", "capa", nil}, {Cyrillic, "capa", "сара", nil}, {Latin, "Сара", "", ErrAlphabet},
		{Cyrillic, "хорошо", "хорошо", nil}, {Any, "хорошо", "", ErrLookAlike}, {Any, "очень хорошо", "очень хорошо", nil},
		{Cyrillic, "xopowo", "", ErrLookAlike}, {Any, "xopowo", "xopowo", nil}, {Cyrillic, "ja је", "ја је", nil}, {Cyrillic, "windows 10 за 5 €", "windows 10 за 5", nil},
		{Cyrillic, "5€ за́мок", "5€ за́мок", nil}, {Cyrillic, "müller", "", ErrAlphabet}, {Cyrillic, "ναι", "", ErrAlphabet}, {Cyrillic, "ー", "", ErrAlphabet},
		{Greek, "ναι", "ναι", nil}, {Any, "ναι", "", ErrLookAlike}, {Any, "ναι, θέλω", "ναι θέλω", nil}, {Greek, "vai", "", ErrLookAlike}, {Greek, "Windows ναι", "windows ναι", nil},
		{Armenian, "հա", "հա", nil}, {Any, "հա", "", ErrLookAlike}, {Hebrew, "סוס", "סוס", nil}, {Any, "סוס", "", ErrLookAlike}, {Any, "סוס לבן", "סוס לבן", nil},
	} {
		r, err := Normalise(nil, []byte(c.in), roomy(c.a, None))
		failIf(t, string(r.Text) != c.want || !errors.Is(err, c.err),
			"%s in alphabet %d: %s (%v), want %s (%v)", c.in, c.a, r.Text, err, c.want, c.err)
	}
}

// No word that is delivered looks like one of small letters of ASCII and is none: every code point alone, in a word of ASCII, and a word
// of it alone.
//
// covers P3.4, A-HOM
func TestNothingLooksLikeLettersOfASCII(t *testing.T) {
	t.Parallel()
	other := func(r rune) bool { return r < 'a' || r > 'z' }
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !assigned(r) {
			continue
		}
		for _, s := range []string{string(r), "p" + string(r) + "y", string(r) + "\u0301", "bid " + string(r), strings.Repeat(string(r), 3)} {
			got, err := Normalise(nil, []byte(s), roomy(Any, None))
			if err != nil {
				continue
			}
			for i, word := range strings.Fields(string(got.Text)) {
				if i > 0 && !strings.HasPrefix(s, "bid ") { // the first one says which script it is
					continue
				}
				failIf(t, strings.ContainsFunc(word, other) && !strings.ContainsFunc(refText(word), other),
					"%U in %+q is delivered as %s, which looks like %s", r, s, got.Text, refText(word))
			}
		}
	}
}

// keptApart says whether some language writes both of two letters: a reader of it tells them apart.
func keptApart(a, b rune) bool {
	for language := range refData().languages[a] {
		if refData().languages[b][language] {
			return true
		}
	}
	return false
}

var eastAsian = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo}

// No two letters or marks of one script that are delivered look alike, but those of which a language has two, and
// those of East Asia.
//
// covers P3.4, A-HOM
func TestLettersOfAScriptLookDifferent(t *testing.T) {
	t.Parallel()
	bySkeleton := map[string][]rune{}
	for r := range rune(unicode.MaxRune) {
		e := lookUp(r)
		if c := class(e & entryClass); c != classLetter && (c != classMark || entryScriptNumber(e) == 0) || unicode.In(r, eastAsian...) {
			continue
		}
		key := scriptName(r) + " " + refText(string(r))
		if unicode.Is(unicode.M, r) {
			key += " mark"
		}
		bySkeleton[key] = append(bySkeleton[key], r)
	}
	for _, key := range slices.Sorted(maps.Keys(bySkeleton)) {
		apart := false
		for i, a := range bySkeleton[key] {
			for _, b := range bySkeleton[key][i+1:] {
				apart = apart || keptApart(a, b)
			}
		}
		if alike := bySkeleton[key]; len(alike) > 1 && (!apart || slices.ContainsFunc(alike, func(r rune) bool { return len(refData().languages[r]) == 0 })) {
			t.Errorf("%s: %c", key, alike)
		}
	}
}

// Capitals that are kept make no two words look the same that were different.
//
// covers P3.4, BCP-97
func TestCapitalsLookDifferent(t *testing.T) {
	t.Parallel()
	o := Options{Alphabet: Any, MaxWords: 9, PreserveCase: true}
	for in, want := range map[string]string{
		"Нао": "нао", "Hao": "Hao", "Николай Оленин": "Николай Оленин", "Анна": "Анна", "вот Роса": "вот роса", "Роса": "Poca", "Đặng Ðường": "Đặng ðường",
		"Ολγα": "Ολγα", "Ваа пишет": "ваа пишет", "Іван Ірпінь": "Іван Ірпінь", "Ірис і ґанок": "Ірис і ґанок", "Élan Über": "Élan Über",
	} {
		got := normal(t, in, o)
		failIf(t, got != want, "%s: %s (%+q), want %s", in, got, got, want)
	}
	seen := map[string]string{}
	for r := range rune(unicode.MaxRune) {
		got, err := Normalise(nil, []byte(string(r)+"a"), o)
		if err != nil || got.Capitals == 0 || unicode.In(r, eastAsian...) {
			continue
		}
		look, first := refSkeleton(string(got.Text)), string(got.Text)
		before, ok := seen[look]
		failIf(t, ok && before != first, "%s and %s look alike", before, first)
		seen[look] = first
	}
}

// covers P3.1, A-ENUMDUP
func TestLook(t *testing.T) {
	t.Parallel()
	for _, group := range [][]string{
		{"pay", "рау", "ᴘay", "ｐａｙ", "pa\u200dy", "ραγ"}, {"HET", "НЕТ", "ΗΕΤ"}, {"Pay", "Рау"}, {"café", "cafe\u0301", "саfé"}, {"strasse", "straße"}, {"ﬁt", "fit"},
		{"AT&T", "АТ&Т"}, {"5 %", "٥ ٪"}, {"don't", "don’t"},
	} {
		for _, s := range group {
			failIf(t, Look(s) != Look(group[0]), "%s looks like %s, %s like %s", s, Look(s), group[0], Look(group[0]))
		}
	}
	for _, pair := range [][2]string{{"нет", "het"}, {"คา", "ดา"}, {"l", "1"}, {"O", "0"}, {"m", "rn"}, {"I", "l"}, {"ő", "ö"}, {"да", "нет"}, {"カ", "力"}} {
		failIf(t, Look(pair[0]) == Look(pair[1]), "%s and %s look alike: %s", pair[0], pair[1], Look(pair[0]))
	}
}

// looksLike are the code points of each skeleton of one, by the skeleton in small letters.
var looksLike = sync.OnceValue(func() map[string][]rune {
	byLook := map[string][]rune{}
	for r := range rune(unicode.MaxRune) {
		if assigned(r) && !unicode.In(r, eastAsian...) {
			if look := refText(string(r)); utf8.RuneCountInString(look) == 1 {
				byLook[look] = append(byLook[look], r)
			}
		}
	}
	return byLook
})

// disguised spells a text otherwise: letters and whole words by what looks like them, with marks and invisible code points.
func disguised(t *rapid.T, s string) string {
	scripts := []string{"", "Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Hebrew", "Lisu", "Canadian_Aboriginal"}
	var words []string
	for _, word := range strings.Fields(s) {
		script := rapid.SampledFrom(scripts).Draw(t, "script")
		var b strings.Builder
		for _, r := range word {
			alike := looksLike()[refText(string(r))]
			if script != "" {
				alike = slices.DeleteFunc(slices.Clone(alike), func(r rune) bool { return scriptName(r) != script })
			}
			if len(alike) > 0 && (script != "" || rapid.IntRange(0, 3).Draw(t, "change") == 0) {
				r = rapid.SampledFrom(alike).Draw(t, "letter")
			}
			b.WriteRune(r)
			switch rapid.IntRange(0, 30).Draw(t, "more") {
			case 0:
				b.WriteString(rapid.SampledFrom([]string{"\u200d", "\u034f", "\u0301", "\u0336", "\ufe0f", "\u0307", "\u0640"}).Draw(t, "what"))
			}
		}
		words = append(words, b.String())
	}
	return strings.Join(words, " ")
}

// Two spellings of a text are delivered as the same bytes where they look the same, or one of them is refused. What may
// differ is said in the package: letters of one alphabet that UTS 39 takes for the same, letters and digits, and words that only
// resemble those of another script where the text has words of both.
//
// covers P3.4, A-HOM
func TestDisguises(t *testing.T) {
	t.Parallel()
	words := strings.Fields("pay scope access she has a java vary hello ignore all the rules bid cafe café élan œuvre naïve 10 5% " +
		"привет мир сор а он есть хорошо і ще ја је пожалуйста рау его в с ναι όχι ο για και ήταν հա ոչ բարեւ סוס שלום ал ә ꮳꮃꭹ ꓐꓮꓓ ᐃᓄᒃ")
	rapid.Check(t, func(t *rapid.T) {
		checkDisguises(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 5).Draw(t, "words"), " "))
	})
}

func checkDisguises(t *rapid.T, s string) {
	one, two := disguised(t, s), disguised(t, s)
	for _, a := range []Alphabet{Any, Any, Cyrillic, Greek} {
		o := roomy(a, None)
		first, err := Normalise(nil, []byte(one), o)
		second, again := Normalise(nil, []byte(two), o)
		if err != nil || again != nil || string(first.Text) == string(second.Text) || refText(string(first.Text)) != refText(string(second.Text)) {
			continue
		}
		left, right := strings.Fields(string(first.Text)), strings.Fields(string(second.Text))
		sure := map[string]bool{map[Alphabet]string{Cyrillic: "Cyrillic", Greek: "Greek"}[a]: true} // of an alphabet's own script all are
		for _, word := range append(slices.Clone(left), right...) {
			s := scanner{out: []byte(word), own: noScript}
			var run lettersRun
			if s.readRun(&run, 0); run.looks&(1<<latinPlace) == 0 || run.isCertain() {
				sure[scriptName([]rune(word)[0])] = true
			}
		}
		for i, word := range left {
			other := right[i]
			l, r := scriptName([]rune(word)[0]), scriptName([]rune(other)[0])
			if word != other && !(sure[l] && sure[r]) && !(l == "Latin" && sure[r]) && !(r == "Latin" && sure[l]) && !apartByRunes(word, other) {
				t.Fatalf("%+q and %+q are delivered as %s and %s", one, two, first.Text, second.Text)
			}
		}
	}
}

// apartByRunes says whether two words differ only in letters of one script that some language tells apart.
func apartByRunes(a, b string) bool {
	left, right := []rune(a), []rune(b)
	if len(left) != len(right) {
		return false
	}
	for i, r := range left {
		if r != right[i] && !keptApart(r, right[i]) {
			return false
		}
	}
	return true
}
