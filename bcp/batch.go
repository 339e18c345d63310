package bcp

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A subscription with a batch_window has the pushes of each window delivered
// together at its end (PROTOCOL P12.3). Windows lie on a grid: they end at the
// multiples of their length since the beginning of 1970 in UTC. Each push is
// decided, charged and recorded when it comes, and says for which end it waits; a
// decision of its own closes the window and makes the delivery.

// What one delivery of a window may hold. Beyond either a push is rate_limited
// until the window ends. The last answer that fits may be as long as any.
const (
	MaxBatchPushes = 256
	maxBatchBytes  = 256 << 10
)

// Pushed is one push of a delivery that has several.
type Pushed struct {
	// Response is the canonical answer.
	Response jsontext.Value `json:"response"`
	// Anomalies are set where the channel flags them.
	Anomalies []string `json:"anomalies,omitempty"`
}

func (p Pushed) compare(other Pushed) int {
	return cmp.Or(bytes.Compare(p.Response, other.Response), slices.Compare(p.Anomalies, other.Anomalies))
}

// batch is what waits for the end of a window.
type batch struct {
	release  int64 // that end
	since    int64 // when the first was decided
	category Category
	count    int // also those whose answers were erased
	bytes    int // of the answers
	nominal  Bits
	capacity Bits
	timing   bool
	taint    Taint
	pushes   []Pushed // in an order that the Reader did not choose: by their bytes
}

func (b *batch) full() bool { return b.count >= MaxBatchPushes || b.bytes >= maxBatchBytes }

// Gathered reports whether the decision accepts a push that waits for the end of
// its window.
func (d *Decision) Gathered() bool {
	return (d.Kind == KindPush || d.Kind == KindApproval) && d.Verdict == Accept && d.Subscription != "" && d.Delivery == "" && d.Release > 0 && !d.Repeat
}

// end is the end of the window of a time.
func (p *pushState) end(at int64) int64 { return at - at%p.window + p.window }

// batchOf returns what waits for an end, or nil.
func (p *pushState) batchOf(release int64) *batch {
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
	b := p.batchOf(p.end(now))
	return b != nil && b.full()
}

// batchRoom is how many pushes the window of now still takes, if they are short.
func (p *pushState) batchRoom(now int64) int {
	switch b := p.batchOf(p.end(now)); {
	case b == nil:
		return MaxBatchPushes
	case b.full():
		return 0
	default:
		return MaxBatchPushes - b.count
	}
}

// endWithRoom is the end of the first window that takes what a person let through.
func (p *pushState) endWithRoom(now int64) int64 {
	at := p.end(now)
	for b := p.batchOf(at); b != nil && b.full(); b = p.batchOf(at) {
		at += p.window
	}
	return at
}

// gather keeps a push until the end of its window.
func (s *State) gather(d *Decision, ch *channelState) {
	p := ch.pushesOf(d.Subscription)
	b := p.batchOf(d.Release)
	if b == nil {
		at, _ := slices.BinarySearchFunc(p.batches, d.Release, func(b batch, release int64) int { return cmp.Compare(b.release, release) })
		p.batches = slices.Insert(p.batches, at, batch{release: d.Release, since: d.Time, category: d.Category, taint: TaintLow})
		b = &p.batches[at]
		s.wakeForBatch(ch, d.Subscription, d.Release)
	}
	b.count++
	b.bytes += len(d.Payload)
	b.nominal, b.capacity, b.timing = b.nominal+d.Nominal, b.capacity+d.Capacity, d.Timing
	b.taint = MaxTaint(b.taint, d.Taint)
	if d.Erased {
		return
	}
	pushed := Pushed{Response: d.Payload}
	if d.Flagged {
		pushed.Anomalies = d.Anomalies
	}
	at, _ := slices.BinarySearchFunc(b.pushes, pushed, Pushed.compare)
	b.pushes = slices.Insert(b.pushes, at, pushed)
}

func (s *State) wakeForBatch(ch *channelState, id SubscriptionID, release int64) {
	s.wake(timer{at: release, channel: ch.definition.ChannelKey, subscription: id})
}

// decideBatch closes the window that t was set for.
func (s *State) decideBatch(m Moment, t timer) (Decision, bool) {
	ch := s.channels[t.channel]
	b := ch.pushesOf(t.subscription).batchOf(t.at)
	if b == nil {
		return Decision{}, false
	}
	payload, err := json.Marshal(b.pushes, json.Deterministic(true))
	if err != nil {
		return Decision{}, false
	}
	d := s.next(m, KindBatch)
	d.Controller, d.Reader, d.Subscription, d.Category, d.Count = t.channel.Controller, t.channel.Reader, t.subscription, b.category, b.count
	d.Payload, d.Delivery, d.Release, d.Place, d.Taint = payload, m.delivery(), b.release, ch.placeOf(d.Subscription), b.taint
	d.Nominal, d.Capacity, d.Timing, d.Prepaid = b.nominal, b.capacity, b.timing, true
	s.sessionOf(&d, m, d.Controller, true)
	d.Exposure = MaxTaint(s.exposureIn(&d), d.Taint)
	d.Epoch = ch.newest()
	d.Balance = ch.pool(d.Epoch)
	return d, true
}

// applyBatch closes a window: what waited for its end is a delivery now.
func (s *State) applyBatch(d *Decision, ch *channelState) {
	p := ch.pushes[d.Subscription]
	p.batches = slices.DeleteFunc(p.batches, func(b batch) bool { return b.release == d.Release })
	s.post(d, ch)
}

// checkBatch refuses the end of a window that nothing waits for.
func (s *State) checkBatch(d *Decision, ch *channelState) bool {
	p := ch.pushes[d.Subscription]
	if p == nil || d.Delivery == "" || !d.Prepaid || d.Epoch != ch.newest() {
		return false
	}
	b := p.batchOf(d.Release)
	return b != nil && d.Time >= d.Release && d.Count == b.count && d.Nominal == b.nominal && d.Capacity == b.capacity
}

// pushed returns the pushes of a batch's delivery.
func (d *Decision) pushed() ([]Pushed, bool) {
	var pushes []Pushed
	err := json.Unmarshal(d.Payload, &pushes, json.RejectUnknownMembers(true))
	return pushes, err == nil && len(pushes) > 0
}

// WindowText writes a window as definitions have it, such as 10m; nothing for none.
func WindowText(window time.Duration) string {
	for i := len(rateUnits) - 1; i >= 0 && window > 0; i-- {
		if unit := rateUnits[i]; window%unit.span == 0 {
			return strconv.FormatInt(int64(window/unit.span), 10) + unit.letter
		}
	}
	return ""
}
