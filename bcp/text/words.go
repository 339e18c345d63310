package text

import (
	"encoding/binary"
	"math/bits"
)

// endsWord says whether a byte after a letter ends its word for certain, in the text as received and as normalised: white space, a
// full stop or a comma.
func endsWord(b byte) bool {
	return 1<<asciiClass[b]&(1<<classSpace|1<<classLine|1<<classStop|1<<classComma) != 0
}

// word is a word of 1 to 15 ASCII letters, in lower case, with zeros after it.
type word struct {
	first, last uint64
	length      int
}

// shortWord reads the word of ASCII letters that begins at src[at]. It is false for a longer one, and one that may go on after
// the letters.
func shortWord(src []byte, at int) (w word, ok bool) {
	x := eight(src[at:])
	w.first = x&^highBits | smallBits
	if others := notLetters(x, w.first); others != 0 {
		w.length = bits.TrailingZeros64(others) / 8
		w.first = firstBytes(w.first, w.length)
	} else {
		x = eight(src[at+8:])
		w.last = x&^highBits | smallBits
		w.length = 8 + bits.TrailingZeros64(notLetters(x, w.last))/8
		w.last = firstBytes(w.last, w.length-8)
	}
	end := at + w.length
	return w, w.length < longPiece && (end == len(src) || endsWord(src[end]))
}

// eight returns the first eight bytes of a text, with zeros after its end.
func eight(text []byte) (x uint64) {
	if len(text) >= 8 {
		return binary.LittleEndian.Uint64(text)
	}
	for i, b := range text {
		x |= uint64(b) << (8 * i)
	}
	return x
}

// hash is what hashWord returns of the word.
func (w word) hash() uint64 {
	h := hashMore(0, w.first)
	if w.length > 8 {
		h = hashMore(h, w.last)
	}
	return h
}

// stem is what stemOf returns of the word.
func (w word) stem() uint64 {
	longer := uint64(int64(stemChars-w.length) >> 63) // all bits or none: a branch would be guessed wrong for every other word
	return hashMore(stemSeed, firstBytes(w.first, stemChars)) & longer
}

// letter is the letter of a word that is a single one, or 0.
func (w word) letter() byte {
	if w.length == 1 {
		return byte(w.first)
	}
	return 0
}

// plainWords takes words of ASCII letters that stand after one space each, from src[at] on, as plainWord does, and has the
// phrases meet them at once: most words of most texts. It returns the place after the last one, or at if it takes none.
// What it does not take, such as a word that is one too many, is for the rest of the scanner.
func (s *scanner) plainWords(src []byte, at int) int {
	taken, out := at, s.out
	words := s.maxWords - max(s.segments, s.splits)
	room := s.maxChars - s.chars
	count := 0
	for {
		word, ok := shortWord(src, at)
		n, end := word.length, at+word.length
		if !ok || count == words || room < 1+n || cap(out)-len(out) <= longPiece {
			break
		}
		if count == 0 && len(out) > s.begun+s.walked {
			s.walk.text(out[s.begun+s.walked:])
		}
		count++
		room -= 1 + n
		begun := len(out) + 1
		out = out[:begun+n]
		out[begun-1] = ' '
		space := out[begun : begun+longPiece]
		binary.LittleEndian.PutUint64(space, word.first)
		binary.LittleEndian.PutUint64(space[8:], word.last)
		s.walk.word(word.hash(), word.stem(), word.letter())
		s.piece, taken = n, end
		if at = end + 1; at >= len(src) || src[end] != ' ' || asciiClass[src[at]] != classLetter {
			break
		}
	}
	if count > 0 {
		s.out, s.walked = out, len(out)-s.begun
		s.segments, s.splits, s.chars = s.segments+count, s.splits+count, s.maxChars-room
		s.sep, s.ended, s.last, s.attach, s.script, s.marks = sepNone, false, lastLetter, attachAlpha, scriptLatin, 0
	}
	return taken
}

// matchPhrases has the phrases meet the word of letters that has just been written, from src[at:end], if they have met all words before it and it
// is whole.
func (s *scanner) matchPhrases(src []byte, at, end int) {
	if s.walk.phrases == nil {
		return
	}
	between := s.out[s.begun+s.walked : len(s.out)-(end-at)]
	if len(between) > 2 {
		return
	}
	for _, b := range between {
		if tokenKinds[b] != tokenBreak {
			return
		}
	}
	if w, ok := shortWord(src, at); ok {
		s.walk.word(w.hash(), w.stem(), w.letter())
		s.walked = len(s.out) - s.begun
	}
}
