package state

import (
	"encoding/binary"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// What makes a text quote another one (PROTOCOL P6.4).
const (
	// quotedWords is the number of consecutive words that are a quotation.
	quotedWords = 6
	// quotedWithin is the number of words among which they stand in the text that
	// quotes, in any order.
	quotedWithin = 12
	// maxQuotations bounds a session's quotations. A session that was told more is
	// refused every justification long enough to quote.
	maxQuotations = 1 << 20
)

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

func (q quotations) has(run [8]byte, now int64) bool {
	release, ok := q[run]
	return ok && release <= now
}

// quotesReleased reports whether a text quotes a run that was released by now: its letters
// one after the other, however they are divided into words, or its words in any
// order, among at most quotedWithin. It looks up some ten digests for each
// letter and at most 462 for each word, and more only where six words begin alike.
func (q quotations) quotesReleased(quoting string, now int64) bool {
	if len(q) == 0 {
		return false
	}
	l := text.ReadLetters([]byte(quoting))
	if len(q) >= maxQuotations && len(l.Ends) >= quotedWords {
		return true
	}
	sums := prefixSums(l.Text)
	for from := range l.Text {
		most := min(len(l.Text)-from, quotedWords*maxWordBytes)
		if most < beginning || !q.has(lettersRun(sums, from, from+beginning, 3), now) {
			most = min(most, beginning-1)
		}
		for n := quotedWords; n <= most; n++ {
			if q.has(lettersRun(sums, from, from+n, 1), now) {
				return true
			}
		}
	}
	words := wordSums(l)
	for i := range words {
		if q.completesRun(words[i], words[i+1:min(i+quotedWithin, len(words))], quotedWords-1, now) {
			return true
		}
	}
	return false
}

const (
	// maxWordBytes is the length of a word whose letters take two bytes.
	maxWordBytes = 2 * text.MaxWordChars
	// beginning is the number of bytes by which the letters of six words are found.
	beginning = 12
)

// completesRun reports whether some of the words make a run with those that sum has.
func (q quotations) completesRun(sum uint64, words []uint64, missing int, now int64) bool {
	if missing == 0 {
		return q.has(wordsRun(sum), now)
	}
	for i := range words {
		if len(words)-i < missing {
			return false
		}
		if q.completesRun(sum+words[i], words[i+1:], missing-1, now) {
			return true
		}
	}
	return false
}

// wordRuns returns the digests of each quotedWords consecutive words: of their
// letters in order, of the words in any, and of the beginning of the letters.
func wordRuns(delivered string) [][8]byte {
	l := text.ReadLetters([]byte(delivered))
	n := len(l.Ends) - quotedWords + 1
	if n <= 0 {
		return nil
	}
	runs := make([][8]byte, 0, 3*n)
	sums, words := prefixSums(l.Text), wordSums(l)
	begin := 0
	for i := range n {
		sum := uint64(0)
		for _, word := range words[i : i+quotedWords] {
			sum += word
		}
		runs = append(runs, wordsRun(sum))
		length := l.Ends[i+quotedWords-1] - begin
		if length < len(lettersPowers) {
			runs = append(runs, lettersRun(sums, begin, begin+length, 1))
		}
		if length >= beginning {
			runs = append(runs, lettersRun(sums, begin, begin+beginning, 3))
		}
		begin = l.Ends[i]
	}
	return runs
}

// lettersFactor is that of the polynomials by which letters are compared, and
// lettersPowers has its powers.
const lettersFactor = 0x9e3779b97f4a7c15

var lettersPowers = func() (powers [quotedWords*maxWordBytes + 1]uint64) {
	powers[0] = 1
	for i := 1; i < len(powers); i++ {
		powers[i] = powers[i-1] * lettersFactor
	}
	return powers
}()

// prefixSums returns the polynomial of each beginning of a text, such that what
// is between two places is known without reading it.
func prefixSums(letters []byte) []uint64 {
	sums := make([]uint64, len(letters)+1)
	for i, b := range letters {
		sums[i+1] = sums[i]*lettersFactor + uint64(b)
	}
	return sums
}

// lettersRun is the digest of letters one after the other.
func lettersRun(sums []uint64, from, to int, kind byte) [8]byte {
	return tagged(sums[to]-sums[from]*lettersPowers[to-from]+uint64(to-from), kind)
}

// wordSums returns a number for each word, whose sum names words in any order.
func wordSums(l text.Letters) []uint64 {
	words := make([]uint64, len(l.Ends))
	for i := range words {
		sum := uint64(0)
		for _, b := range l.Word(i) {
			sum = sum*lettersFactor + uint64(b)
		}
		words[i] = mixed(sum + uint64(len(l.Word(i))))
	}
	return words
}

// wordsRun is the digest of words in any order.
func wordsRun(sum uint64) [8]byte { return tagged(sum, 2) }

// tagged makes a digest of a number; the kinds have no digest in common.
func tagged(sum uint64, kind byte) (run [8]byte) {
	binary.BigEndian.PutUint64(run[:], mixed(sum))
	run[0] = kind
	return run
}

// mixed spreads a number over 64 bits. Whoever finds two texts of one digest has
// an own justification refused.
func mixed(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
