package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// block is one frame with decisions. Everything that depends only on the block
// is in check, which may run concurrently for several blocks.
type block struct {
	payload []byte
	offset  int64
	first   uint64 // the expected number
	count   int    // in the frame's header

	// What check finds.
	decisions  uint64 // how many there are in front of the fault
	begin, end decision
	follow     bool // each follows the one before
	nodes      []node
	kinds      [256]uint64
	channels   map[string]*uint64 // by controller, zero byte, reader
	fault      *Fault
}

// decision is what is compared with neighbouring decisions.
type decision struct {
	number           uint64
	within           int
	time             int64
	previous, digest Hash // digest is the hash of the tree's leaf, too
}

const lengthBytes = 4 // in front of the content of a block, and of each decision

// load makes it the block of a payload, which begins with the number of
// decisions in four bytes.
func (b *block) load(payload []byte, offset int64, first uint64) bool {
	b.payload, b.offset, b.first = payload, offset, first
	if len(payload) < lengthBytes {
		return false
	}
	count := binary.BigEndian.Uint32(payload)
	b.count = int(count)
	return count > 0 && count <= MaxBlock && first <= maxNumber-uint64(count)
}

func (b *block) check() {
	b.decisions, b.follow = 0, true
	b.kinds, b.channels = [256]uint64{}, make(map[string]*uint64)
	w := b.walk()
	defer w.end()
	leaves := append(w.room.leaves[:0], 0) // the byte that subtrees needs
	var channel [256]byte
	for w.next() {
		if b.decisions == 0 {
			b.begin = w.decision
		} else if w.previous != b.end.digest || w.time < b.end.time {
			b.follow = false
		}
		b.end = w.decision
		b.decisions++
		leaves = append(leaves, w.digest[:]...)
		b.kinds[w.kind]++
		if len(w.controller) > 0 && len(w.reader) > 0 {
			name := append(append(append(channel[:0], w.controller...), 0), w.reader...)
			if n := b.channels[string(name)]; n != nil {
				*n++
			} else if one := uint64(1); len(b.channels) <= maxChannels { // more are refused
				b.channels[string(name)] = &one
			}
		}
	}
	b.fault = w.fault
	b.nodes = subtrees(b.nodes[:0], b.first-1, leaves)
	w.room.leaves = leaves
}

// room is the buffer for an unpacked block. Blocks share rooms, so that memory
// is needed only for the blocks that are checked at the same time, and caches
// stay small.
type room struct {
	unpack  *zstd.Decoder
	content []byte
	leaves  []byte
}

var rooms = sync.Pool{New: func() any { return new(room) }}

func (r *room) load(packed []byte) (err error) {
	if r.unpack == nil {
		if r.unpack, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBlock)); err != nil {
			return err
		}
	}
	content, err := r.unpack.DecodeAll(packed, r.content[:0])
	if err == nil {
		r.content = content
	}
	return err
}

// walk iterates over the decisions of a block, up to its end or the first
// invalid one. It has a room until it ends.
type walk struct {
	block  *block
	room   *room
	rest   []byte // of the content
	at     int    // offset of rest
	passed int
	fault  *Fault

	// The decision that next found.
	decision
	kind               uint64
	controller, reader []byte // in the room
}

func (b *block) walk() walk {
	w := walk{block: b, room: rooms.Get().(*room)}
	if err := w.room.load(b.payload[lengthBytes:]); err != nil {
		w.fail(b.first, -1, "the block cannot be unpacked")
		return w
	}
	w.rest = w.room.content
	return w
}

func (w *walk) end() { rooms.Put(w.room) }

func (w *walk) next() bool {
	due := w.block.first + uint64(w.passed)
	switch {
	case w.fault != nil:
		return false
	case len(w.rest) == 0 && w.passed == w.block.count:
		return false
	case len(w.rest) == 0:
		return w.fail(due, -1, fmt.Sprintf("the block announces %d decisions and holds %d", w.block.count, w.passed))
	case len(w.rest) < lengthBytes || uint64(len(w.rest)-lengthBytes) < uint64(binary.BigEndian.Uint32(w.rest)):
		return w.fail(due, w.at, "it is cut")
	}
	size := lengthBytes + int(binary.BigEndian.Uint32(w.rest))
	bytes := w.rest[lengthBytes-1 : size]
	m, ok := readMembers(bytes[1:])
	switch {
	case !ok || m.kind >= uint64(len(w.block.kinds)) || len(m.controller) > 63 || len(m.reader) > 63:
		return w.fail(due, w.at, "it cannot be read as a decision")
	case m.number != due:
		return w.fail(due, w.at, fmt.Sprintf("decision %d is in its place", m.number))
	}
	// The digest covers a zero byte and the decision. The length before it has
	// been read, so its last byte can be reused.
	bytes[0] = 0
	w.digest = sha256.Sum256(bytes)
	w.number, w.within, w.time, w.previous = due, w.at, m.time, m.previous
	w.kind, w.controller, w.reader = m.kind, m.controller, m.reader
	w.rest, w.at, w.passed = w.rest[size:], w.at+size, w.passed+1
	return true
}

// fail ends the walk.
func (w *walk) fail(number uint64, within int, reason string) bool {
	w.fault = &Fault{Decision: number, Offset: w.block.offset, Within: within, Reason: reason}
	return false
}
