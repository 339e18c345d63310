package bcp

import (
	"bytes"
	"math"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// recordReader reads what recordWriter wrote, and copies what it keeps. The
// members may come in any order, numbers in any width that holds them, and
// members that it does not know are passed over, as the library does; the
// library also takes nil and one type for another, and cuts numbers that are too
// great: all that is damage here. Once something is, nothing more is read, and
// what was read is worth nothing.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) fail() { r.b, r.bad = nil, true }

// take returns the next n bytes, which are not copied, and nil where they are
// not there.
func (r *recordReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// code returns the byte that a value begins with, and if there is none the
// only one that begins no value.
func (r *recordReader) code() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0xc1
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// size reads what putSize wrote after the code.
func (r *recordReader) size(bytes uint64) (n uint64) {
	for _, c := range r.take(bytes) {
		n = n<<8 | uint64(c)
	}
	return n
}

// number returns a number as the bits of a uint64, or of an int64 below zero.
func (r *recordReader) number() (n uint64, negative bool) {
	switch c := r.code(); {
	case c <= math.MaxInt8:
		return uint64(c), false
	case c >= 0xe0:
		return uint64(int8(c)), true
	case c >= 0xcc && c <= 0xcf:
		return r.size(1 << (c - 0xcc)), false
	case c >= 0xd0 && c <= 0xd3:
		bytes := uint64(1) << (c - 0xd0)
		unused := 64 - 8*bytes
		signed := int64(r.size(bytes)<<unused) >> unused
		return uint64(signed), signed < 0
	}
	r.fail()
	return 0, false
}

func (r *recordReader) uint(v *uint64) {
	n, negative := r.number()
	if negative {
		r.fail()
	}
	*v = n
}

func readInt[T ~int | ~int64 | ~uint8](r *recordReader, v *T) {
	n, negative := r.number()
	*v = T(n)
	if uint64(*v) != n || (*v < 0) != negative {
		r.fail()
	}
}

func (r *recordReader) flag(v *bool) {
	c := r.code()
	if c != 0xc2 && c != 0xc3 {
		r.fail()
	}
	*v = c == 0xc3
}

// text returns the bytes of a text, which are not copied.
func (r *recordReader) text() []byte {
	if len(r.b) > 0 { // most are short, as keys are
		if n := int(r.b[0] ^ 0xa0); n < 32 && n < len(r.b) {
			text := r.b[1 : n+1]
			r.b = r.b[n+1:]
			return text
		}
	}
	switch c := r.code(); {
	case c&0xe0 == 0xa0:
		return r.take(uint64(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return r.take(r.size(1 << (c - 0xd9)))
	}
	r.fail()
	return nil
}

func readText[T ~string](r *recordReader, v *T) { *v = T(r.text()) }

// binary returns bytes, which are not copied.
func (r *recordReader) binary() []byte {
	c := r.code()
	if c < 0xc4 || c > 0xc6 {
		r.fail()
		return nil
	}
	return r.take(r.size(1 << (c - 0xc4)))
}

func (r *recordReader) bytes(v *[]byte) { *v = bytes.Clone(r.binary()) }

// exactly reads as many bytes as v has.
func (r *recordReader) exactly(v []byte) {
	b := r.binary()
	if len(b) != len(v) {
		r.fail()
	}
	copy(v, b)
}

// length reads what putLength wrote. As every value has a byte or more, there
// are no more of them than bytes.
func (r *recordReader) length(short, code byte) int {
	n := uint64(math.MaxUint64)
	switch c := r.code(); {
	case c&0xf0 == short:
		n = uint64(c & 0x0f)
	case c == code, c == code+1:
		n = r.size(2 << (c - code))
	}
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// members returns how many a map has, each of them a key and a value.
func (r *recordReader) members() int { return r.length(0x80, 0xde) }

// skip passes over the value of a member that is not known.
func (r *recordReader) skip() {
	rest, ok := wire.SkipMsgpack(r.b, maxRecordDepth-1)
	if !ok {
		r.fail()
		return
	}
	r.b = rest
}

func (r *recordReader) texts(v *[]string) {
	texts := make([]string, r.length(0x90, 0xdc))
	for i := range texts {
		readText(r, &texts[i])
	}
	*v = texts
}

func readPointer[T any](r *recordReader, v **T, read func(*recordReader, *T)) {
	if *v == nil {
		*v = new(T)
	}
	read(r, *v)
}

// readList reads a list that comes once: the library would mix a second one with
// the first.
func readList[T any](r *recordReader, v *[]T, read func(*recordReader, *T)) {
	n := r.length(0x90, 0xdc)
	if *v != nil {
		r.fail()
	}
	for range n {
		var one T
		read(r, &one)
		if r.bad {
			return
		}
		*v = append(*v, one)
	}
}
