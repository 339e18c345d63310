package text

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func roomy(a Alphabet, j Join) Options {
	return Options{Alphabet: a, Join: j, MaxWords: 10_000}
}

// kept are options that leave words which look the same in several scripts.
func kept(o Options) Options {
	o.Looks = LooksKept
	return o
}

func normal(t bcptest.TB, s string, o Options) string {
	t.Helper()
	r, err := Normalise(nil, []byte(s), o)
	stopIf(t, err != nil, "%q: %v", s, err)
	return string(r.Text)
}

// covers P3.4, BCP-97, A-SPC, A-NFC, A-ZEROW
func TestNormaliseTable(t *testing.T) {
	t.Parallel()
	capitals := Options{Alphabet: Any, MaxWords: 100, PreserveCase: true}
	for _, c := range []struct {
		in   string
		o    Options
		want string
	}{
		{"  Hello,\t\u00a0World!  ", roomy(Any, None), "hello world"},
		{"it’s don`t it´s o''clock 'quoted'", roomy(Any, None), "it's don't it's o clock quoted"},
		{"well-known state–of‑the−art -dash- a--b a—b", roomy(Any, None), "well-known state-of-the-art dash a b a b"},
		{"3.14 1,500 15:04 1/2 ½ v.1 1. .5 1..2", roomy(Any, None), "3.14 1,500 15:04 1/2 1/2 v 1 1 5 1 2"},
		{"5% %5 % $10 10€ US$5 $ 5 $-5", roomy(Any, None), "5% %5 $10 10€ us$5 5 5"},
		{"AT&T R&D a+b C++ & +", roomy(Any, None), "at&t r&d a+b c"},
		{"a_b(c)[d]{e}<f>g*h#i@j~k^l|m\\n\"o\"p;q=r", roomy(ASCII, None), "a b c d e f g h i j k l m n o p q r"},
		{"zero\u200bwidth soft\u00adhyphen\ufeff", roomy(Any, None), "zero width softhyphen"},
		{"STRASSE Straße ſ ΣΊΣΥΦΟΣ İı", roomy(Any, None), "strasse strasse s σίσυφοσ ii"},
		{"٣٫١٤ １２３ ४२", roomy(Any, None), "3.14 123 42"},
		{"ﬁne ①②", roomy(Any, None), "fine 12"},
		{"e\u0301 e\u0301\u0323", roomy(Any, None), "é ẹ́"},
		{"1\u0301 \u0301a", roomy(Any, None), "1 a"},
		{"ب\u064bب ب\u064b\u064bب ب\u064bب", roomy(Any, None), "ب\u064bب ب\u064b ب ب\u064bب"},
		{"ignorèall̀rules̀and̀wire", roomy(Any, None), "ignorèall rules and wire"},
		{"p̶a̶y̶ ẹ̀tọ́ r̥ta", roomy(Any, None), "p a y ẹ̀tọ́ r̥ta"},
		{"One. Two! Three? four: five", roomy(Any, Summary), "one. two. three. four five"},
		{"(One.) \"Two.\" e.g. 3.5 in 2025. End...", roomy(Any, Summary), "one. two. e g. 3.5 in 2025. end"},
		{"终于。好", roomy(Any, Summary), "终于. 好"},
		{"no.space .before", roomy(Any, Summary), "no space before"},
		{"1. Foo\n2. bar baz\n3) qux", roomy(Any, List), "foo, bar baz, qux"},
		{"- foo\n* bar\n• baz", roomy(Any, List), "foo, bar, baz"},
		{"a, b;c\n\n,d 1,500", roomy(Any, List), "a, b, c, d 1,500"},
		{"15. March\n2. April\n1.5 x", roomy(Any, List), "15 march, april, 1.5 x"},
		{"1.\n2", roomy(Any, List), "1, 2"},
		{"1. a\n12345. b", roomy(Any, List), "a, 12345 b"},
		{"a、b،c", roomy(Any, List), "a, b, c"},
		{"JOHN o'Brien-SMITH McDonald 5A élan Élan", capitals, "John o'brien-Smith Mcdonald 5a élan Élan"},
		{"Ⓙohn 𝐉ohn Ｊohn", capitals, "John John John"},
		{"漢字 かな 한국어 Tシャツ 使用Go语言", roomy(Any, None), "漢字 かな 한국어 tシャツ 使用go语言"},
	} {
		r, err := Normalise([]byte("before|"), []byte(c.in), c.o)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		bcptest.Expect(t, cmp.Diff("before|"+c.want, string(r.Text)), "", "%q", c.in)
		checkPremise(t, Result{Text: r.Text[7:], Words: r.Words, Chars: r.Chars, Capitals: r.Capitals}, c.o)
	}
}

// covers P3.3, P3.4, BCP-95, BCP-97, A-LONG, A-HOM, A-NAME, A-ZEROW, A-JOIN
func TestNormaliseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   string
		o    Options
		want error
	}{
		{"zero options", "a", Options{}, ErrAlphabet},
		{"no word limit", "a", Options{Alphabet: Any}, ErrTooManyWords},
		{"unknown alphabet", "a", Options{Alphabet: 8, MaxWords: 9}, ErrAlphabet},
		{"unknown looks", "a", Options{Alphabet: Any, MaxWords: 9, Looks: 3}, ErrAlphabet},
		{"unknown join", "a", Options{Alphabet: Any, MaxWords: 9, Join: 3}, ErrAlphabet},
		{"empty", "", roomy(Any, None), ErrEmpty},
		{"only marks", " -.,;!\u0301\u200b$ ", roomy(Any, None), ErrEmpty},
		{"at the word limit", "a b c", Options{Alphabet: Any, MaxWords: 3}, nil},
		{"over the word limit", "a b c d", Options{Alphabet: Any, MaxWords: 3}, ErrTooManyWords},
		{"ideographs are words", "漢字仮名", Options{Alphabet: Any, MaxWords: 3}, ErrTooManyWords},
		{"24 letters", strings.Repeat("a", 24), roomy(Any, None), nil},
		{"25 letters", strings.Repeat("a", 25), roomy(Any, None), ErrWordTooLong},
		{"25 with an apostrophe", strings.Repeat("a", 12) + "'" + strings.Repeat("b", 12), roomy(Any, None), ErrWordTooLong},
		{"24 and 24 with a hyphen", strings.Repeat("a", 24) + "-" + strings.Repeat("b", 24), roomy(Any, None), nil},
		{"24 ideographs and more", strings.Repeat("漢", 40), roomy(Any, None), nil},
		{"at the character limit", "abc de", Options{Alphabet: Any, MaxWords: 9, MaxChars: 6}, nil},
		{"over the character limit", "abc def", Options{Alphabet: Any, MaxWords: 9, MaxChars: 6}, ErrTooLong},
		{"a number that goes", "1. a\n2. b", Options{Alphabet: Any, MaxWords: 2, MaxChars: 4, Join: List}, nil},
		{"a number that stays", "a\n22", Options{Alphabet: Any, MaxWords: 2, MaxChars: 4, Join: List}, ErrTooLong},
		{"a number that fits", "a\n2", Options{Alphabet: Any, MaxWords: 2, MaxChars: 4, Join: List}, nil},
		{"Cyrillic a", "p\u0430ypal", roomy(Any, None), ErrMixedScript},
		{"Greek omicron", "g\u03bfogle", roomy(Any, None), ErrMixedScript},
		{"Latin and Myanmar", "g\u101d\u101dgle", roomy(Any, None), ErrMixedScript},
		{"over an apostrophe", "l'\u043e", roomy(Any, None), ErrMixedScript},
		{"two words", "pay \u0430-b", roomy(Any, None), nil},
		{"beyond ASCII", "café", roomy(ASCII, None), ErrAlphabet},
		{"euro in ASCII", "5€", roomy(ASCII, None), ErrAlphabet},
		{"Latin", "café Žižek £5", roomy(Latin, None), nil},
		{"beyond Latin", "ạ", roomy(Latin, None), ErrAlphabet},
		{"euro in Latin", "5€", roomy(Latin, None), ErrAlphabet},
		{"four marks", "ب" + "\u0651\u064b\u0651\u064b", roomy(Any, None), nil},
		{"a mark that no language writes on 16 letters", strings.Repeat("x\u0336", 16), roomy(Any, None), nil},
		{"a mark that no language writes on 17 letters", strings.Repeat("x\u0336", 17), roomy(Any, None), ErrMarks},
		{"one word with such a mark is two", "x\u0336x", Options{Alphabet: Any, MaxWords: 1}, ErrTooManyWords},
		{"five marks", "x" + strings.Repeat("\u0336", 5), roomy(Any, None), ErrMarks},
		{"forty marks", "x" + strings.Repeat("\u0301", 40), roomy(Any, None), ErrMarks},
		{"marks with joiners", "x" + strings.Repeat("\u0301\u034f", 40), roomy(Any, None), ErrMarks},
		{"half-width marks", "カ" + strings.Repeat("\uff9e", 40), roomy(Any, None), ErrMarks},
		{"unassigned", "a\u0378", roomy(Any, None), ErrCodePoint},
		{"private use", "a\ue000", roomy(Any, None), ErrCodePoint},
		{"capital mark", "\uf8ffa e\u0301", Options{Alphabet: Any, MaxWords: 9, PreserveCase: true}, ErrCodePoint},
		{"noncharacter", "a\ufffe", roomy(Any, None), ErrCodePoint},
		{"bad UTF-8", "a\xff", roomy(Any, None), ErrCodePoint},
		{"bad UTF-8 behind rough text", "e\u0301\xff", roomy(Any, None), ErrCodePoint},
		{"name", "Dr. Müller-Lüdenscheidt, Jr. O'Neil", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, nil},
		{"name with a digit", "John 2", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, ErrName},
		{"name with a folded digit", "John ²", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, ErrName},
		{"name with a symbol", "John & Co", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, ErrName},
		{"name with a bracket", "John (Jack)", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, ErrName},
		{"name with a bullet", "• John", Options{Alphabet: Any, MaxWords: 9, PersonName: true}, ErrName},
		{"ligatures over the limit", strings.Repeat("\ufdfa ", 2), Options{Alphabet: Any, MaxWords: 7}, ErrTooManyWords},
		{"grown by 42 with room for 42", strings.Repeat("½ ", 21) + " ", roomy(Any, None), nil},
		{"grown by 42 with room for 41", strings.Repeat("½ ", 21), roomy(Any, None), ErrSpelling},
		{"grown by 46 in marks", strings.Repeat(" u\u0344", 46) + strings.Repeat(" ", 8), roomy(Any, None), nil},
		{"grown by 46 in marks with room for 45", strings.Repeat(" u\u0344", 46) + strings.Repeat(" ", 7), roomy(Any, None), ErrSpelling},
		{"16 marks behind nothing", "a" + strings.Repeat(" .\u0301", 16), roomy(Any, None), nil},
		{"17 marks behind nothing", "a" + strings.Repeat(" .\u0301", 17), roomy(Any, None), ErrMarks},
		{"marks behind digits", strings.Repeat("1\ufe0f\u20e3 ", 40), roomy(Any, None), nil},
		{"iota after iota", "ψ" + strings.Repeat("\u0345", 8), roomy(Any, None), nil},
		{"one iota more", "ψ" + strings.Repeat("\u0345", 9), roomy(Any, None), ErrMarks},
	} {
		r, err := Normalise(nil, []byte(c.in), c.o)
		failIf(t, !errors.Is(err, c.want), "%s: %q: got %v (%q), want %v", c.name, c.in, err, r.Text, c.want)
		failIf(t, err != nil && (r.Text != nil || r.Words != 0), "%s: a result beside an error", c.name)
	}
}

// Every spelling of a group is delivered as the same bytes.
// covers P3.4, A-SPC, A-NFC, A-HOM, A-JOIN
func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, group := range [][]string{
		{"it's fine", "It’s  FINE", " it\u02bcs\nfine! ", "it`s fine.", "\u200dit's\u00a0fine", "ｉｔ＇ｓ fine", "it‛s (fine)"},
		{"café au lait", "cafe\u0301 au lait", "CAFÉ AU LAIT", "CAFE\u0301 au\u2003lait"},
		{"state-of-the-art", "state‐of‐the‑art", "State–of−the-Art"},
		{"john smith", "JOHN SMITH", "Jo\u00adhn Smith", "𝐉𝐨𝐡𝐧 𝕊𝕞𝕚𝕥𝕙", "john\u200bsmith", "john_smith", "john\u2800smith", "john.smith"},
		{"1,500.5 items", "１,５００．５ items", "١٬٥٠٠٫٥ items"},
		{"strasse", "straße", "STRASSE", "STRAẞE", "ﬆrasse"},
	} {
		want := normal(t, group[0], roomy(Any, None))
		for _, s := range group {
			got := normal(t, s, roomy(Any, None))
			failIf(t, got != want, "%q: %q, want %q", s, got, want)
		}
	}
}

func assigned(r rune) bool {
	return class(lookUp(r)&entryClass) != classRefuse && r != utf8.RuneError
}

// checkFixpoint normalises twice and compares with the reference.
func checkFixpoint(t bcptest.TB, s string, o Options) (Result, bool) {
	t.Helper()
	r, err := Normalise(nil, []byte(s), o)
	if err != nil {
		return r, false
	}
	again, err := Normalise(nil, r.Text, o)
	if err != nil || string(again.Text) != string(r.Text) || again.Words != r.Words || again.Capitals != r.Capitals {
		t.Fatalf("%+q: %+q (%d words, %d capitals), again %+q (%d, %d) %v", s, r.Text, r.Words, r.Capitals, again.Text, again.Words, again.Capitals, err)
	}
	return r, true
}

// Every code point alone, in a word, between digits: idempotent, equal to the reference, and the same for all its
// spellings in case and Unicode form. The distinct outputs are the alphabets.
// covers P3.4, P4.1, A-NFC, A-HOM
func TestEveryCodePoint(t *testing.T) {
	t.Parallel()
	upper, lower, title := cases.Upper(language.Und), cases.Lower(language.Und), cases.Title(language.Und)
	o := roomy(Any, None)
	seen := map[rune]bool{}
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if !assigned(r) {
			if r >= 0xd800 && r < 0xe000 || r == utf8.RuneError {
				continue
			}
			_, err := Normalise(nil, []byte("a "+string(r)), o)
			stopIf(t, !errors.Is(err, ErrCodePoint), "%U: not refused: %v", r, err)
			continue
		}
		for _, s := range []string{string(r), "1" + string(r) + "1", "a" + string(r) + "a", "x1" + string(r), "ー" + string(r)} {
			res, ok := checkFixpoint(t, s, kept(o))
			if !ok {
				continue
			}
			want := refNormal(s)
			stopIf(t, string(res.Text) != want, "%U in %+q: %+q, reference %+q", r, s, res.Text, want)
			if want := refWords(string(res.Text)); res.Words != want {
				t.Fatalf("%U in %+q: %d words, reference %d", r, s, res.Words, want)
			}
			for _, out := range string(res.Text) {
				seen[out] = true
			}
		}
		if unicode.In(r, unicode.L, unicode.Nl, unicode.So, unicode.M) {
			s := "b" + string(r)
			if !unicode.Is(unicode.M, r) {
				s = string(r)
			}
			want, err := Normalise(nil, []byte(s), kept(o))
			for _, spelled := range []string{upper.String(s), lower.String(s), title.String(s), norm.NFD.String(s), norm.NFC.String(s), norm.NFKD.String(s)} {
				got, again := Normalise(nil, []byte(spelled), kept(o))
				failIf(t, (err == nil) != (again == nil) || string(got.Text) != string(want.Text),
					"%U: %+q is %+q %v, %+q is %+q %v", r, s, want.Text, err, spelled, got.Text, again)
			}
		}
	}
	delete(seen, ' ')
	seen['-'] = true
	for a := Any; a <= Hebrew; a++ {
		n := 0
		for r := range seen {
			if refHas(a, r) {
				n++
			}
		}
		failIf(t, n != AlphabetSize(a), "alphabet %d has %d characters, AlphabetSize says %d", a, n, AlphabetSize(a))
	}
}

// Marks behind any letter that composes: one, and runs of them in any order, with invisible characters between.
// covers P3.4, A-NFC
func TestComposition(t *testing.T) {
	t.Parallel()
	var letters, marks []rune
	for r := range rune(unicode.MaxRune) {
		switch e := lookUp(r); {
		case unicode.Is(unicode.L, r) && (slot(partsTable[:], uint64(r)) != 0 || unicode.IsUpper(r)):
			letters = append(letters, r)
		case class(e&entryClass) == classMark && (e&entryRough != 0 || r < 0x370):
			marks = append(marks, r)
		}
	}
	letters = append(letters, []rune("aeiouyjnwαιωか")...)
	marks = append(marks, 0x345, 0x344, 0x200d, 0x34f)
	for i, l := range letters {
		for j := i % 7; j < len(marks); j += 7 { // other marks for each
			s := string(l) + string(marks[j])
			checkFixpoint(t, s, roomy(Any, None))
			if r, ok := checkFixpoint(t, s, kept(roomy(Any, None))); ok && j%5 == 0 {
				stopIf(t, string(r.Text) != refNormal(s), "%+q: %+q, reference %+q", s, r.Text, refNormal(s))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 3).Draw(t, "letters") {
			b.WriteRune(rapid.SampledFrom(letters).Draw(t, "letter"))
			for range rapid.IntRange(0, 4).Draw(t, "marks") {
				b.WriteRune(rapid.SampledFrom(marks).Draw(t, "mark"))
			}
			b.WriteString(rapid.SampledFrom([]string{"", " ", "1", "<", "-"}).Draw(t, "gap"))
		}
		checkAll(t, b.String(), roomy(Any, None))
		o := roomy(Any, Summary)
		o.PreserveCase = true
		checkAll(t, b.String(), o)
	})
}

// alphabetOfTests holds what breaks normalisers.
var alphabetOfTests = strings.Split("a b c i I A Z z ab Word 1 2 9 007 . . , , : / - - ' ’ – — % $ € & + _ ( ) [ ] { } < > | ` \" * # @ ! ? ; = \\ ~ ^ … "+
	"1. 2) é É e\u0301 \u0301 \u0307 \u0323 \u0336 \u0345 ᾳ ß ẞ ı İ ſ ς Σ ﬁ ½ ² Ⅷ Ⓐ Ａ １ ： ． 漢 字 か カ ー ｶ ﾞ 한 ᄀ ᅡ ᆨ ไทย ก\u0e48 а Б я ا ٣ ٫ ٬ א ״ ׳ क ि ् "+
	"\u00ad \u200b \u200c \u200d \u034f \u3164 \u2800 \ufdfa 。 、 ، • U.S. e.g. http:// www. evil.com please ignore", " ")

func genText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom(append([]string{" ", " ", " ", "\n", "\t", "\u00a0"}, alphabetOfTests...)), 0, 40).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

func genOptions() *rapid.Generator[Options] {
	return rapid.Custom(func(t *rapid.T) Options {
		return Options{
			Alphabet:     rapid.SampledFrom([]Alphabet{Any, Any, ASCII, Latin}).Draw(t, "alphabet"),
			Join:         rapid.SampledFrom([]Join{None, List, Summary}).Draw(t, "join"),
			PreserveCase: rapid.Bool().Draw(t, "case"),
			PersonName:   rapid.IntRange(0, 9).Draw(t, "name") == 0,
			MaxWords:     rapid.IntRange(1, 100).Draw(t, "words"),
			MaxChars:     rapid.SampledFrom([]int{0, 0, 5, 60}).Draw(t, "chars"),
		}
	})
}

// checkAll is what holds for every input.
func checkAll(t bcptest.TB, s string, o Options) {
	t.Helper()
	r, ok := checkFixpoint(t, s, o)
	if !ok {
		return
	}
	checkPremise(t, r, o)
	words := refWords(refSettle(string(r.Text)))
	stopIf(t, words != r.Words, "%+q: %+q has %d words, reference %d", s, r.Text, r.Words, words)
	if o.Join == None && !o.PreserveCase {
		same, err := Normalise(nil, []byte(s), kept(o))
		want := refNormal(s)
		stopIf(t, err != nil || want != string(same.Text), "%+q: %+q (%v), reference %+q", s, same.Text, err, want)
	}
	got := DefaultRules().Screen([]byte(s), r.Text)
	if o.PersonName {
		got = got.InName()
	}
	stopIf(t, got != r.Anomalies, "%+q: Screen finds %v, Normalise %v", s, got.Codes(), r.Anomalies.Codes())
	if !o.PreserveCase {
		for _, spelled := range []string{norm.NFD.String(s), strings.ReplaceAll(s, " ", "\u00a0\u200d ")} {
			other, err := Normalise(nil, []byte(spelled), o)
			stopIf(t, err == nil && string(other.Text) != string(r.Text),
				"%+q and %+q: %+q and %+q", s, spelled, r.Text, other.Text)
		}
	}
}

// covers P3.3, P3.4, P3.6, P4.1, A-JOIN, A-NFC, A-SPC
func TestNormaliseProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkAll(t, genText().Draw(t, "text"), genOptions().Draw(t, "options"))
	})
}

// PreserveCase keeps initial capitals and nothing else: without them the text is the one without PreserveCase.
// covers P3.4, BCP-97
func TestPreserveCaseKeepsOneBit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, o := genText().Draw(t, "text"), genOptions().Draw(t, "options")
		o.PreserveCase = false
		low, err := Normalise(nil, []byte(s), o)
		o.PreserveCase = true
		high, again := Normalise(nil, []byte(s), o)
		stopIf(t, (err == nil) != (again == nil) || err == nil && low.Words != high.Words, "%+q: %v, %v", s, err, again)
		stopIf(t, err == nil && refSettle(string(high.Text)) != string(low.Text), "%+q: %+q and %+q", s, low.Text, high.Text)
	})
}

// covers P3.3, P3.4, P3.6, A-JOIN
func FuzzNormalise(f *testing.F) {
	for i, s := range alphabetOfTests {
		f.Add("a"+s+"1 "+s+s, uint8(i))
	}
	f.Fuzz(func(t *testing.T, s string, mode uint8) {
		o := Options{Alphabet: []Alphabet{Any, ASCII, Latin, Any}[mode&3], Join: []Join{None, List, Summary, None}[mode>>2&3], PreserveCase: mode&16 != 0, MaxWords: 50}
		if !utf8.ValidString(s) {
			_, err := Normalise(nil, []byte(s), o)
			stopIf(t, err == nil, "%q accepted", s)
			return
		}
		checkAll(t, s, o)
	})
}

// covers P3.4
func TestTablesAreCurrent(t *testing.T) {
	t.Parallel()
	stopIf(t, unicode.Version != tableUnicode || norm.Version != tableNorm,
		"%s: run go generate and recompute the alphabets", Versions())
	for r := range rune(unicode.MaxRune) {
		e := lookUp(r)
		if class(e&entryClass) != classMapped {
			continue
		}
		to := refSettle(string(r))
		stopIf(t, to != strings.ReplaceAll(string(mappedTo(e)), "`", "'"), "%U maps to %+q, reference %+q", r, mappedTo(e), to)
	}
	stopIf(t, lookUp(-1)&entryClass != uint32(classRefuse) || lookUp(0x110000)&entryClass != uint32(classRefuse),
		"what is no code point is not refused")
}

// covers P1.3, P3.4
func TestCapitalsStayInTheAlphabet(t *testing.T) {
	t.Parallel()
	for _, limit := range []rune{limitASCII, Latin.limit()} {
		for r := range limit {
			up := unicode.ToUpper(r)
			e := lookUp(up)
			failIf(t, class(e&entryClass) == classMapped && mappedTo(e) == r && up >= limit, "%U has the capital %U", r, up)
		}
	}
}

// covers P4.1
func TestJoiners(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Alphabet
		j    Join
		want int
	}{{ASCII, None, 2}, {Latin, None, 2}, {Any, None, 3}, {ASCII, List, 3}, {ASCII, Summary, 3}, {Any, Summary, 4}, {0, None, 0}, {ASCII, 3, 0}} {
		got := Joiners(c.a, c.j)
		failIf(t, got != c.want, "Joiners(%d, %d) = %d, want %d", c.a, c.j, got, c.want)
	}
	failIf(t, AlphabetSize(0) != 0, "the zero alphabet has characters")
}

var failIf, noError, stopIf = bcptest.FailIf, bcptest.NoError, bcptest.StopIf
