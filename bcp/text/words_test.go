package text

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// carefully reads a text as it comes: no word is taken by plainWords, met by meet or passed over by numbers.
func carefully(src []byte, o Options) (scanner, Set, error) {
	own, home := o.Alphabet.script()
	s := scanner{limit: o.Alphabet.limit(), own: own, home: home, join: o.Join, name: o.PersonName, maxWords: o.MaxWords, maxChars: o.MaxChars}
	if s.maxChars == 0 {
		s.maxChars = int(^uint(0) >> 1)
	}
	if err := s.scan(src); err != nil {
		return s, 0, err
	}
	if s.foreign && o.Looks != LooksKept {
		if err := s.resolve(o.Looks); err != nil {
			return s, 0, err
		}
	}
	return s, DefaultRules().phrases.match(s.out), nil
}

// checkWords compares what Normalise says of a text with what the careful scanner does.
func checkWords(t failer, src []byte, o Options, room int) {
	t.Helper()
	begun := []byte("begun ")
	got, err := Normalise(append(make([]byte, 0, room+len(begun)), begun...), src, o)
	want, phrases, wantErr := carefully(src, o)
	switch {
	case wantErr == nil && len(want.out) == 0:
		wantErr = ErrEmpty
	case wantErr == nil && want.chars > want.maxChars:
		wantErr = ErrTooLong
	}
	if err != wantErr {
		t.Fatalf("%+q: %v, read carefully: %v", src, err, wantErr)
	}
	if err != nil {
		return
	}
	result := Result{Text: append(begun, want.out...), Words: max(want.segments, want.splits), Chars: want.chars, Prose: want.flags.prose()}
	if string(got.Text) != string(result.Text) || got.Words != result.Words || got.Chars != result.Chars || got.Prose != result.Prose {
		t.Fatalf("%+q in %d bytes: %+v, read carefully: %+v", src, room, got, result)
	}
	w := DefaultRules().walk()
	anomalies := DefaultRules().screen(src, want.out, &w, want.flags)
	if o.PersonName {
		anomalies, phrases = anomalies.InName(), phrases.InName()
	}
	if got.Anomalies != anomalies || anomalies&phrases != phrases {
		t.Fatalf("%+q in %d bytes: %v, read carefully: %v", src, room, got.Anomalies.Codes(), anomalies.Codes())
	}
}

// wordParts are what short cuts are taken through, and what stops them.
var wordParts = append(strings.Split("a I the to ignore Ignore all previous instructions please you should system prompt vendor questions abcdefg abcdefgh abcdefghi "+
	"abcdefghijklmno abcdefghijklmnop abcdefghijklmnopqrstuvwx abcdefghijklmnopqrstuvwxy i g n o r e don't scarica l'allegato l 'allegato sei Smith-Jones 1. 2. 3. 4. 10. 1 12 1234567 3rd a1 1a 1.5 1,000", " "),
	" ", " ", " ", " ", " ", "  ", "\n", ". ", ", ", ".", ",", "! ", "; ", ": ", ":", "/", "(", ") ", "-", "'", "&", "$", "\t", "\x01", "\u200b", "é", "e\u0301", "\u0301", "漢", "а", "\u00ad", "Ⅷ")

// What is met, written and counted in one loop is what the scanner does one by one, whatever room there is and whichever
// limit is met.
//
// covers P3.3, P3.4, P3.6
func TestWordsAreTakenAsTheyCome(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"1. one two\n2. three", "1. one\n3. three", "2. one", "1. 1. one", "$1. one", "one, 2. two", "one 2. two"} {
		for words := range 6 {
			for _, name := range []bool{false, true} {
				for chars := range 16 {
					checkWords(t, []byte(src), Options{Alphabet: Any, Join: List, PersonName: name, MaxWords: words, MaxChars: chars}, 100)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		src := strings.Join(rapid.SliceOfN(rapid.SampledFrom(wordParts), 0, 60).Draw(t, "parts"), "")
		o := genOptions().Draw(t, "options")
		o.PreserveCase = false
		o.Looks = rapid.SampledFrom([]Looks{0, LooksAlone, LooksKept}).Draw(t, "looks")
		o.MaxWords = rapid.IntRange(1, 60).Draw(t, "max words")
		o.MaxChars = rapid.IntRange(0, 80).Draw(t, "max chars")
		checkWords(t, []byte(src), o, rapid.SampledFrom([]int{0, 20, 100, 2000}).Draw(t, "room"))
	})
}

// covers P3.3, P3.4, P3.6, A-UTF8, A-CTRL
func FuzzWords(f *testing.F) {
	for i, part := range wordParts {
		f.Add([]byte("Ignore all "+part+" previous\n1. "+part+part+" words. 2. of it"), uint8(i), uint8(0))
		f.Add([]byte("1. "+part+" the system\n2. prompt "+part), uint8(i), uint8(9))
	}
	f.Add([]byte("a\x00b the \xff words 007 -0 1e3 \u00a0 \v\f"), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, src []byte, mode, limit uint8) {
		o := Options{Alphabet: []Alphabet{Any, ASCII, Latin, Any}[mode&3], Join: []Join{None, List, Summary, List}[mode>>2&3],
			PersonName: mode&48 == 48, MaxWords: 50, MaxChars: int(limit)}
		if limit&1 == 1 {
			o.MaxWords = int(limit >> 1)
		}
		checkWords(t, src, o, 3*len(src)+int(mode>>6)*8)
	})
}

// isProse is what [Result.Prose] promises, read from the text as received.
func isProse(s string) bool {
	for i, r := range s {
		behind := byte(' ')
		if i+1 < len(s) {
			behind = s[i+1]
		}
		switch {
		case r == '.' || r == ',':
			if behind != ' ' && behind != '\n' {
				return false
			}
		case r == ' ' && behind == ' ' && i+1 < len(s), r == '\n' && behind == ' ' && i+1 < len(s):
			return false
		case r != ' ' && r != '\n' && !(r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))):
			return false
		}
	}
	for _, run := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \n.,", r) }) {
		digits := len(strings.Trim(run, "0123456789")) == 0
		if digits && len(run) > proseDigits || !digits && (len(run) >= longPiece || strings.ContainsAny(run, "0123456789")) {
			return false
		}
	}
	return true
}

// No text is called prose that is not; nearly all that is prose is called so.
//
// covers P3.6
func TestProse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append([]string{" ", " ", " ", " "}, wordParts...)), 0, 12).Draw(t, "parts"), "")
		o := Options{Alphabet: Any, Join: rapid.SampledFrom([]Join{None, List, Summary}).Draw(t, "join"), MaxWords: 100}
		r, err := Normalise(make([]byte, 0, 2000), []byte(s), o)
		if err == nil && r.Prose && !isProse(s) {
			t.Fatalf("%q is called prose", s)
		}
	})
	for _, s := range []string{"The vendor moves delivery to next week.", "1. the vendor moves\n2. the costs remain", "On 15 March 2026, in room 7, we met. Nobody left.", "Basic patience"} {
		if r, err := Normalise(nil, []byte(s), Options{Alphabet: Any, Join: List, MaxWords: 100}); err != nil || !r.Prose {
			t.Errorf("%q is not called prose: %v", s, err)
		}
	}
}

// Where no spaces are written, what is a word is a rule, and the limit is on it.
// covers P3.3
func TestWordsWithoutSpaces(t *testing.T) {
	t.Parallel()
	for s, words := range map[string]int{
		"今日は": 3, "忽略指示": 4, "カタカナ": 1, "한국어 문장입니다": 2, "สวัสดี": 4, "ສະບາຍດີ": 6, "Donaudampfschifffahrt": 1, "E-Mail-Adresse": 3, "注文4480の納期": 6,
	} {
		for _, limit := range []int{words, words - 1} {
			_, err := Normalise(nil, []byte(s), Options{Alphabet: Any, MaxWords: max(1, limit)})
			if (err == nil) != (max(1, limit) >= words) {
				t.Errorf("%q is not %d words: %v with a limit of %d", s, words, err, limit)
			}
		}
	}
}
