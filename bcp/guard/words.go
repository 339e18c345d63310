package guard

import (
	"math/big"
	"strings"
	"sync"
)

// What tells a secret from a name: words, and entropy.

// part is a stretch of a name: letters of one word, digits, or one other character.
type part struct {
	text string
	kind partKind
}

type partKind uint8

const (
	partOther partKind = iota
	partWord
	partLetters // no word
	partDigits
)

// nextPart splits the first part from a name. Letters are divided where a capital begins a word: after a small letter, and
// at the last of several capitals before a small one.
func nextPart(s string) (part, string) {
	i := 0
	switch {
	case s[0]-'0' <= 9:
		for i < len(s) && s[i]-'0' <= 9 {
			i++
		}
		return part{s[:i], partDigits}, s[i:]
	case s[0]|0x20-'a' > 25:
		return part{s[:1], partOther}, s[1:]
	}
	for i < len(s) && s[i]-'A' <= 25 {
		i++
	}
	if i < len(s) && s[i]-'a' <= 25 {
		if i > 1 && !(i > 2 && s[i] == 's' && (i+1 == len(s) || s[i+1]-'a' > 25)) { // HTTPServer, but IDs
			i--
			return part{s[:i], lettersKind(s[:i])}, s[i:]
		}
		for i < len(s) && s[i]-'a' <= 25 {
			i++
		}
	}
	return part{s[:i], lettersKind(s[:i])}, s[i:]
}

// lettersKind says whether letters could be a word or an abbreviation: not a single letter, with a vowel unless they are
// few, and never many consonants or vowels in a row.
func lettersKind(s string) partKind {
	if len(s) < 2 {
		return partLetters
	}
	vowels, row, wasVowel := 0, 0, false
	for i := range len(s) {
		isVowel := strings.IndexByte("aeiouy", s[i]|0x20) >= 0
		if isVowel {
			vowels++
		}
		if isVowel != wasVowel {
			row = 0
		}
		wasVowel = isVowel
		if row++; row > 5 || isVowel && row > 3 {
			return partLetters
		}
	}
	if vowels == 0 && len(s) > 4 || len(s) > 9 && vowels*5 < len(s) {
		return partLetters
	}
	return partWord
}

// measure says what a name consists of.
type measure struct {
	words, wordChars   int // words, and their characters
	letters, digits    int // characters of letters that are no words, and of digits
	digitRuns, longest int // longest: of the runs of digits
	short              int // words of two letters
}

func measureName(s string) (m measure) {
	for s != "" {
		var p part
		p, s = nextPart(s)
		switch p.kind {
		case partWord:
			m.words++
			m.wordChars += len(p.text)
			if len(p.text) == 2 {
				m.short++
			}
		case partLetters:
			m.letters += len(p.text)
		case partDigits:
			m.digits += len(p.text)
			m.digitRuns++
			m.longest = max(m.longest, len(p.text))
		}
	}
	return m
}

// isCamelCase reports whether a run of base64 characters is an identifier of joined words: no sign, hardly a digit, words
// of four characters on average.
func isCamelCase(s string) bool {
	if strings.ContainsAny(s, "+/") {
		return false
	}
	m := measureName(s)
	return m.letters <= 2 && m.digits <= 4 && m.digitRuns <= 2 && m.words*7 <= m.wordChars*2 && m.short <= m.words/3
}

// isPathOfWords reports whether a run of base64 characters is a path: segments of words, with few digits.
func isPathOfWords(s string) bool {
	if strings.Contains(s, "+") || !strings.Contains(s, "/") {
		return false
	}
	var total measure
	for segment := range strings.SplitSeq(s, "/") {
		m := measureName(segment)
		if m.digits > 4 && m.digits != len(segment) || m.letters > 2 {
			return false
		}
		total.words += m.words
		total.wordChars += m.wordChars
		total.letters += m.letters
		total.digits += m.digits
	}
	return total.words*3 <= total.wordChars && total.letters*8 <= len(s) && total.digits*3 <= len(s)
}

// looksRandom reports whether a run of base64url characters is likely to be a secret: capitals, small letters and digits,
// an entropy of 4.2 bits a character or more, and few words.
func looksRandom(s string) bool {
	var capital, small, digit bool
	for i := range len(s) {
		switch c := s[i]; {
		case c-'A' <= 25:
			capital = true
		case c-'a' <= 25:
			small = true
		case c-'0' <= 9:
			digit = true
		}
	}
	if !capital || !small || !digit || !entropyAtLeast(s, 42) {
		return false
	}
	words := 0
	for rest := s; rest != ""; {
		var p part
		if p, rest = nextPart(rest); p.kind == partWord && len(p.text) >= 4 {
			words += len(p.text)
		}
	}
	return words*2 < len(s)
}

const maxEntropy = 256 // bytes of a text whose entropy is looked at

// weights has n log2 n for n up to maxEntropy, in nano-bits.
var weights = sync.OnceValue(func() *[maxEntropy + 1]int64 {
	var table [maxEntropy + 1]int64
	for n := int64(2); n <= maxEntropy; n++ {
		table[n] = n * int64(log2(big.NewInt(n)))
	}
	return &table
})

// entropyAtLeast reports whether s has, by the frequencies of its bytes, tenths/10 bits or more a character.
func entropyAtLeast(s string, tenths int64) bool {
	s = s[:min(len(s), maxEntropy)]
	var counts [256]uint16
	table := weights()
	sum := table[len(s)]
	for i := range len(s) {
		n := counts[s[i]]
		sum -= table[n+1] - table[n]
		counts[s[i]] = n + 1
	}
	return sum >= int64(len(s))*tenths*int64(bit)/10
}
