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

// add keeps every run of a text that is delivered at release.
func (q quotations) add(text string, release int64) {
	for _, run := range wordRuns(text) {
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
	words := wordsOf(text)
	if len(words) < quotedWords {
		return nil
	}
	runs := make([][8]byte, 0, len(words)-quotedWords+1)
	for i := 0; i+quotedWords <= len(words); i++ {
		sum := sha256.Sum256([]byte(strings.Join(words[i:i+quotedWords], " ")))
		runs = append(runs, [8]byte(sum[:8]))
	}
	return runs
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
