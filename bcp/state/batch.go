package state

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	maxBatchBytes = 256 << 10
)

func comparePushed(p bcp.Pushed, other bcp.Pushed) int {
	return cmp.Or(bytes.Compare(p.Response, other.Response), slices.Compare(p.Anomalies, other.Anomalies))
}

// batch is what waits for the end of a window.
type batch struct {
	release  int64 // that end
	since    int64 // when the first was decided
	category bcp.Category
	count    int // also those whose answers were erased
	bytes    int // of the answers
	nominal  bcp.Bits
	capacity bcp.Bits
	timing   bool
	taint    bcp.Taint
	pushes   []bcp.Pushed // in an order that the Reader did not choose: by their bytes
}

func (b *batch) full() bool { return b.count >= bcp.MaxBatchPushes || b.bytes >= maxBatchBytes }

// end is the end of the window of a time.
func (p *pushState) end(at int64) int64 { return at - at%p.window + p.window }

// findBatch returns what waits for an end, or nil.
func (p *pushState) findBatch(release int64) *batch {
	for i := range p.batches {
		if p.batches[i].release == release {
			return &p.batches[i]
		}
	}
	return nil
}

// crowded reports whether the window of now takes no push any more.
func (p *pushState) crowded(now int64) bool {
	if p.window == 0 {
		return false
	}
	b := p.findBatch(p.end(now))
	return b != nil && b.full()
}

// endWithRoom is the end of the first window that takes what a person let through.
func (p *pushState) endWithRoom(now int64) int64 {
	at := p.end(now)
	for b := p.findBatch(at); b != nil && b.full(); b = p.findBatch(at) {
		at += p.window
	}
	return at
}

// addToBatch keeps a push until the end of its window.
func (s *State) addToBatch(d *bcp.Decision, ch *channelState) {
	p := ch.findPushes(d.Subscription)
	b := p.findBatch(d.Release)
	if b == nil {
		at, _ := slices.BinarySearchFunc(p.batches, d.Release, func(b batch, release int64) int { return cmp.Compare(b.release, release) })
		p.batches = slices.Insert(p.batches, at, batch{release: d.Release, since: d.Time, category: d.Category, taint: bcp.TaintLow})
		b = &p.batches[at]
		s.wakeForBatch(ch, d.Subscription, d.Release)
	}
	b.count++
	b.bytes += len(d.Payload)
	b.nominal, b.capacity, b.timing = b.nominal+d.Nominal, b.capacity+d.Capacity, d.Timing
	b.taint = bcp.MaxTaint(b.taint, d.Taint)
	if d.Erased {
		return
	}
	pushed := bcp.Pushed{Response: d.Payload}
	if d.Flagged {
		pushed.Anomalies = d.Anomalies
	}
	at, _ := slices.BinarySearchFunc(b.pushes, pushed, comparePushed)
	b.pushes = slices.Insert(b.pushes, at, pushed)
}

func (s *State) wakeForBatch(ch *channelState, id bcp.SubscriptionID, release int64) {
	s.addTimer(timer{at: release, channel: ch.definition.ChannelKey, subscription: id})
}

// decideBatch closes the window that t was set for.
func (s *State) decideBatch(m bcp.Moment, t timer) (bcp.Decision, bool) {
	ch := s.allChannels[t.channel]
	b := ch.findPushes(t.subscription).findBatch(t.at)
	payload, err := json.Marshal(b.pushes, json.Deterministic(true))
	if err != nil {
		return bcp.Decision{}, false
	}
	d := s.next(m, bcp.KindBatch)
	d.Controller, d.Reader, d.Subscription, d.Category, d.Count = t.channel.Controller, t.channel.Reader, t.subscription, b.category, b.count
	d.Payload, d.Delivery, d.Release, d.Place, d.Taint = payload, newDeliveryID(m), b.release, ch.slotPlace(d.Subscription), b.taint
	d.Nominal, d.Capacity, d.Timing, d.Prepaid = b.nominal, b.capacity, b.timing, true
	s.setSession(&d, m, d.Controller, true)
	d.Exposure = bcp.MaxTaint(s.exposureIn(&d), d.Taint)
	d.Epoch = ch.newest()
	d.Balance = ch.pool(d.Epoch)
	return d, true
}

// checkBatch refuses the end of a window that nothing waits for.
func (s *State) checkBatch(d *bcp.Decision, ch *channelState) bool {
	p := ch.pushes[d.Subscription]
	if p == nil || d.Delivery == "" || !d.Prepaid || d.Epoch != ch.newest() {
		return false
	}
	b := p.findBatch(d.Release)
	return b != nil && d.Time >= d.Release && d.Count == b.count && d.Nominal == b.nominal && d.Capacity == b.capacity
}
