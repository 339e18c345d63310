package text

import (
	"encoding/binary"
	"math/bits"
)

// lower appends ASCII letters in lower case. spare is the text that the letters begin, so that eight bytes can be
// read at once.
func lower(dst, letters, spare []byte) []byte {
	if n := len(dst); len(letters) <= 8 && len(spare) >= 8 && cap(dst)-n >= 8 {
		binary.LittleEndian.PutUint64(dst[n:n+8], binary.LittleEndian.Uint64(spare)|smallBits)
		return dst[:n+len(letters)]
	}
	dst = append(dst, letters...)
	out := dst[len(dst)-len(letters):]
	for i := range out {
		out[i] |= 0x20
	}
	return dst
}

// Constants to work on eight bytes at once.
const (
	everyByte = 0x0101010101010101
	smallBits = 0x20 * everyByte // makes ASCII letters small
	highBits  = 0x80 * everyByte
)

// letterRun is the number of ASCII letters that a text begins with, found eight bytes at a time.
func letterRun(text []byte) int {
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(text[n:])
		if others := notLetters(x, x&^highBits|smallBits); others != 0 {
			return n + bits.TrailingZeros64(others)/8
		}
	}
	for n < len(text) && asciiClass[text[n]] == classLetter {
		n++
	}
	return n
}

// notLetters has the high bit of each of eight bytes that is no ASCII letter; small are the bytes as small letters.
func notLetters(x, small uint64) uint64 {
	return ((small + (0x80-'a')*everyByte) &^ (small + (0x80-'z'-1)*everyByte) &^ x & highBits) ^ highBits
}
