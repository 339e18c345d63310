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
		c.members = c.readLength(wire.MsgpackMap) + 1
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
		n := uint64(0)
		if *v {
			n = 1
		}
		c.b = wire.AppendMsgpack(c.b, wire.MsgpackBool, n)
		return
	}
	*v = c.readHead(wire.MsgpackBool) == 1
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
		c.writeHead(wire.MsgpackArray, len(*v))
		for _, s := range *v {
			c.writeText(s)
		}
		return
	}
	*v = make([]string, c.readLength(wire.MsgpackArray))
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
		kind := wire.MsgpackUint
		if *v < 0 {
			kind = wire.MsgpackInt
		}
		c.b = wire.AppendMsgpack(c.b, kind, uint64(*v))
		return
	}
	kind, n, size := wire.MsgpackHead(c.b)
	c.take(uint64(size))
	*v = T(n)
	negative := kind == wire.MsgpackInt && int64(n) < 0
	if size == 0 || kind != wire.MsgpackUint && kind != wire.MsgpackInt || uint64(*v) != n || (*v < 0) != negative {
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
		c.writeHead(wire.MsgpackArray, len(*v))
		for i := range *v {
			recordStruct(c, &(*v)[i], list)
		}
		return
	}
	n := c.readLength(wire.MsgpackArray)
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

// writeHead writes the length of what follows.
func (c *recordCoder) writeHead(kind wire.MsgpackKind, n int) {
	c.b = wire.AppendMsgpack(c.b, kind, uint64(n))
}

func (c *recordCoder) writeText(s string) {
	c.writeHead(wire.MsgpackText, len(s))
	c.b = append(c.b, s...)
}

func (c *recordCoder) writeBytes(b []byte) {
	c.writeHead(wire.MsgpackBytes, len(b))
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

// readHead returns the number of a head that has to be of a kind.
func (c *recordCoder) readHead(kind wire.MsgpackKind) uint64 {
	found, n, size := wire.MsgpackHead(c.b)
	if size == 0 || found != kind {
		c.fail()
		return 0
	}
	c.b = c.b[size:]
	return n
}

// readText returns the bytes of a text, which are not copied.
func (c *recordCoder) readText() []byte { return c.take(c.readHead(wire.MsgpackText)) }

// readBytes returns bytes, which are not copied.
func (c *recordCoder) readBytes() []byte { return c.take(c.readHead(wire.MsgpackBytes)) }

// readLength returns how many values follow. As each has a byte or more, there are no more
// of them than bytes.
func (c *recordCoder) readLength(kind wire.MsgpackKind) int {
	n := c.readHead(kind)
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
