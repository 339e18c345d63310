package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// decision is what is compared with neighbouring decisions, and what is counted.
type decision struct {
	number             uint64
	within             int // offset in the content of its block
	time               int64
	previous, digest   Hash // digest is the hash of the tree's leaf, too
	kind               uint64
	controller, reader []byte // in the content
}

const (
	lengthBytes = 4 // in front of the content of a block, and of each decision
	maxKind     = 255
)

// unpacker unpacks blocks, one after the other.
type unpacker struct {
	zstd    *zstd.Decoder
	content []byte
}

// walk iterates over the decisions of a block, up to its end or the first
// invalid one.
type walk struct {
	offset int64  // of the block
	first  uint64 // the expected number
	count  int    // that the block announces
	rest   []byte // of the content
	at     int    // offset of rest
	passed int
	fault  *Fault

	decision // that next found
}

// walk begins a block, whose payload has the number of its decisions in four bytes, and then
// these. It is good until the next walk.
func (u *unpacker) walk(payload []byte, offset int64, first uint64) (walk, bool) {
	w := walk{offset: offset, first: first}
	if len(payload) < lengthBytes {
		return w, false
	}
	count := binary.BigEndian.Uint32(payload)
	if w.count = int(count); count == 0 || count > MaxBlock || first > maxNumber-uint64(count) {
		return w, false
	}
	content, err := u.zstd.DecodeAll(payload[lengthBytes:], u.content[:0])
	if err != nil {
		w.fail(first, -1, "the block cannot be unpacked")
		return w, true
	}
	u.content, w.rest = content, content
	return w, true
}

func (w *walk) next() bool {
	due := w.first + uint64(w.passed)
	switch {
	case w.fault != nil:
		return false
	case len(w.rest) == 0 && w.passed == w.count:
		return false
	case len(w.rest) == 0:
		return w.fail(due, -1, fmt.Sprintf("the block announces %d decisions and holds %d", w.count, w.passed))
	case len(w.rest) < lengthBytes || uint64(len(w.rest)-lengthBytes) < uint64(binary.BigEndian.Uint32(w.rest)):
		return w.fail(due, w.at, "it is cut")
	}
	size := lengthBytes + int(binary.BigEndian.Uint32(w.rest))
	bytes := w.rest[lengthBytes-1 : size]
	m, ok := readMembers(bytes[1:])
	switch {
	case !ok || m.kind > maxKind || len(m.controller) > 63 || len(m.reader) > 63:
		return w.fail(due, w.at, "it cannot be read as a decision")
	case m.number != due:
		return w.fail(due, w.at, fmt.Sprintf("decision %d is in its place", m.number))
	}
	// The digest covers a zero byte and the decision. The length before it has
	// been read, so its last byte can be reused.
	bytes[0] = 0
	w.decision = decision{due, w.at, m.time, m.previous, sha256.Sum256(bytes), m.kind, m.controller, m.reader}
	w.rest, w.at, w.passed = w.rest[size:], w.at+size, w.passed+1
	return true
}

// fail ends the walk.
func (w *walk) fail(number uint64, within int, reason string) bool {
	w.fault = &Fault{Decision: number, Offset: w.offset, Within: within, Reason: reason}
	return false
}
