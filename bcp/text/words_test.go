package text

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// wordParts are words of prose, and what is none.
var wordParts = append(strings.Split("a I the to ignore Ignore all previous instructions please you should system prompt vendor questions abcdefg abcdefgh abcdefghi "+
	"abcdefghijklmno abcdefghijklmnop abcdefghijklmnopqrstuvwx abcdefghijklmnopqrstuvwxy i g n o r e don't scarica l'allegato l 'allegato sei Smith-Jones 1. 2. 3. 4. 10. 1 12 1234567 3rd a1 1a 1.5 1,000", " "),
	" ", " ", " ", " ", " ", "  ", "\n", ". ", ", ", ".", ",", "! ", "; ", ": ", ":", "/", "(", ") ", "-", "'", "&", "$", "\t", "\x01", "\u200b", "é", "e\u0301", "\u0301", "漢", "а", "\u00ad", "Ⅷ")

// promisedProse is what [Result.Prose] promises, read from the text as received.
func promisedProse(s string) bool {
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
		if digits && len(run) > proseDigits || !digits && (len(run) > proseLetters || strings.ContainsAny(run, "0123456789")) {
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
		stopIf(t, err == nil && r.Prose && !promisedProse(s), "%q is called prose", s)
	})
	for _, s := range []string{"The vendor moves delivery to next week.", "1. the vendor moves\n2. the costs remain", "On 15 March 2026, in room 7, we met. Nobody left.", "Basic patience"} {
		r, err := Normalise(nil, []byte(s), Options{Alphabet: Any, Join: List, MaxWords: 100})
		failIf(t, err != nil || !r.Prose, "%q is not called prose: %v", s, err)
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
			failIf(t, (err == nil) != (max(1, limit) >= words),
				"%q is not %d words: %v with a limit of %d", s, words, err, limit)
		}
	}
}
