package state

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"

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

func (o *first) fields() []any {
	return []any{
		&o.digest, &o.time, &o.nominal, &o.capacity, &o.epoch, &o.remains, &o.repeats, &o.verdict, &o.reason, &o.category, &o.code, &o.field, &o.query,
	}
}

// firstOutcomes keeps the first outcome of every client id of a day. There may be
// tens of millions, so each is written into as few bytes as it needs, behind the one
// before, and an index finds it by its key: a map of structs took four times as much.
// There is no pointer to any of them, for the collector of garbage.
type firstOutcomes struct {
	chunks []firstChunk // oldest first
	base   uint32       // number of the first
	oldest uint32       // place of the oldest outcome
	count  int
	// The index has parts, each of which grows by itself: a message never waits until
	// an index of all of them is made again.
	index []firstIndex
}

// firstChunk has encoded outcomes, in the order of their times.
type firstChunk struct {
	began   int64 // time of the first; the others are written as the difference to it
	encoded []byte
}

// firstIndex is a hash table with linear probing: places of outcomes, 0 for none.
type firstIndex struct {
	places []uint32
	used   int
}

const (
	firstParts = 512
	// A place counts units. It wraps around after eight GiB, when the oldest are long
	// forgotten. The first unit of a chunk is left out, so that no place is 0.
	firstUnit  = 2
	chunkUnits = 1 << 15
	chunkBytes = chunkUnits * firstUnit
	chunkCount = 1 << 32 / chunkUnits // different numbers of chunks
	// firstMost bounds an encoded outcome without its words.
	firstMost = len(clientKey{}) + len(first{}.digest) + 2 + 9*binary.MaxVarintLen64
)

func (f *firstOutcomes) chunk(place uint32) *firstChunk {
	return &f.chunks[(place/chunkUnits-f.base)%chunkCount]
}

// at returns the encoded outcome in a place, and what follows in its chunk.
func (f *firstOutcomes) at(place uint32) []byte {
	return f.chunk(place).encoded[place%chunkUnits*firstUnit:]
}

// after returns the place behind an outcome of a size.
func (f *firstOutcomes) after(place uint32, size int) uint32 {
	next := place%chunkUnits + uint32(size+firstUnit-1)/firstUnit
	if int(next)*firstUnit >= len(f.chunk(place).encoded) {
		return (place/chunkUnits+1)*chunkUnits + 1
	}
	return place - place%chunkUnits + next
}

func (f *firstOutcomes) part(key *clientKey) *firstIndex {
	return &f.index[binary.BigEndian.Uint16(key[:])%firstParts]
}

// slot is where a key is looked for first.
func (i *firstIndex) slot(key *clientKey) int {
	return int(uint64(binary.BigEndian.Uint32(key[4:])) * uint64(len(i.places)) >> 32)
}

func (i *firstIndex) next(slot int) int {
	if slot++; slot == len(i.places) {
		return 0
	}
	return slot
}

// find returns the place of the outcome of a key, 0 if there is none.
func (f *firstOutcomes) find(key *clientKey) uint32 {
	if f.count == 0 {
		return 0
	}
	part := f.part(key)
	if part.used == 0 {
		return 0
	}
	for slot := part.slot(key); ; slot = part.next(slot) {
		if place := part.places[slot]; place == 0 || clientKey(f.at(place)) == *key {
			return place
		}
	}
}

// get returns the first outcome of a key.
func (f *firstOutcomes) get(key clientKey) (first, bool) {
	place := f.find(&key)
	if place == 0 {
		return first{}, false
	}
	one, _ := decodeFirst(f.at(place), f.chunk(place).began)
	return one, true
}

// all returns every outcome, oldest first.
func (f *firstOutcomes) all() iter.Seq2[clientKey, first] {
	return func(yield func(clientKey, first) bool) {
		place := f.oldest
		for range f.count {
			one, size := decodeFirst(f.at(place), f.chunk(place).began)
			if !yield(clientKey(f.at(place)), one) {
				return
			}
			place = f.after(place, size)
		}
	}
}

// code writes or reads every outcome.
func (f *firstOutcomes) code(c *coder) {
	table(c, f.count, f.all(), func(key clientKey, one first) bool {
		ok := f.find(&key) == 0 && one.verdict < 1<<verdictBits && one.category <= 3 && one.repeats <= maxRepeats
		if ok {
			f.add(key, &one)
		}
		return ok
	})
}

// add keeps an outcome of a key that has none. It is no older than those before.
func (f *firstOutcomes) add(key clientKey, one *first) {
	if f.index == nil {
		f.index = make([]firstIndex, firstParts)
	}
	most := firstMost + len(one.code) + len(one.field) + len(one.query)
	if n := len(f.chunks); n == 0 || len(f.chunks[n-1].encoded)+most > chunkBytes {
		chunk := firstChunk{began: one.time, encoded: make([]byte, firstUnit)}
		if n > 0 {
			chunk.encoded = make([]byte, firstUnit, chunkBytes)
		}
		f.chunks = append(f.chunks, chunk)
	}
	last := len(f.chunks) - 1
	chunk := &f.chunks[last]
	place := (f.base+uint32(last))*chunkUnits + uint32(len(chunk.encoded)/firstUnit)
	chunk.encoded = one.encode(append(chunk.encoded, key[:]...), chunk.began)
	if len(chunk.encoded)%firstUnit > 0 {
		chunk.encoded = append(chunk.encoded, 0)
	}
	if f.count++; f.count == 1 {
		f.oldest = place
	}
	part := f.part(&key)
	if 4*(part.used+1) > 3*len(part.places) {
		part.resize(f, len(part.places)+len(part.places)/4+4)
	}
	part.put(f, place)
	part.used++
}

func (i *firstIndex) put(f *firstOutcomes, place uint32) {
	key := clientKey(f.at(place))
	slot := i.slot(&key)
	for i.places[slot] != 0 {
		slot = i.next(slot)
	}
	i.places[slot] = place
}

func (i *firstIndex) resize(f *firstOutcomes, size int) {
	old := i.places
	i.places = make([]uint32, size)
	for _, place := range old {
		if place != 0 {
			i.put(f, place)
		}
	}
}

// remove forgets a place, and puts again what was probed past it.
func (i *firstIndex) remove(f *firstOutcomes, gone uint32) {
	key := clientKey(f.at(gone))
	slot := i.slot(&key)
	for i.places[slot] != gone {
		slot = i.next(slot)
	}
	i.places[slot] = 0
	for slot = i.next(slot); i.places[slot] != 0; slot = i.next(slot) {
		place := i.places[slot]
		i.places[slot] = 0
		i.put(f, place)
	}
	if i.used--; 4*i.used < len(i.places) {
		i.resize(f, len(i.places)/2)
	}
}

// forget drops what is older than clientMemory.
func (f *firstOutcomes) forget(now int64) {
	for f.count > 0 {
		one, size := decodeFirst(f.at(f.oldest), f.chunk(f.oldest).began)
		if now-one.time < clientMemory {
			return
		}
		key, next := clientKey(f.at(f.oldest)), f.after(f.oldest, size)
		f.part(&key).remove(f, f.oldest)
		if f.count--; f.count == 0 {
			*f = firstOutcomes{}
			return
		}
		if next/chunkUnits != f.oldest/chunkUnits {
			f.chunks[0] = firstChunk{}
			f.chunks, f.base = f.chunks[1:], (f.base+1)%chunkCount
		}
		f.oldest = next
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
		b = append(b, byte(o.reason))
	}
	if head&firstWords != 0 {
		for _, word := range [...]string{string(o.code), o.field, string(o.query)} {
			b = append(binary.AppendUvarint(b, uint64(len(word))), word...)
		}
	}
	return b
}

// decodeFirst reads an encoded outcome and its key, and returns how long they are.
func decodeFirst(b []byte, began int64) (o first, size int) {
	rest := b[firstNumbersAt:]
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		rest = rest[size:]
		return n
	}
	word := func() string {
		n := number()
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
		o.reason, rest = bcp.Reason(rest[0]), rest[1:]
	}
	if head&firstWords != 0 {
		o.code, o.field, o.query = bcp.Code(word()), word(), bcp.QueryID(word())
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
	if s.firsts.find(&key) != 0 {
		return
	}
	s.firsts.add(key, &first{
		digest: [16]byte(d.ClientDigest[:]), time: d.Time, verdict: d.Verdict, reason: d.Reason, category: d.Category,
		nominal: d.Nominal, capacity: d.Capacity, epoch: d.Epoch, remains: d.Remaining, code: d.Code, field: d.Field, query: d.Query,
	})
}

// repeat counts a repeat.
func (s *State) repeat(d *bcp.Decision) {
	key := newClientKey(d)
	if place := s.firsts.find(&key); place != 0 {
		if n := &s.firsts.at(place)[repeatsAt]; *n < maxRepeats {
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
