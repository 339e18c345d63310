package bcp

import (
	"crypto/sha256"
	"strings"
	"unicode"
)

// quotedWords is the number of consecutive delivered words that make a
// justification a quotation (PROTOCOL P6.4).
const quotedWords = 6

// justified reports whether a justification is there and within its limit.
func (e *Escalation) justified() bool {
	if e == nil {
		return false
	}
	n := len(strings.Fields(e.Justification))
	return n > 0 && n <= MaxJustificationWords
}

// quotations holds the runs of quotedWords words that were delivered in a
// session, as digests.
type quotations map[[8]byte]struct{}

// add keeps every run of a delivered text.
func (q quotations) add(text string) {
	for _, run := range wordRuns(text) {
		q[run] = struct{}{}
	}
}

// in reports whether text quotes a run.
func (q quotations) in(text string) bool {
	for _, run := range wordRuns(text) {
		if _, quoted := q[run]; quoted {
			return true
		}
	}
	return false
}

// wordRuns returns a digest of each quotedWords consecutive words, by letters
// and digits alone, so that punctuation and case hide nothing.
func wordRuns(text string) [][8]byte {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
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
