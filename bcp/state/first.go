package state

import (
	"crypto/sha256"
	"encoding/binary"

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

// firstOutcomes keeps the first outcome of every client id of a day. There may
// be millions, so what most of them have is without a pointer: the collector
// of garbage passes over all of it.
type firstOutcomes struct {
	found map[clientKey]first
	words map[clientKey]firstWords // of those that have any
	aging []clientKey              // oldest first
}

func newFirstOutcomes(n int) firstOutcomes {
	return firstOutcomes{found: make(map[clientKey]first, n), words: make(map[clientKey]firstWords), aging: make([]clientKey, 0, n)}
}

// first is the first outcome of a client's id. It is short of the 128 bytes
// beyond which a map keeps its values elsewhere.
type first struct {
	digest   bcp.Digest
	time     int64
	nominal  bcp.Bits
	capacity bcp.Bits
	epoch    uint64
	balance  bcp.Balance
	remains  bcp.Bits
	repeats  uint32
	verdict  bcp.Outcome
	reason   bcp.Reason
	category bcp.Category
}

// firstWords is the rest of it.
type firstWords struct {
	code  bcp.Code
	field string
	query bcp.QueryID
}

func (f *firstOutcomes) add(key clientKey, one first, words firstWords) {
	f.found[key] = one
	if words != (firstWords{}) {
		f.words[key] = words
	}
	f.aging = append(f.aging, key)
}

// forget drops what is older than clientMemory.
func (f *firstOutcomes) forget(now int64) {
	for len(f.aging) > 0 && now-f.found[f.aging[0]].time >= clientMemory {
		delete(f.found, f.aging[0])
		delete(f.words, f.aging[0])
		f.aging = f.aging[1:]
	}
}

// remember keeps the first outcome of a client id.
func (s *State) remember(d *bcp.Decision) {
	s.firsts.forget(d.Time)
	if d.Client == "" {
		return
	}
	key := newClientKey(d)
	if _, known := s.firsts.found[key]; known {
		return
	}
	s.firsts.add(key, first{
		digest: d.ClientDigest, time: d.Time, verdict: d.Verdict, reason: d.Reason, category: d.Category,
		nominal: d.Nominal, capacity: d.Capacity, epoch: d.Epoch, balance: d.Balance, remains: d.Remaining,
	}, firstWords{code: d.Code, field: d.Field, query: d.Query})
}

// repeat counts a repeat.
func (s *State) repeat(d *bcp.Decision) {
	key := newClientKey(d)
	f, known := s.firsts.found[key]
	if !known {
		return
	}
	f.repeats++
	s.firsts.found[key] = f
}

// repeated answers a message whose client id was decided before with the first
// outcome; the same id over other bytes is malformed (PROTOCOL P2.6).
func (s *State) repeated(d *bcp.Decision) bool {
	if d.Client == "" {
		return false
	}
	key := newClientKey(d)
	before, ok := s.firsts.found[key]
	if !ok || d.Time-before.time >= clientMemory {
		return false
	}
	if before.digest != d.ClientDigest {
		*d = refuse(*d, bcp.CheckRepeat, bcp.Malformed)
		return true
	}
	words := s.firsts.words[key]
	d.Repeat, d.Verdict, d.Code, d.Reason, d.Field = true, before.verdict, words.code, before.reason, words.field
	d.Query, d.Category, d.Nominal, d.Capacity = words.query, before.category, before.nominal, before.capacity
	d.Epoch, d.Balance, d.Remaining = before.epoch, before.balance, before.remains
	return true
}
