package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// clientKey stands for where a request_id or push_id is unique, one agent on one
// channel (PROTOCOL P2.6), and for the id. It is half of a SHA-256: an agent that
// found two ids with one key would have one message of its own taken for a
// repeat of another.
type clientKey [16]byte

func newClientKey(d *bcp.Decision) (key clientKey) {
	b := make([]byte, 0, 256)
	b = append(b, byte(d.Role))
	for _, part := range [...]string{string(d.Controller), string(d.Reader), string(d.Client)} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	copy(key[:], sum[:])
	return key
}

// first is the first outcome of a client's id: what its receipt said, and no more.
type first struct {
	digest   [16]byte // half of that of the message, for the reason of clientKey
	time     int64
	nominal  bcp.Bits
	capacity bcp.Bits
	epoch    uint64
	remains  bcp.Bits
	repeats  uint8 // as many as count: see maxRepeats
	verdict  bcp.Outcome
	reason   bcp.Reason
	category bcp.Category
	code     bcp.Code
	field    string
	query    bcp.QueryID
}

// firstOutcomes keeps the first outcome of every client id of a day. There may be
// tens of millions, so each is written into as few bytes as it needs, behind the one
// before, and an index finds it: a map of structs takes more than three times as much.
// There is no pointer to any of them, for the collector of garbage. A checkpoint has the
// chunks as they are.
type firstOutcomes struct {
	chunks []firstChunk // oldest first
	begin  int          // of the oldest outcome, in the first chunk
	base   uint32       `msgpack:"-"` // number of the first
	kept   int          `msgpack:"-"`
	// index has the places of the outcomes in parts by the hashes of their keys, in each part by rest.
	index map[uint16][]outcomePlace `msgpack:"-"`
}

// firstChunk has encoded outcomes, in the order of their times.
type firstChunk struct {
	began   int64 // time of the first; the others are written as the difference to it
	encoded []byte
}

// outcomePlace is where an outcome is: its chunk, whose number wraps around when the oldest
// are long forgotten, and the bytes before it there. In the index it has more of the key's
// hash: most of the same part are told apart by it, and the others by the key itself, which is
// in front of the outcome.
type outcomePlace struct {
	chunk    uint32
	at, rest uint16
}

const (
	indexParts = 1 << 12
	chunkBytes = 1 << 16
	// firstMost bounds an encoded outcome without its words.
	firstMost = len(clientKey{}) + len(first{}.digest) + 2 + 9*binary.MaxVarintLen64
)

func (f *firstOutcomes) chunk(place outcomePlace) *firstChunk { return &f.chunks[place.chunk-f.base] }

// at returns the encoded outcome in a place, and what follows in its chunk.
func (f *firstOutcomes) at(place outcomePlace) []byte { return f.chunk(place).encoded[place.at:] }

// oldest is the place of the oldest outcome.
func (f *firstOutcomes) oldest() outcomePlace {
	return outcomePlace{chunk: f.base, at: uint16(f.begin)}
}

// read returns the outcome in a place, its key, and the place behind it; false for what is none.
func (f *firstOutcomes) read(place outcomePlace) (key clientKey, one first, next outcomePlace, ok bool) {
	one, size := decodeFirst(f.at(place), f.chunk(place).began)
	if size == 0 {
		return key, one, next, false
	}
	next = outcomePlace{chunk: place.chunk + 1}
	if end := int(place.at) + size; end < len(f.chunk(place).encoded) {
		next = outcomePlace{chunk: place.chunk, at: uint16(end)}
	}
	return clientKey(f.at(place)), one, next, true
}

// indexSeed is of this process, as that of a map: nobody chooses ids that are all in one part.
var indexSeed = maphash.MakeSeed()

// inIndex returns the part of the index that a key is in, and what tells it apart there.
func (key clientKey) inIndex() (part, rest uint16) {
	sum := maphash.Comparable(indexSeed, key)
	return uint16(sum) % indexParts, uint16(sum >> 16)
}

// find returns where the place of a key's outcome is in the index, or would be.
func (f *firstOutcomes) find(key clientKey) (part uint16, i int, ok bool) {
	part, rest := key.inIndex()
	places := f.index[part]
	i, _ = slices.BinarySearchFunc(places, rest, func(p outcomePlace, rest uint16) int { return cmp.Compare(p.rest, rest) })
	for ; i < len(places) && places[i].rest == rest; i++ {
		if clientKey(f.at(places[i])) == key {
			return part, i, true
		}
	}
	return part, i, false
}

// get returns the first outcome of a key.
func (f *firstOutcomes) get(key clientKey) (one first, ok bool) {
	part, i, ok := f.find(key)
	if ok {
		_, one, _, _ = f.read(f.index[part][i])
	}
	return one, ok
}

// add keeps an outcome of a key that has none. It is no older than those before.
func (f *firstOutcomes) add(key clientKey, one *first) {
	most := firstMost + len(one.code) + len(one.field) + len(one.query)
	if n := len(f.chunks); n == 0 {
		f.chunks = append(f.chunks, firstChunk{began: one.time})
	} else if len(f.chunks[n-1].encoded)+most > chunkBytes {
		f.chunks = append(f.chunks, firstChunk{one.time, make([]byte, 0, chunkBytes)})
	}
	last := len(f.chunks) - 1
	chunk := &f.chunks[last]
	place := outcomePlace{chunk: f.base + uint32(last), at: uint16(len(chunk.encoded))}
	chunk.encoded = one.encode(append(chunk.encoded, key[:]...), chunk.began)
	f.note(key, place)
}

// note adds to the index.
func (f *firstOutcomes) note(key clientKey, place outcomePlace) {
	if f.index == nil {
		f.index = make(map[uint16][]outcomePlace)
	}
	f.kept++
	_, place.rest = key.inIndex()
	part, i, _ := f.find(key)
	places := f.index[part]
	if n := len(places); n == cap(places) { // append would double it
		places = append(make([]outcomePlace, 0, n+n/8+1), places...)
	}
	f.index[part] = slices.Insert(places, i, place)
}

// restore finds what a checkpoint has. It is false for what is damaged.
func (f *firstOutcomes) restore() bool {
	last := int64(0)
	for place, begin := f.oldest(), f.begin; int(place.chunk) < len(f.chunks); begin = int(place.at) {
		if n := len(f.chunk(place).encoded); begin < 0 || begin >= n || n > chunkBytes {
			return false
		}
		key, one, next, ok := f.read(place)
		if _, _, twice := f.find(key); !ok || twice || one.time < last || one.repeats > maxRepeats {
			return false
		}
		f.note(key, place)
		place, last = next, one.time
	}
	return f.kept > 0 || f.begin == 0
}

// forget drops what is older than clientMemory.
func (f *firstOutcomes) forget(now int64) {
	for f.kept > 0 {
		key, one, next, _ := f.read(f.oldest())
		if now-one.time < clientMemory {
			return
		}
		if f.kept--; f.kept == 0 {
			*f = firstOutcomes{}
			return
		}
		part, i, _ := f.find(key)
		f.index[part] = slices.Delete(f.index[part], i, i+1)
		if next.chunk != f.base {
			f.chunks[0] = firstChunk{}
			f.chunks, f.base = f.chunks[1:], next.chunk
		}
		f.begin = int(next.at)
	}
}

// The byte in front of an encoded outcome: its verdict, its category, and what follows.
const (
	firstWords     = 1 << 7 // code, field, query
	firstRemains   = 1 << 6
	firstReason    = 1 << 5
	verdictBits    = 3
	repeatsAt      = len(clientKey{}) + len(first{}.digest)
	firstNumbersAt = repeatsAt + 2
)

// encode writes the outcome behind its key.
func (o *first) encode(b []byte, began int64) []byte {
	head := byte(o.category)<<verdictBits | byte(o.verdict)
	if o.code != "" || o.field != "" || o.query != "" {
		head |= firstWords
	}
	if o.remains != 0 {
		head |= firstRemains
	}
	if o.reason != 0 {
		head |= firstReason
	}
	b = append(append(b, o.digest[:]...), o.repeats, head)
	for _, n := range [...]uint64{uint64(o.time - began), uint64(o.nominal), uint64(o.capacity), o.epoch} {
		b = binary.AppendUvarint(b, n)
	}
	if head&firstRemains != 0 {
		b = binary.AppendUvarint(b, uint64(o.remains))
	}
	if head&firstReason != 0 {
		b = binary.AppendUvarint(b, uint64(o.reason))
	}
	if head&firstWords != 0 {
		for _, word := range [...]string{string(o.code), o.field, string(o.query)} {
			b = append(binary.AppendUvarint(b, uint64(len(word))), word...)
		}
	}
	return b
}

// decodeFirst reads an encoded outcome and its key, and returns how long they are; 0 for what
// is none.
func decodeFirst(b []byte, began int64) (o first, size int) {
	if len(b) < firstNumbersAt {
		return o, 0
	}
	rest, whole := b[firstNumbersAt:], true
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		whole = whole && size > 0
		rest = rest[max(0, size):]
		return n
	}
	word := func() string {
		n := number()
		if whole = whole && n <= uint64(len(rest)); !whole {
			return ""
		}
		s := string(rest[:n])
		rest = rest[n:]
		return s
	}
	copy(o.digest[:], b[len(clientKey{}):])
	head := b[repeatsAt+1]
	o.repeats, o.verdict, o.category = b[repeatsAt], bcp.Outcome(head&(1<<verdictBits-1)), bcp.Category(head>>verdictBits&3)
	o.time, o.nominal, o.capacity, o.epoch = began+int64(number()), bcp.Bits(number()), bcp.Bits(number()), number()
	if head&firstRemains != 0 {
		o.remains = bcp.Bits(number())
	}
	if head&firstReason != 0 {
		o.reason = bcp.Reason(number())
	}
	if head&firstWords != 0 {
		o.code, o.field, o.query = bcp.Code(word()), word(), bcp.QueryID(word())
	}
	if !whole {
		return o, 0
	}
	return o, len(b) - len(rest)
}

// remember keeps the first outcome of a client id.
func (s *State) remember(d *bcp.Decision) {
	s.firsts.forget(d.Time)
	if d.Client == "" {
		return
	}
	key := newClientKey(d)
	if _, _, known := s.firsts.find(key); known {
		return
	}
	s.firsts.add(key, &first{
		digest: [16]byte(d.ClientDigest[:]), time: d.Time, verdict: d.Verdict, reason: d.Reason, category: d.Category,
		nominal: d.Nominal, capacity: d.Capacity, epoch: d.Epoch, remains: d.Remaining, code: d.Code, field: d.Field, query: d.Query,
	})
}

// repeat counts a repeat.
func (s *State) repeat(d *bcp.Decision) {
	if part, i, known := s.firsts.find(newClientKey(d)); known {
		if n := &s.firsts.at(s.firsts.index[part][i])[repeatsAt]; *n < maxRepeats {
			*n++
		}
	}
}

// repeated answers a message whose client id was decided before with the first
// outcome; the same id over other bytes is malformed (PROTOCOL P2.6).
func (s *State) repeated(d *bcp.Decision) bool {
	if d.Client == "" {
		return false
	}
	before, ok := s.firsts.get(newClientKey(d))
	if !ok || d.Time-before.time >= clientMemory {
		return false
	}
	if before.digest != [16]byte(d.ClientDigest[:]) {
		*d = refuse(*d, bcp.CheckRepeat, bcp.Malformed)
		return true
	}
	d.Repeat, d.Verdict, d.Code, d.Reason, d.Field = true, before.verdict, before.code, before.reason, before.field
	d.Query, d.Category, d.Nominal, d.Capacity = before.query, before.category, before.nominal, before.capacity
	d.Epoch, d.Remaining = before.epoch, before.remains
	key, _ := d.Channel()
	if ch := s.channels[key]; ch != nil { // nothing is moved
		d.Balance = ch.pool(d.Epoch)
	}
	return true
}
