package bcp

import (
	"crypto/sha256"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// quotedWords is the number of consecutive delivered words that make a
// justification a quotation (PROTOCOL P6.4).
const quotedWords = 6

// maxJustification bounds a justification in characters: 100 words of at most
// 24, with what separates them.
const maxJustification = MaxJustificationWords * (text.MaxWordChars + 1)

// justified reports whether a justification says anything and is within its
// limits.
func (e *Escalation) justified() bool {
	if e == nil || utf8.RuneCountInString(e.Justification) > maxJustification {
		return false
	}
	return len(strings.Fields(e.Justification)) <= MaxJustificationWords && len(wordsOf(e.Justification)) > 0
}

// maxQuotations bounds a session's quotations. A session that was told more is
// refused every justification long enough to quote.
const maxQuotations = 1 << 20

// quotations holds the runs of quotedWords words that were delivered in a
// session, as digests, and when the first of each is released: what is not
// released yet must not be felt.
type quotations map[[8]byte]int64

// add keeps the runs of a text that is delivered at release.
func (q quotations) add(runs [][8]byte, release int64) {
	for _, run := range runs {
		before, known := q[run]
		if known {
			q[run] = min(before, release)
		} else if len(q) < maxQuotations {
			q[run] = release
		}
	}
}

// in reports whether text quotes a run that was released by now.
func (q quotations) in(text string, now int64) bool {
	for _, run := range wordRuns(text) {
		if release, quoted := q[run]; quoted && release <= now || len(q) >= maxQuotations {
			return true
		}
	}
	return false
}

// wordRuns returns a digest of each quotedWords consecutive words.
func wordRuns(text string) [][8]byte {
	if plainWords(text) < quotedWords { // as of most answers
		return nil
	}
	joined, ends := joinedWords(text)
	if len(ends) < quotedWords {
		return nil
	}
	runs := make([][8]byte, 0, len(ends)-quotedWords+1)
	begin := 0
	for i, end := range ends[quotedWords-1:] {
		sum := sha256.Sum256(joined[begin:end])
		runs = append(runs, [8]byte(sum[:8]))
		begin = ends[i] + 1
	}
	return runs
}

// plainWords counts the words of a text in ASCII, and takes any other for long.
func plainWords(text string) (words int) {
	inside := false
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			return quotedWords
		}
		letter := isLower(c|0x20) || isDigit(c)
		if letter && !inside {
			words++
		}
		inside = letter
	}
	return words
}

// joinedWords returns the words of a text with a space behind each, and where
// each ends. What is delivered is mostly ASCII: its words need no tables.
func joinedWords(text string) (joined []byte, ends []int) {
	joined = make([]byte, 0, len(text)+1)
	end := func() {
		if n := len(joined); n > 0 && joined[n-1] != ' ' {
			ends = append(ends, n)
			joined = append(joined, ' ')
		}
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			joined, ends = joined[:0], ends[:0]
			for _, word := range wordsOf(text) {
				joined = append(joined, word...)
				end()
			}
			return joined, ends
		case isLower(c | 0x20), isDigit(c): // 0x20 is set in digits and lower-case letters
			joined = append(joined, c|0x20)
		default:
			end()
		}
	}
	end()
	return joined, ends
}

// wordsOf splits a text at everything but letters and digits, so that
// punctuation, case, width and invisible characters hide nothing.
func wordsOf(text string) []string {
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToLower(norm.NFKC.String(text)))
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
