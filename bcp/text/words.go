package text

import (
	"encoding/binary"
	"math/bits"
)

// wordEnds are the bytes that end a word for certain, in the text as received and as normalised: nothing behind one of them
// joins what stands before it.
var wordEnds = [256]bool{' ': true, '\n': true, ',': true, '.': true}

// plainWords takes words of ASCII letters that stand behind one space each, from src[at] on, as plainWord does, and has the
// phrases meet them at once: most words of most texts. It returns the place behind the last one, or at where the word there is none
// of them. What it does not take, such as a word that is one too many, is for the rest of the scanner.
func (s *scanner) plainWords(src []byte, at int) int {
	taken, out := at, s.out
	words := s.maxWords - max(s.segments, s.splits)
	room := s.maxChars - s.chars
	count := 0
	for at+8 <= len(src) {
		x := binary.LittleEndian.Uint64(src[at:])
		small := x&^highBits | smallBits
		n := 8
		if others := notLetters(x, small); others != 0 {
			n = bits.TrailingZeros64(others) / 8
		} else {
			n += letterRun(src[at+8:])
		}
		end := at + n
		if n >= longPiece || count == words || room < 1+n || end < len(src) && !wordEnds[src[end]] || cap(out)-len(out) <= longPiece {
			break
		}
		if count == 0 {
			s.walk.text(out[s.begun+s.walked:])
		}
		count++
		room -= 1 + n
		begun := len(out) + 1
		out = out[:begun+n]
		out[begun-1] = ' '
		binary.LittleEndian.PutUint64(out[begun:begun+8], small)
		for i := 8; i < n; i++ {
			out[begun+i] = src[at+i] | 0x20
		}
		letter := byte(0)
		if n == 1 {
			letter = out[begun]
		}
		s.walk.word(hashWord(out[begun:], out[begun:begun+longPiece]), letter)
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
