package state_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// action is one thing that may happen next.
type action struct {
	kind actionKind
	n    int8 // which gateway, or which late record
	said message
}

type actionKind int8

const (
	opens    actionKind = iota + 1 // the gateway reads the journal and writes its start
	takes                          // it decides a message and writes the record
	joins                          // the message came in time for the record that is being written
	hears                          // the journal's answer comes
	timesOut                       // no acknowledgement comes in time
	lands                          // a late record reaches the journal
	crashes                        // the gateway ends, with all that it knows
	passes                         // the lease
	timePasses
)

var actionWords = [...]string{"", "opens", "takes", "joins", "hears", "times out", "lands", "crashes", "passes", "time passes"}

func (a action) String() string {
	what := "gateway " + letters[a.n%2] + " " + actionWords[a.kind]
	if a.kind == takes || a.kind == joins {
		what += ": " + a.said.String()
	}
	return what
}

// cast says who plays: a smaller one is searched further.
type cast struct {
	requests, pushes []int8
	approvers        int8
	standby          bool // there is gateway B
	clock            bool // time may pass
	batches          bool // two messages may come in one record
}

var everybody = cast{requests: []int8{0, 1}, pushes: []int8{0, 1}, approvers: 2, standby: true, clock: true, batches: true}

// actions are all that may happen now.
func (a *archive) actions(w *world) (all []action) {
	add := func(kind actionKind, n int, said message) { all = append(all, action{kind, int8(n), said}) }
	messages := a.cast.messages(w)
	for n := range w.gateways {
		if n > 0 && !a.cast.standby {
			break
		}
		switch g := &w.gateways[n]; g.phase {
		case down:
			if int(w.lease) == n {
				add(opens, n, message{})
			}
		case reading:
			add(opens, n, message{})
		case serving:
			for _, m := range messages {
				add(takes, n, m)
			}
			if !g.base.due.IsZero() && !g.base.due.After(clock(w.now)) {
				add(takes, n, message{})
			}
			add(crashes, n, message{})
		case writing:
			if a.cast.batches && g.by.second.kind == nothing && g.by.first.kind != nothing && !g.blind && !a.revert.early {
				for _, m := range messages {
					if m != g.by.first {
						add(joins, n, m)
					}
				}
			}
			fallthrough
		case starting:
			add(hears, n, message{})
			add(timesOut, n, message{})
			add(crashes, n, message{})
		}
	}
	for i := range w.late {
		add(lands, i, message{})
	}
	if a.cast.standby {
		add(passes, 0, message{})
	}
	if a.cast.clock && w.now == 0 {
		add(timePasses, 0, message{})
	}
	return all
}

// messages are what somebody may send now.
func (c *cast) messages(w *world) (all []message) {
	for _, n := range c.requests {
		if w.sent[0][n] < maxSends {
			all = append(all, message{kind: ask, n: n})
		}
	}
	for _, n := range c.pushes {
		if w.sent[1][n] < maxSends {
			all = append(all, message{kind: push, n: n})
		}
	}
	for _, q := range w.heard.queries {
		open := w.tip.books.query(q.id)
		if q.times < maxSends || open != nil && open.open {
			all = append(all, message{kind: answer, n: min(q.times, maxSends-1), id: q.id})
		}
	}
	for _, d := range w.heard.deliveries {
		all = append(all, message{kind: acknowledge, id: d.id})
	}
	for _, it := range w.tip.books.items {
		for n := range c.approvers {
			if w.sent[2][n] < maxSends || it.decided == 0 {
				all = append(all, message{kind: decideItem, n: n, id: it.id})
			}
		}
	}
	return all
}

// send notes that a message was sent once more.
func (w *world) send(m message) {
	switch m.kind {
	case ask, push:
		w.sent[m.kind-ask][m.n]++
	case decideItem:
		w.sent[2][m.n] = min(w.sent[2][m.n]+1, maxSends)
	case answer:
		for i := range w.heard.queries {
			if q := &w.heard.queries[i]; q.id == m.id {
				q.times = min(q.times+1, maxSends)
			}
		}
	}
}

// after is the world after an action; it is false if that changes nothing.
func (a *archive) after(w *world, act action) (*world, bool) {
	w = w.clone()
	switch act.kind {
	case opens:
		a.open(w, act.n)
	case takes, joins:
		w.send(act.said)
		if !a.take(w, act.n, act.said) {
			return nil, false
		}
	case hears:
		a.reply(w, act.n)
	case timesOut:
		a.timeout(w, act.n)
	case lands:
		a.land(w, int(act.n))
	case crashes:
		w.crash(act.n)
	case passes:
		w.lease = 1 - w.lease
	case timePasses:
		w.now++
	}
	if !a.revert.unguarded {
		w.late = slices.DeleteFunc(w.late, func(r *record) bool { return r.prev != w.tip })
	}
	for i := 1; i < len(w.late); i++ {
		if slices.Contains(w.late[:i], w.late[i]) {
			w.late = slices.Delete(w.late, i, i+1)
		}
	}
	return w, true
}

// check returns the promises that the world breaks.
func (a *archive) check(w *world) []breach {
	found := slices.Concat(w.tip.books.breaches, w.breaches)
	if w.tip.wrong != nil {
		found = append(found, breach{replays, fmt.Sprintf("after %d decisions: %v", w.tip.count, w.tip.wrong)})
	}
	for n := range w.gateways {
		g := &w.gateways[n]
		if g.phase != serving && g.phase != writing {
			continue
		}
		if !w.tip.has(g.base) {
			found = append(found, breach{replays, fmt.Sprintf("gateway %s serves from a record that the journal does not have", letters[n])})
		}
	}
	return found
}

// rests reports whether nothing is left to do: the gateway with the lease serves from
// the newest record, and nobody waits for anything.
func (a *archive) rests(w *world) bool {
	g, other := &w.gateways[w.lease], &w.gateways[1-w.lease]
	if g.phase != serving || g.base != w.tip || other.phase != down || len(w.late) > 0 || len(w.tip.queries) > 0 || len(w.tip.outbox) > 0 {
		return false
	}
	return !slices.ContainsFunc(w.tip.books.items, func(it bookedItem) bool { return it.decided == 0 })
}

// ends reports whether the journal makes no state any more.
func (a *archive) ends(w *world) bool { return w.tip.wrong != nil }

// has reports whether the journal has a record.
func (r *record) has(other *record) bool {
	for ; r != nil; r = r.prev {
		if r == other {
			return true
		}
	}
	return false
}

// key is the same for two worlds that differ in names alone. With fences, a gateway
// that another one followed is one like any such: whatever it decides is refused, and
// it releases nothing.
func (a *archive) key(w *world) [16]byte {
	fences := a.revert == revert{} // they are whole
	k := keyWriter{b: make([]byte, 0, 1024)}
	k.number(int(w.now))
	k.number(int(w.lease))
	k.record(w.tip)
	for n := range w.gateways {
		g := &w.gateways[n]
		k.number(int(g.phase))
		if g.phase == down || g.phase == reading {
			continue
		}
		if stale := g.base != w.tip; stale && fences {
			k.number(-1)
			continue
		}
		k.place(g.base, w.tip)
		if g.waiting != nil {
			k.place(g.waiting.prev, w.tip)
			k.record(g.waiting)
			k.batch(g.by)
		}
	}
	k.number(len(w.late))
	slices.SortFunc(w.late, func(a, b *record) int { return bytes.Compare(a.form.shape[:], b.form.shape[:]) })
	for _, r := range w.late {
		k.place(r.prev, w.tip)
		k.record(r)
	}
	for _, row := range w.sent {
		k.b = append(k.b, byte(row[0]), byte(row[1]))
	}
	k.heard(&w.heard)
	k.books(&w.tip.books)
	sum := sha256.Sum256(k.b)
	return [16]byte(sum[:])
}

// keyWriter writes a world down with its ids numbered as they come up.
type keyWriter struct {
	b   []byte
	ids []string
}

func (k *keyWriter) number(n int) { k.b = binary.AppendVarint(k.b, int64(n)) }

func (k *keyWriter) id(id string) {
	i := slices.Index(k.ids, id)
	if i < 0 {
		i = len(k.ids)
		k.ids = append(k.ids, id)
	}
	k.number(i)
}

// text writes a text whose ids are numbered.
func (k *keyWriter) text(s string) {
	shape, ids := nameless([]byte(s))
	k.b = append(k.b, shape[:]...)
	for _, id := range ids {
		k.id(id)
	}
}

func (k *keyWriter) record(r *record) {
	k.b = append(k.b, r.form.shape[:]...)
	for _, id := range r.form.ids {
		k.id(id)
	}
}

// place writes a record that may be the newest.
func (k *keyWriter) place(r, tip *record) {
	if r == tip {
		k.number(1)
		return
	}
	k.number(0)
	k.record(r)
}

func (k *keyWriter) batch(by step) {
	for _, m := range [2]message{by.first, by.second} {
		k.b = append(k.b, byte(m.kind), byte(m.n))
		k.text(m.id)
	}
}

func (k *keyWriter) heard(h *heard) {
	for _, row := range h.outcomes {
		k.text(row[0])
		k.text(row[1])
	}
	k.number(len(h.queries))
	for _, q := range h.queries {
		k.text(q.id)
		k.number(int(q.times))
	}
	k.number(len(h.deliveries))
	for _, d := range h.deliveries {
		k.text(d.id)
		k.text(d.query + d.outcome)
	}
	k.number(len(h.verdicts))
	for _, v := range h.verdicts {
		k.text(v)
	}
}

func (k *keyWriter) books(b *books) {
	k.number(int(b.settled))
	k.number(int(b.reserved))
	for _, q := range b.queries {
		k.text(q.id)
		k.b = append(k.b, byte(q.request), bit(q.open), bit(q.ended), byte(q.finals))
	}
	for _, row := range b.outcomes {
		k.text(row[0])
		k.text(row[1])
	}
	for _, it := range b.items {
		k.text(it.id)
		k.number(it.decided)
	}
	k.number(len(b.breaches))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
