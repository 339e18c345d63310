package mesh

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Gateways share the shards of a mesh evenly. Each announces itself to the others and
// watches the leases. An unserved shard goes to the gateway that serves the fewest; a
// gateway that serves two more than another gives one back.

const (
	// fleetGrace is how long an unserved shard is reserved for the gateways that
	// serve fewer; then any may take it.
	fleetGrace = 2 * jetstream.LeaseTime
	// fleetPause is the minimum time between two shards that a gateway gives back,
	// and the time without arrivals and departures that it waits for first.
	fleetPause = 2 * jetstream.LeaseTime
	// fleetAbsence is how long a gateway that could not serve takes no shard; the time
	// doubles with each failure in a row, up to maxAbsence. While it tries, nobody serves
	// the shard.
	fleetAbsence = 10 * jetstream.LeaseTime
	maxAbsence   = 16 * fleetAbsence
)

// share is the distribution of the shards.
type share struct {
	shards  int
	alive   []string       // gateways, this one among them
	holders map[int]string // by shard, if served
}

func (s share) count(gateway string) int {
	n := 0
	for _, holder := range s.holders {
		if holder == gateway {
			n++
		}
	}
	return n
}

// least returns the smallest number of shards that a gateway serves.
func (s share) least() int {
	least := s.shards
	for _, gateway := range s.alive {
		least = min(least, s.count(gateway))
	}
	return least
}

// gives returns the shard that a gateway should give back: its last one, if it serves
// the most, and two more than another.
func (s share) gives(gateway string) (shard int, ok bool) {
	mine := s.count(gateway)
	if mine < s.least()+2 {
		return 0, false
	}
	for _, other := range s.alive {
		if n := s.count(other); n > mine || n == mine && other < gateway {
			return 0, false
		}
	}
	for k, holder := range s.holders {
		if holder == gateway {
			shard = max(shard, k)
		}
	}
	return shard, true
}

// coordinator is one gateway's view of all gateways. A nil coordinator is for a
// mesh with one shard, which any gateway may take. Its methods may be used
// concurrently.
type coordinator struct {
	bucket natsjs.KeyValue
	name   string
	shards int
	log    hclog.Logger

	mu      sync.Mutex
	heard   map[string]time.Time // other gateways, when last seen
	held    map[int]lease        // shards held by others
	mine    map[int]bool         // shards that this gateway serves or is about to take
	free    map[int]time.Time    // since when a shard is unserved
	changed time.Time            // last arrival, departure or return of a shard
	absent  time.Time            // this gateway takes no shard until then
	absence time.Duration        // length of that pause; 0 if it has served since
	shown   bool                 // the others hear of this one
}

type lease struct {
	holder string
	kept   time.Time
}

func newCoordinator(bucket natsjs.KeyValue, name string, shards int, log hclog.Logger) *coordinator {
	return &coordinator{bucket: bucket, name: name, shards: shards, log: log, changed: time.Now(),
		heard: map[string]time.Time{}, held: map[int]lease{}, mine: map[int]bool{}, free: map[int]time.Time{}}
}

// share returns the current distribution, notes unserved shards, and forgets gateways
// that have been away for long. The caller holds the lock.
func (f *coordinator) share(now time.Time) share {
	s := share{shards: f.shards, alive: []string{f.name}, holders: map[int]string{}}
	for name, heard := range f.heard {
		switch silent := now.Sub(heard); {
		case silent < jetstream.LeaseTime:
			s.alive = append(s.alive, name)
		case silent > fleetAbsence:
			delete(f.heard, name)
		}
	}
	for shard, l := range f.held {
		if now.Sub(l.kept) < jetstream.LeaseTime {
			s.holders[shard] = l.holder
		}
	}
	for shard := range f.mine {
		s.holders[shard] = f.name
	}
	for shard := range f.shards {
		if _, taken := s.holders[shard]; taken {
			delete(f.free, shard)
		} else if f.free[shard].IsZero() {
			f.free[shard] = now
		}
	}
	return s
}

// takes reports whether this gateway should take a shard if it is free; the shard then
// counts as taken until left is called.
func (f *coordinator) takes(shard int, now time.Time) bool {
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.share(now)
	since, free := f.free[shard]
	if !free || now.Before(f.absent) && len(s.alive) > 1 {
		return false
	}
	if s.count(f.name) > s.least() && now.Sub(since) < fleetGrace {
		return false
	}
	f.mine[shard] = true
	return true
}

// freed notes that a shard was given back.
func (f *coordinator) freed(shard int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, shard)
}

// shardLost notes that this gateway does not or no longer serves a shard, and why.
func (f *coordinator) shardLost(shard int, err error) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mine, shard)
	if now := time.Now(); err != nil && !jetstream.Unanswered(err) && !now.Before(f.absent) {
		f.absence = min(max(fleetAbsence, 2*f.absence), maxAbsence)
		f.absent = now.Add(f.absence)
	}
}

// serves notes that this gateway was able to serve.
func (f *coordinator) serves() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absence = 0
}

// gives returns the shard that this gateway should give back now.
func (f *coordinator) gives(now time.Time) (shard int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.share(now)
	if now.Sub(f.changed) < fleetPause {
		return 0, false
	}
	for _, since := range f.free {
		if now.Sub(since) < fleetGrace { // somebody is about to take it
			return 0, false
		}
	}
	if shard, ok = s.gives(f.name); ok {
		f.changed = now
	}
	return shard, ok
}

// A gateway publishes the number of shards that it knows under its name. Gateways with
// another number share nothing with this one: they may not be able to serve a free
// shard.
const (
	presencePrefix = "gateway."
	allKeys        = ">"
)

// run announces this gateway, watches the others, and calls give with each shard to
// give back, until ctx ends.
func (f *coordinator) run(ctx context.Context, give func(shard int)) {
	if f == nil {
		return
	}
	ticker := time.NewTicker(leaseKept)
	defer ticker.Stop()
	defer f.announceEnd()
	var watcher natsjs.KeyWatcher
	defer func() {
		if watcher != nil {
			_ = watcher.Stop() // the connection may be gone
		}
	}()
	var updates <-chan natsjs.KeyValueEntry
	for {
		if updates == nil {
			if w, err := f.bucket.Watch(ctx, allKeys); err == nil {
				watcher, updates = w, w.Updates()
			} else if ctx.Err() == nil {
				f.log.Debug("the other gateways are not heard of", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case entry, open := <-updates:
			if !open {
				updates = nil
			} else if entry != nil { // nil: end of the initial values
				f.note(entry, time.Now())
			}
		case now := <-ticker.C:
			f.announce(ctx, now)
			if shard, ok := f.gives(now); ok {
				f.log.Info("giving a shard back", "shard", shard)
				give(shard)
			}
		}
	}
}

// announce tells the others that this gateway is present, or once that it is absent
// because it could not serve.
func (f *coordinator) announce(ctx context.Context, now time.Time) {
	f.mu.Lock()
	absent, shown := now.Before(f.absent), f.shown
	f.shown = !absent
	f.mu.Unlock()
	if absent {
		if shown {
			f.announceEnd()
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseKept)
	defer cancel()
	if _, err := f.bucket.Put(ctx, presencePrefix+f.name, f.presence()); err != nil && ctx.Err() == nil {
		f.log.Debug("the other gateways do not hear of this one", "error", err)
	}
}

func (f *coordinator) presence() []byte { return []byte(strconv.Itoa(f.shards)) }

// announceEnd tells the others that this gateway has left.
func (f *coordinator) announceEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := f.bucket.Delete(ctx, presencePrefix+f.name); err != nil {
		f.log.Debug("the other gateways do not hear that this one is gone", "error", err)
	}
}

// note handles an entry of the bucket about another gateway or a lease.
func (f *coordinator) note(entry natsjs.KeyValueEntry, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := entry.Operation() != natsjs.KeyValuePut
	if name, ok := strings.CutPrefix(entry.Key(), presencePrefix); ok {
		if name == f.name || !gone && !bytes.Equal(entry.Value(), f.presence()) {
			return
		}
		if now.Sub(f.heard[name]) >= jetstream.LeaseTime != gone {
			f.changed = now
		}
		f.heard[name] = now
		if gone {
			delete(f.heard, name)
		}
		return
	}
	shard, ok := jetstream.ShardOfLease(entry.Key())
	if !ok {
		return
	}
	var holder jetstream.LeaseHolder
	if gone || json.Unmarshal(entry.Value(), &holder) != nil || holder.Gateway == f.name {
		delete(f.held, shard)
		return
	}
	f.held[shard] = lease{holder: holder.Gateway, kept: now}
}
