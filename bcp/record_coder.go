package bcp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// recordCoder writes records and checkpoints, or reads them.
//
// Written are members that are not empty, in the order of their type, numbers in their
// shortest form: the bytes that the library would write, as a test checks. For each record
// the library looks up which members are empty.
//
// Read is what was written, and what is kept is copied. The members may come in any order,
// numbers in any width that holds them, and members that are not known are passed over, as
// the library does; the library also takes nil and one type for another, and cuts numbers
// that are too great: all that is damage here. Once something is, nothing more is read, and
// what was read is worth nothing.
//
// A checkpoint also has fields that are not exported, each left out if it is empty, and Go
// maps: a list of the keys, each with its value behind it, in the order of their bytes. No
// member of it may be unknown.
type recordCoder struct {
	b      []byte // what is written, or still to be read
	bad    bool
	strict bool // it is a checkpoint
}

// recordMember is a member of the map that a struct is in a record: its tag names it, as
// msgpack:"key", and says with omitempty that it is left out if it is empty.
type recordMember struct {
	key    string
	field  []int // of the struct, as package reflect has it
	always bool
	hidden bool           // not exported: reflect alone would not set it
	of     []recordMember // of the struct that it is, or points to, or is a list or map of
}

// open returns a field as one that can be read and set.
func (m *recordMember) open(f reflect.Value) reflect.Value {
	if m.hidden {
		return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
	}
	return f
}

// The members of records, and of what is sealed in them.
var (
	decisionMembers = membersOf(reflect.TypeFor[Decision]())
	privateMembers  = membersOf(reflect.TypeFor[Private]())
	ledgerMembers   = membersOf(reflect.TypeFor[ledgerRecord]())
)

// membersOf returns the members of a struct, or of what a type points to or is a list or map
// of; none of anything else, and of a time.
func membersOf(t reflect.Type) []recordMember {
	if known, ok := allMembers.Load(t); ok {
		return known.([]recordMember)
	}
	members := findMembers(t)
	allMembers.Store(t, members)
	return members
}

var allMembers sync.Map // by their types

func findMembers(t reflect.Type) (members []recordMember) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch key, option, _ := strings.Cut(f.Tag.Get("msgpack"), ","); {
		case key == "-":
		case f.Anonymous && key == "":
			for _, m := range membersOf(f.Type) {
				m.field, m.hidden = append([]int{i}, m.field...), m.hidden || !f.IsExported()
				members = append(members, m)
			}
		default:
			members = append(members, recordMember{cmp.Or(key, f.Name), []int{i}, option != "omitempty" && f.IsExported(), !f.IsExported(), membersOf(f.Type)})
		}
	}
	return members
}

// writeMembers writes the map that a struct is.
func (c *recordCoder) writeMembers(v reflect.Value, members []recordMember) {
	at, n := len(c.b), 0
	for i := range members {
		m := &members[i]
		f := v.FieldByIndex(m.field)
		if !m.always && (f.Kind() == reflect.Slice && f.Len() == 0 || f.IsZero()) {
			continue
		}
		n++
		c.writeText(m.key)
		c.write(m.open(f), m.of)
	}
	var head [9]byte
	c.b = slices.Insert(c.b, at, wire.AppendMsgpack(head[:0], wire.MsgpackMap, uint64(n))...)
}

func (c *recordCoder) write(v reflect.Value, of []recordMember) {
	switch v.Kind() {
	case reflect.Bool:
		c.b = wire.AppendMsgpack(c.b, wire.MsgpackBool, wire.MsgpackTruth(v.Bool()))
	case reflect.Int, reflect.Int64:
		c.b = wire.AppendMsgpack(c.b, wire.MsgpackInt, uint64(v.Int()))
	case reflect.Uint8, reflect.Uint64:
		c.b = wire.AppendMsgpack(c.b, wire.MsgpackUint, v.Uint())
	case reflect.String:
		c.writeText(v.String())
	case reflect.Array:
		c.writeBytes(v.Bytes())
	case reflect.Pointer:
		c.write(v.Elem(), of)
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			c.writeTime(*t)
			return
		}
		c.writeMembers(v, of)
	case reflect.Map:
		c.writeMap(v, of)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			c.writeBytes(v.Bytes())
			return
		}
		c.writeHead(wire.MsgpackArray, v.Len())
		for i := range v.Len() {
			c.write(v.Index(i), of)
		}
	default:
		panic("a record has no " + v.Type().String())
	}
}

// readMembers reads a map into the struct that it is. Members that were written come in
// their order: each is looked for behind the one before first.
func (c *recordCoder) readMembers(v reflect.Value, members []recordMember) {
	next := 0
	for range c.readLength(wire.MsgpackMap) {
		key, found := c.readText(), -1
		for i := range members {
			if at := (next + i) % len(members); string(key) == members[at].key {
				found = at
				break
			}
		}
		switch {
		case found >= 0:
			m := &members[found]
			c.read(m.open(v.FieldByIndex(m.field)), m.of)
			next = found + 1
		case c.strict:
			c.fail()
		default:
			c.skip()
		}
		if c.bad {
			return
		}
	}
}

func (c *recordCoder) read(v reflect.Value, of []recordMember) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(c.readHead(wire.MsgpackBool) == 1)
	case reflect.Int, reflect.Int64:
		n, negative := c.readNumber()
		if (int64(n) < 0) != negative || v.OverflowInt(int64(n)) {
			c.fail()
		}
		v.SetInt(int64(n))
	case reflect.Uint8, reflect.Uint64:
		n, negative := c.readNumber()
		if negative || v.OverflowUint(n) {
			c.fail()
		}
		v.SetUint(n)
	case reflect.String:
		v.SetString(string(c.readText()))
	case reflect.Array:
		b := c.readBytes()
		if len(b) != v.Len() {
			c.fail()
		}
		copy(v.Bytes(), b)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		c.read(v.Elem(), of)
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			if *t = c.readTime(); c.strict {
				*t = t.UTC()
			}
			return
		}
		c.readMembers(v, of)
	case reflect.Map:
		c.readMap(v, of)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(bytes.Clone(c.readBytes()))
			return
		}
		c.readList(v, of)
	}
}

// readList reads a list. One of structs comes once: the library would mix a second one with
// the first.
func (c *recordCoder) readList(v reflect.Value, of []recordMember) {
	n := c.readLength(wire.MsgpackArray)
	if of != nil && !v.IsNil() {
		c.fail()
	}
	v.SetZero()
	for i := 0; i < n && !c.bad; i++ {
		v.Grow(1)
		v.SetLen(i + 1)
		c.read(v.Index(i), of)
	}
}

// writeMap writes the entries of a map.
func (c *recordCoder) writeMap(v reflect.Value, of []recordMember) {
	key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	var all recordCoder
	entries := make([][2]int, 0, v.Len()) // where they begin and end
	for each := v.MapRange(); each.Next(); {
		key.SetIterKey(each)
		value.SetIterValue(each)
		begin := len(all.b)
		all.write(key, membersOf(key.Type()))
		all.write(value, of)
		entries = append(entries, [2]int{begin, len(all.b)})
	}
	slices.SortFunc(entries, func(a, b [2]int) int { return bytes.Compare(all.b[a[0]:a[1]], all.b[b[0]:b[1]]) })
	c.bad = c.bad || all.bad
	c.writeHead(wire.MsgpackArray, 2*len(entries))
	for _, entry := range entries {
		c.b = append(c.b, all.b[entry[0]:entry[1]]...)
	}
}

// readMap reads what writeMap wrote.
func (c *recordCoder) readMap(v reflect.Value, of []recordMember) {
	n := c.readLength(wire.MsgpackArray)
	v.Set(reflect.MakeMap(v.Type()))
	var last []byte
	for ; n > 0 && !c.bad; n -= 2 {
		key, value, begin := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem(), c.b
		c.read(key, membersOf(key.Type()))
		if b := begin[:len(begin)-len(c.b)]; n == 1 || last != nil && bytes.Compare(last, b) >= 0 {
			c.fail()
		} else {
			last = b
		}
		c.read(value, of)
		v.SetMapIndex(key, value)
	}
}

// writeHead writes the length of what follows, which has 32 bits.
func (c *recordCoder) writeHead(kind wire.MsgpackKind, n int) {
	c.bad = c.bad || uint64(n) > math.MaxUint32
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

func (c *recordCoder) fail() { c.b, c.bad = nil, true }

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

// readNumber returns a number as the bits of a uint64, or of an int64 below zero.
func (c *recordCoder) readNumber() (n uint64, negative bool) {
	kind, n, size := wire.MsgpackHead(c.b)
	if size == 0 || kind != wire.MsgpackUint && kind != wire.MsgpackInt {
		c.fail()
		return 0, false
	}
	c.b = c.b[size:]
	return n, kind == wire.MsgpackInt && int64(n) < 0
}

// readTime reads what writeTime wrote.
func (c *recordCoder) readTime() time.Time {
	switch b := c.b; {
	case len(b) >= 6 && string(b[:2]) == "\xd6\xff":
		c.b = b[6:]
		return time.Unix(int64(binary.BigEndian.Uint32(b[2:])), 0)
	case len(b) >= 10 && string(b[:2]) == "\xd7\xff":
		c.b = b[10:]
		n := binary.BigEndian.Uint64(b[2:])
		return time.Unix(int64(n&(1<<34-1)), int64(n>>34))
	case len(b) >= 15 && string(b[:3]) == "\xc7\x0c\xff":
		c.b = b[15:]
		return time.Unix(int64(binary.BigEndian.Uint64(b[7:])), int64(binary.BigEndian.Uint32(b[3:])))
	}
	c.fail()
	return time.Time{}
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
}
