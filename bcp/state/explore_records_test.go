package state_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// record is one record of a journal, with all that came before it: a journal is
// its newest record. The same decisions after the same record are the same pointer.
type record struct {
	prev      *record
	count     int    // of decisions, with those before
	writer    string // the start of its gateway
	said      []message
	decisions [][]byte

	wrong   error // it does not replay to the state that its gateway had
	books   books
	effects []effect   // what is released once it is stored
	outbox  []delivery // what waits for the Controller then, oldest first
	queries []string   // what waits for the Reader then
	due     time.Time  // when time alone decides something, zero for never
	form    form

	next map[step]*record
}

// step is what makes a record of the one before.
type step struct {
	writer string
	now    int8
	first  message
	second message // zero for none
	start  bool
}

// effect is what one decision lets somebody hear.
type effect struct {
	said    message
	query   string // that is dispatched to the Reader
	outcome string // that the sender of a request or push hears
	verdict bool   // its approver hears that it counted
}

// archive makes records: it is the game of a cast.
type archive struct {
	config state.Config
	revert revert
	cast   cast
	form   former
	root   *record
}

func newArchive(r revert, c cast) *archive {
	a := &archive{config: configuration(), revert: r, cast: c, form: newFormer()}
	a.root = &record{}
	must(a.describe(a.root))
	return a
}

// replay reads the journal up to r into a new state, as a start does.
func (a *archive) replay(r *record) (*state.State, error) {
	s := must(state.New(a.config))
	var chain []*record
	for ; r != nil; r = r.prev {
		chain = append(chain, r)
	}
	for i := len(chain) - 1; i >= 0; i-- {
		for _, b := range chain[i].decisions {
			d, err := open(b)
			if err != nil {
				return nil, err
			}
			if err := s.Apply(&d, bcp.RecordDigest(b)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func open(record []byte) (bcp.Decision, error) {
	d, err := bcp.DecodeDecision(record)
	if err == nil {
		err = d.Open(sealingKey)
	}
	return d, err
}

// next decides what the step says on the state after base, as a gateway does that
// is about to write: each decision on the state that the one before left, and then
// what is due. It returns nil if there is nothing to record.
func (a *archive) next(base *record, by step) *record {
	if r, made := base.next[by]; made {
		return r
	}
	r := a.decide(base, by)
	if base.next == nil {
		base.next = make(map[step]*record)
	}
	base.next[by] = r
	return r
}

func (a *archive) decide(base *record, by step) *record {
	s := must(a.replay(base))
	r := &record{prev: base, writer: by.writer}
	add := func(m message, d bcp.Decision, body []byte) {
		var err error
		if len(body) > 0 {
			err = d.SealRaw(sealingKey, body)
		}
		if d.Says() {
			err = errors.Join(err, d.Seal(sealingKey))
		}
		b := must(bcp.EncodeDecision(&d))
		r.said, r.decisions = append(r.said, m), append(r.decisions, b)
		if err = errors.Join(err, s.Apply(&d, bcp.RecordDigest(b))); err != nil {
			panic(err)
		}
	}
	if by.start {
		add(message{}, s.DecideStart(momentOf(s, by), "test"), nil)
	}
	for _, m := range [2]message{by.first, by.second} {
		if m.kind == nothing {
			continue
		}
		d, body, recorded := m.decide(s, momentOf(s, by), a.revert.forgetful, base.books.requestOf(m.id))
		if !recorded {
			continue
		}
		if a.revert.unrecorded && m.kind == decideItem {
			if d.Verdict == bcp.Accept {
				r.effects = append(r.effects, effect{said: m, verdict: true})
			}
			continue
		}
		add(m, d, body)
	}
	for !by.start {
		d, due := s.DecideDue(momentOf(s, by))
		if !due {
			break
		}
		if len(r.decisions) == maxBatch {
			panic("a due item is still due after it was decided")
		}
		add(message{}, d, nil)
	}
	if len(r.decisions) == 0 && len(r.effects) == 0 {
		return nil
	}
	a.settle(r, must(s.Checkpoint()))
	return r
}

// moved is r's record as it stands in the journal if that let it in after tip,
// whatever its gateway had expected.
func (a *archive) moved(tip, r *record) *record {
	if tip == r.prev {
		return r
	}
	m := &record{prev: tip, writer: r.writer, said: r.said, decisions: r.decisions}
	a.settle(m, nil)
	return m
}

// maxBatch is more than a record of this world can need.
const maxBatch = 32

var errDiffers = errors.New("the gateway's state differs from the replayed journal")

// settle replays a new record and notes what follows from it. Live is the state of
// its gateway, which has to be the same.
func (a *archive) settle(r *record, live []byte) {
	r.count = r.prev.count + len(r.decisions)
	r.books = r.prev.books.after(r)
	if r.wrong = r.prev.wrong; r.wrong != nil {
		return
	}
	s, err := a.describe(r)
	if r.wrong = err; err == nil && live != nil && !bytes.Equal(live, must(s.Checkpoint())) {
		r.wrong = errDiffers
	}
}

// describe replays r and notes what others may hear of it. It returns the state.
func (a *archive) describe(r *record) (*state.State, error) {
	s, err := a.replay(r)
	if err != nil {
		return nil, err
	}
	for _, out := range s.Outbox(channel) {
		r.outbox = append(r.outbox, delivery{id: string(out.DeliveryID), query: string(out.QueryID), outcome: string(out.Outcome),
			digest: sha256.Sum256(must(bcp.Encode(out.Delivery, bcp.JSON)))})
	}
	for _, id := range s.OpenQueries(mail) {
		r.queries = append(r.queries, string(id))
	}
	if at, ok := s.NextDue(); ok {
		r.due = at
	}
	for i, b := range r.decisions {
		d, err := open(b)
		if err != nil {
			return nil, err
		}
		e := effect{said: r.said[i]}
		switch d.Kind {
		case bcp.KindAsk, bcp.KindPush:
			e.outcome = outcomeOf(&d)
			if d.Kind == bcp.KindAsk && d.Verdict == bcp.Accept && !d.Repeat {
				e.query = string(d.Query)
			}
		case bcp.KindApproval:
			e.verdict = d.Verdict == bcp.Accept
		}
		r.effects = append(r.effects, e)
	}
	r.form = a.form.of(s)
	return s, nil
}

// outcomeOf is what the sender of a request or push hears.
func outcomeOf(d *bcp.Decision) string {
	return fmt.Sprintf("%s %s %s %s", d.Verdict, d.Code, d.Query, d.Nominal)
}

// momentOf gives a decision its time, and ids that nobody else makes: of the start
// of its writer, and of its own number.
func momentOf(s *state.State, by step) bcp.Moment {
	fresh := fmt.Sprintf("%s%s%03d", idMark, by.writer, s.Last()+1)
	m := bcp.Moment{Now: clock(by.now), Fresh: fresh}
	sum := digest([]byte(fresh))
	copy(m.Salt[:], sum[:])
	return m
}

func clock(now int8) time.Time { return midnight.Add(time.Duration(now) * tick) }
