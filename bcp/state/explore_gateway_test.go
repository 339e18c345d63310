package state_test

import (
	"fmt"
	"slices"
)

// revert is a gateway, or a journal, that breaks one rule. The zero revert breaks none.
type revert struct {
	early      bool // releases before the record is stored
	unguarded  bool // the journal appends whatever sequence was expected
	forgetful  bool // no client id is remembered
	generous   bool // each start renews the budget
	stubborn   bool // keeps its state after a record that was not acknowledged
	blind      bool // after such a record decides again without reading, and writes that after the newest
	unrecorded bool // what approvers decide is not recorded
	silent     bool // a start sends nothing that waits
}

type phase int8

const (
	down     phase = iota
	reading        // it has to read the journal, since a record of its own was not acknowledged
	starting       // its start is on the way to the journal
	serving
	writing // a record is on the way
)

// gateway is one of the two. It is what package mesh/gateway does around the state:
// open, take, step, recover.
type gateway struct {
	phase   phase
	base    *record // the journal as it knows it
	waiting *record // what it has written and waits for
	by      step    // that made waiting
	blind   bool    // waiting is to be stored after the newest record, whatever that is
}

// world is everything at one moment.
type world struct {
	now      int8
	lease    int8 // which gateway has it
	tip      *record
	gateways [2]gateway
	late     []*record // on the way, and nobody waits for them
	sent     [3][2]int8
	heard    heard
	breaches []breach // of what was released
}

// heard is what left the gateways.
type heard struct {
	outcomes   [2][2]string // of requests and of pushes
	queries    []answered   // that the Reader has
	deliveries []delivery   // that the Controller has
	verdicts   []string     // items of which an approver heard that the act counted
}

type answered struct {
	id    string
	times int8
}

// maxSends is how often a client sends the same, or the Reader answers one query. The
// Reader tries further while a query is open, and approvers while an item waits.
const maxSends = 2

var letters = [2]string{"A", "B"}

func (a *archive) begin() *world {
	return &world{tip: a.root, gateways: [2]gateway{{base: a.root}, {base: a.root}}}
}

func (w *world) clone() *world {
	c := *w
	c.late = slices.Clone(w.late)
	c.heard.queries, c.heard.deliveries, c.heard.verdicts = slices.Clone(w.heard.queries), slices.Clone(w.heard.deliveries), slices.Clone(w.heard.verdicts)
	return &c
}

// open reads the journal and writes that this gateway starts (Gateway.open, take).
func (a *archive) open(w *world, n int8) {
	g := &w.gateways[n]
	g.base = w.tip
	g.by = step{writer: fmt.Sprintf("%s%03d", letters[n], w.tip.count+1), now: w.now, start: true}
	if a.revert.generous {
		g.by.first = message{kind: renew}
	}
	g.phase, g.waiting, g.blind = starting, a.next(w.tip, g.by), false
}

// take decides a message, or only what is due, and writes the record (Gateway.step).
// It is false if there was nothing to record.
func (a *archive) take(w *world, n int8, m message) bool {
	g := &w.gateways[n]
	by := step{writer: g.by.writer, now: w.now, first: m}
	if g.phase == writing { // the message came in time for the same batch
		by = g.by
		by.second = m
	}
	r := a.next(g.base, by)
	if r == nil {
		return false
	}
	g.phase, g.by, g.waiting = writing, by, r
	if a.revert.early {
		w.release(r)
	}
	if len(r.decisions) == 0 { // a revert: nothing is recorded
		w.release(r)
		g.phase, g.waiting = serving, nil
	}
	return true
}

// reply has the journal look at the record that the gateway waits for, and the gateway
// hear of it. Acknowledged, it is released; refused, a gateway that starts reads on and
// tries again, and one that serves steps down.
func (a *archive) reply(w *world, n int8) {
	g := &w.gateways[n]
	switch {
	case a.store(w, g.waiting, g.blind):
		begins := g.phase == starting
		g.base, g.waiting, g.phase, g.blind = w.tip, nil, serving, false
		if !begins || !a.revert.silent {
			w.release(w.tip)
		}
		if begins && !a.revert.silent {
			w.dispatch(w.tip.queries)
		}
	case g.phase == starting:
		a.open(w, n)
	default:
		*g = gateway{base: g.base}
	}
}

// store appends r if its expected sequence is the journal's.
func (a *archive) store(w *world, r *record, anywhere bool) bool {
	if r.prev != w.tip && !anywhere && !a.revert.unguarded {
		return false
	}
	w.tip = a.moved(w.tip, r)
	return true
}

// timeout is the end of the wait for an acknowledgement: the record may be stored, or
// will be, or never is. The gateway throws its state away (Gateway.recover).
func (a *archive) timeout(w *world, n int8) {
	g := &w.gateways[n]
	w.late = append(w.late, g.waiting)
	switch {
	case a.revert.stubborn && g.phase == writing:
		g.base, g.waiting, g.phase = g.waiting, nil, serving
	case a.revert.blind && g.phase == writing && !g.blind:
		g.by.writer = "a" + g.by.writer[1:]
		g.waiting, g.blind = a.next(g.base, g.by), true
	default:
		g.phase, g.waiting, g.blind = reading, nil, false
	}
}

// crash ends a gateway. What it has written may still be stored.
func (w *world) crash(n int8) {
	g := &w.gateways[n]
	if g.waiting != nil {
		w.late = append(w.late, g.waiting)
	}
	*g = gateway{base: g.base}
}

// land stores a late record, or refuses it.
func (a *archive) land(w *world, i int) {
	r := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	a.store(w, r, false)
}

// release has people and agents hear of a record (Gateway.release), and sends what waits.
func (w *world) release(r *record) {
	for _, e := range r.effects {
		switch {
		case e.outcome != "":
			w.tell(e.said, e.outcome)
		case e.verdict:
			w.heard.verdicts = append(w.heard.verdicts, e.said.id)
			if it := w.tip.books.item(e.said.id); it == nil || it.decided == 0 {
				w.broken(recordedFirst, "%s hears that the act on item %s counted, and the journal does not have it", approvers[e.said.n], e.said.id)
			}
			if times := count(w.heard.verdicts, e.said.id); times > 1 {
				w.broken(decidedOnce, "%d acts on item %s counted", times, e.said.id)
			}
		}
		if e.query != "" {
			w.dispatch([]string{e.query})
		}
	}
	for _, d := range r.outbox {
		w.deliver(d)
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func (w *world) broken(promise, format string, args ...any) {
	w.breaches = append(slices.Clip(w.breaches), breach{promise, fmt.Sprintf(format, args...)})
}

// tell has the sender of a request or push hear what became of it.
func (w *world) tell(m message, outcome string) {
	of := &w.heard.outcomes[m.kind-ask][m.n]
	if *of == "" {
		*of = outcome
	}
	if *of != outcome {
		w.broken(oneOutcome, "%s: its sender heard %q before, and hears %q", m, *of, outcome)
	}
	if w.tip.books.outcomes[m.kind-ask][m.n] != outcome {
		w.broken(recordedFirst, "%s: its sender hears %q, and the journal does not have it", m, outcome)
	}
}

func (w *world) dispatch(queries []string) {
	for _, id := range queries {
		if w.tip.books.query(id) == nil {
			w.broken(recordedFirst, "mail gets query %s, and the journal does not have it", id)
		}
		if !slices.ContainsFunc(w.heard.queries, func(q answered) bool { return q.id == id }) {
			w.heard.queries = append(w.heard.queries, answered{id: id})
		}
	}
}

func (w *world) deliver(d delivery) {
	stored := w.tip.hasDelivered(d)
	if !stored {
		w.broken(recordedFirst, "planner gets delivery %s, and the journal does not have it", d.id)
	}
	for _, before := range w.heard.deliveries {
		switch {
		case before == d:
			return
		case before.id == d.id:
			w.broken(oneAnswer, "delivery %s comes with other bytes", d.id)
		case before.query != "" && before.query == d.query && (before.outcome == "held") == (d.outcome == "held"):
			w.broken(oneAnswer, "query %s comes to planner in deliveries %s and %s", d.query, before.id, d.id)
		}
	}
	w.heard.deliveries = append(w.heard.deliveries, d)
}

// hasDelivered reports whether some record of the journal puts the delivery out.
func (r *record) hasDelivered(d delivery) bool {
	for ; r != nil; r = r.prev {
		if slices.Contains(r.outbox, d) {
			return true
		}
	}
	return false
}
