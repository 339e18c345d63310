package bcp

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// recordCoder writes records, or reads them: each type lists its members once, for both.
//
// Written are members that are not empty, in the order of their list, numbers in their
// shortest form: the bytes that the library would write, as a test checks. For each record
// the library looks up which members are empty.
//
// Read is what was written, and what is kept is copied. The members may come in any order,
// numbers in any width that holds them, and members that are not known are passed over, as
// the library does; the library also takes nil and one type for another, and cuts numbers
// that are too great: all that is damage here. Once something is, nothing more is read, and
// what was read is worth nothing.
type recordCoder struct {
	b       []byte // what is written, or still to be read
	writes  bool
	always  bool   // the next member is written even if it is empty
	members int    // of the map at hand: those written, or still to be read
	key     []byte // of the member to be read next
	bad     bool
}

// A list of members, as [Decision] has it, goes through these.

// required has the next member written even if it is empty.
func (c *recordCoder) required() *recordCoder {
	c.always = true
	return c
}

// lacks reports whether the next member of the map at hand is another one. It is all that
// most members cost, since most are empty: it has to be inlined.
func (c *recordCoder) lacks(key string, empty bool) bool {
	if c.writes {
		return empty && !c.always
	}
	return len(c.key) != len(key) || c.key[0] != key[0] || string(c.key) != key
}

// begin writes the key of a member that is not lacking.
func (c *recordCoder) begin(key string) {
	c.always = false
	c.members++
	c.b = append(append(c.b, 0xa0|byte(len(key))), key...)
}

// next reads the key of the next member of the map at hand, if there is one.
func (c *recordCoder) next() {
	c.members--
	if c.key = nil; c.members > 0 {
		c.key = c.readText()
	}
}

// recordMap is a map at hand, and what was at hand before it.
type recordMap struct {
	at, outer int
	left      int // members when it was last walked
	walked    bool
}

// done reports whether all members of the map at hand are read.
func (c *recordCoder) done() bool { return !c.writes && c.members <= 0 }

// open begins a map. Its members are walked while [recordCoder.walk] says so: once to write
// them; to read them once if they stand in the order of their list, as they were written.
// What walks calls the list itself: through a function value all would be on the heap.
func (c *recordCoder) open() recordMap {
	m := recordMap{at: len(c.b), outer: c.members}
	if c.writes {
		c.b, c.members = append(c.b, 0xde, 0, 0), 0
	} else {
		c.members = c.readLength(0x80, 0xde) + 1
		c.next()
	}
	return m
}

// walk reports whether the members of a map are to be walked, and ends the map if not.
func (c *recordCoder) walk(m *recordMap) bool {
	switch {
	case c.writes && !m.walked:
		m.walked = true
		return true
	case c.writes:
		c.endMap(m.at)
	default:
		if m.walked && m.left == c.members {
			c.skip()
		}
		if m.walked, m.left = true, c.members; c.members > 0 {
			return true
		}
	}
	if !c.bad {
		c.members = m.outer
	}
	return false
}

// endMap writes how many members the map at an offset has, which has room for any number.
func (c *recordCoder) endMap(at int) {
	const room = 3
	if c.members > 15 {
		c.b[at+1], c.b[at+2] = byte(c.members>>8), byte(c.members)
		return
	}
	c.b[at] = 0x80 | byte(c.members)
	c.b = append(c.b[:at+1], c.b[at+room:]...)
}

// The members of a list of members.

func (c *recordCoder) flag(key string, v *bool) {
	if c.lacks(key, !*v) {
		return
	}
	if c.writes {
		c.begin(key)
		code := byte(0xc2)
		if *v {
			code = 0xc3
		}
		c.b = append(c.b, code)
		return
	}
	code := c.readCode()
	if code != 0xc2 && code != 0xc3 {
		c.fail()
	}
	*v = code == 0xc3
	c.next()
}

func (c *recordCoder) digest(key string, v *Digest) {
	if !c.lacks(key, v.IsZero()) {
		c.exactly(key, v[:])
	}
}

// array is always written.
func (c *recordCoder) array(key string, v []byte) {
	if !c.lacks(key, false) {
		c.exactly(key, v)
	}
}

// exactly is a member of as many bytes as v has.
func (c *recordCoder) exactly(key string, v []byte) {
	if c.writes {
		c.begin(key)
		c.writeBytes(v)
		return
	}
	b := c.readBytes()
	if len(b) != len(v) {
		c.fail()
	}
	copy(v, b)
	c.next()
}

func (c *recordCoder) texts(key string, v *[]string) {
	if c.lacks(key, len(*v) == 0) {
		return
	}
	if c.writes {
		c.begin(key)
		c.writeLength(0x90, 0xdc, len(*v))
		for _, s := range *v {
			c.writeText(s)
		}
		return
	}
	*v = make([]string, c.readLength(0x90, 0xdc))
	for i := range *v {
		(*v)[i] = string(c.readText())
	}
	c.next()
}

func recordText[T ~string](c *recordCoder, key string, v *T) {
	if c.lacks(key, *v == "") {
		return
	}
	if c.writes {
		c.begin(key)
		c.writeText(string(*v))
		return
	}
	*v = T(c.readText())
	c.next()
}

func recordInt[T ~int | ~int64 | ~uint8 | ~uint64](c *recordCoder, key string, v *T) {
	if c.lacks(key, *v == 0) {
		return
	}
	if c.writes {
		c.begin(key)
		c.writeNumber(uint64(*v), *v < 0)
		return
	}
	n, negative := c.readNumber()
	*v = T(n)
	if uint64(*v) != n || (*v < 0) != negative {
		c.fail()
	}
	c.next()
}

func recordBytes[T ~[]byte](c *recordCoder, key string, v *T) {
	if c.lacks(key, len(*v) == 0) {
		return
	}
	if c.writes {
		c.begin(key)
		c.writeBytes(*v)
		return
	}
	*v = bytes.Clone(c.readBytes())
	c.next()
}

func recordPointer[T any](c *recordCoder, key string, v **T, list func(*T, *recordCoder)) {
	if c.lacks(key, *v == nil) {
		return
	}
	if c.writes {
		c.begin(key)
		recordStruct(c, *v, list)
		return
	}
	if *v == nil {
		*v = new(T)
	}
	recordStruct(c, *v, list)
	c.next()
}

// recordList is a list that comes once: the library would mix a second one with the first.
func recordList[T any](c *recordCoder, key string, v *[]T, list func(*T, *recordCoder)) {
	if c.lacks(key, len(*v) == 0) {
		return
	}
	if c.writes {
		c.begin(key)
		c.writeLength(0x90, 0xdc, len(*v))
		for i := range *v {
			recordStruct(c, &(*v)[i], list)
		}
		return
	}
	n := c.readLength(0x90, 0xdc)
	if *v != nil {
		c.fail()
	}
	for range n {
		var one T
		recordStruct(c, &one, list)
		if c.bad {
			return
		}
		*v = append(*v, one)
	}
	c.next()
}

// recordStruct is a map that few records have: for it alone a coder is on the heap.
func recordStruct[T any](c *recordCoder, v *T, list func(*T, *recordCoder)) {
	inner := *c
	for m := inner.open(); inner.walk(&m); {
		list(v, &inner)
	}
	*c = inner
}

// writeNumber writes the bits of a number.
func (c *recordCoder) writeNumber(n uint64, negative bool) {
	switch signed := int64(n); {
	case negative && signed >= -32:
		c.b = append(c.b, byte(n))
	case negative && signed >= math.MinInt8:
		c.b = append(c.b, 0xd0, byte(n))
	case negative && signed >= math.MinInt16:
		c.writeSize(0xd1, 2, n)
	case negative && signed >= math.MinInt32:
		c.writeSize(0xd2, 4, n)
	case negative:
		c.writeSize(0xd3, 8, n)
	case n <= math.MaxInt8:
		c.b = append(c.b, byte(n))
	case n <= math.MaxUint8:
		c.b = append(c.b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		c.writeSize(0xcd, 2, n)
	case n <= math.MaxUint32:
		c.writeSize(0xce, 4, n)
	default:
		c.writeSize(0xcf, 8, n)
	}
}

// writeSize writes a code and the lowest bytes of n, the highest of them first.
func (c *recordCoder) writeSize(code byte, bytes int, n uint64) {
	c.b = append(c.b, code)
	for i := bytes - 1; i >= 0; i-- {
		c.b = append(c.b, byte(n>>(8*i)))
	}
}

func (c *recordCoder) writeText(s string) {
	switch n := len(s); {
	case n < 32:
		c.b = append(c.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		c.b = append(c.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		c.writeSize(0xda, 2, uint64(n))
	default:
		c.writeSize(0xdb, 4, uint64(n))
	}
	c.b = append(c.b, s...)
}

func (c *recordCoder) writeBytes(b []byte) {
	switch n := len(b); {
	case n <= math.MaxUint8:
		c.b = append(c.b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		c.writeSize(0xc5, 2, uint64(n))
	default:
		c.writeSize(0xc6, 4, uint64(n))
	}
	c.b = append(c.b, b...)
}

// writeTime writes a timestamp of MessagePack, in the shortest of its three forms.
func (c *recordCoder) writeTime(t time.Time) {
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond())
	switch {
	case seconds <= math.MaxUint32 && nanoseconds == 0:
		c.b = append(c.b, 0xd6, 0xff)
		c.b = binary.BigEndian.AppendUint32(c.b, uint32(seconds))
	case seconds>>34 == 0:
		c.b = append(c.b, 0xd7, 0xff)
		c.b = binary.BigEndian.AppendUint64(c.b, nanoseconds<<34|seconds)
	default:
		c.b = append(c.b, 0xc7, 12, 0xff)
		c.b = binary.BigEndian.AppendUint32(c.b, uint32(nanoseconds))
		c.b = binary.BigEndian.AppendUint64(c.b, seconds)
	}
}

func (c *recordCoder) writeLength(short, code byte, n int) {
	switch {
	case n < 16:
		c.b = append(c.b, short|byte(n))
	case n <= math.MaxUint16:
		c.writeSize(code, 2, uint64(n))
	default:
		c.writeSize(code+1, 4, uint64(n))
	}
}

func (c *recordCoder) fail() { c.b, c.members, c.key, c.bad = nil, 0, nil, true }

// take returns the next n bytes, which are not copied, and nil where they are not there.
func (c *recordCoder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// readCode returns the byte that a value begins with, and if there is none the only one
// that begins no value.
func (c *recordCoder) readCode() byte {
	if len(c.b) == 0 {
		c.fail()
		return 0xc1
	}
	code := c.b[0]
	c.b = c.b[1:]
	return code
}

// readSize reads what writeSize wrote after the code.
func (c *recordCoder) readSize(bytes uint64) (n uint64) {
	for _, one := range c.take(bytes) {
		n = n<<8 | uint64(one)
	}
	return n
}

// readNumber returns a number as the bits of a uint64, or of an int64 below zero.
func (c *recordCoder) readNumber() (n uint64, negative bool) {
	switch code := c.readCode(); {
	case code <= math.MaxInt8:
		return uint64(code), false
	case code >= 0xe0:
		return uint64(int8(code)), true
	case code >= 0xcc && code <= 0xcf:
		return c.readSize(1 << (code - 0xcc)), false
	case code >= 0xd0 && code <= 0xd3:
		bytes := uint64(1) << (code - 0xd0)
		unused := 64 - 8*bytes
		signed := int64(c.readSize(bytes)<<unused) >> unused
		return uint64(signed), signed < 0
	}
	c.fail()
	return 0, false
}

// readText returns the bytes of a text, which are not copied.
func (c *recordCoder) readText() []byte {
	if len(c.b) > 0 { // most are short, as keys are
		if n := int(c.b[0] ^ 0xa0); n < 32 && n < len(c.b) {
			text := c.b[1 : n+1]
			c.b = c.b[n+1:]
			return text
		}
	}
	switch code := c.readCode(); {
	case code&0xe0 == 0xa0:
		return c.take(uint64(code & 0x1f))
	case code >= 0xd9 && code <= 0xdb:
		return c.take(c.readSize(1 << (code - 0xd9)))
	}
	c.fail()
	return nil
}

// readBytes returns bytes, which are not copied.
func (c *recordCoder) readBytes() []byte {
	code := c.readCode()
	if code < 0xc4 || code > 0xc6 {
		c.fail()
		return nil
	}
	return c.take(c.readSize(1 << (code - 0xc4)))
}

// readLength reads what writeLength wrote. As every value has a byte or more, there are no
// more of them than bytes.
func (c *recordCoder) readLength(short, code byte) int {
	n := uint64(math.MaxUint64)
	switch first := c.readCode(); {
	case first&0xf0 == short:
		n = uint64(first & 0x0f)
	case first == code, first == code+1:
		n = c.readSize(2 << (first - code))
	}
	if n > uint64(len(c.b)) {
		c.fail()
		return 0
	}
	return int(n)
}

// maxRecordDepth is the depth of a decision: files in a list in a map.
const maxRecordDepth = 4

// skip passes over a member that no list has: its key is read.
func (c *recordCoder) skip() {
	rest, ok := wire.SkipMsgpack(c.b, maxRecordDepth-1)
	if !ok {
		c.fail()
		return
	}
	c.b = rest
	c.next()
}
