package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// decisionHeader is the number of the newest decision that a projection shows with this
// message: after a restart it continues from there.
const decisionHeader = "Bcp-Decision"

// shownHeader is on the last audit message of a record: the sequence of that
// record, and the newest decision of each other projection.
const shownHeader = "Bcp-Shown"

// projection is a stream of messages derived from decisions without their sealed content:
// a projector has no keys.
type projection struct {
	stream string
	kind   subjects.Kind
	share  int64 // of Topology.MaxDisk, in sixteenths
}

func (p projection) filter() string { return subjects.All(p.kind) }

// audit is the last of the projections: see [tail.project].
var (
	ledger      = projection{LedgerStream, subjects.KindLedger, 1}
	audit       = projection{AuditStream, subjects.KindAudit, 5}
	projections = []projection{ledger, audit}
)

// Projections returns the names of the streams that are derived from the journal.
func Projections() []string {
	names := make([]string, 0, len(projections))
	for _, p := range projections {
		names = append(names, p.stream)
	}
	return names
}

// A projector must not delay decisions: it works while the journal is idle, and
// otherwise once in a while.
const (
	// restTime is the window in which the journal is idle if at most restBytes
	// come, which is some ten decisions. Records are no measure: they hold one
	// decision or hundreds.
	restTime  = 50 * time.Millisecond
	restBytes = 4 << 10
	// gatherTime is the first window, with half as many bytes: whoever has just
	// done something wants to see it.
	gatherTime = 10 * time.Millisecond
	// lateTime is how long a decision waits for the journal to rest.
	lateTime = 3 * time.Second
	// awaitTime is how long a record is waited for at most until the journal is
	// looked at.
	awaitTime = time.Minute
	// retryTime is the pause after an error.
	retryTime = time.Second
	// gatherDecisions is how many decisions are projected together, or a record more.
	gatherDecisions = 2048
	// drainTime is how long a projector goes on after it is told to stop.
	drainTime = 2 * time.Second
)

// Projector keeps the projections up with the journal.
type Projector struct {
	js          natsjs.JetStream
	topology    Topology
	interrupter *Interrupter
	log         hclog.Logger
	shown       atomic.Uint64
}

// NewProjector returns a projector, which creates its streams if necessary. The
// interrupter must be used only by this projector, and tells it that no reply will
// come; a nil logger discards.
func NewProjector(js natsjs.JetStream, topology Topology, asking *Interrupter, log hclog.Logger) *Projector {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	return &Projector{js: js, topology: topology, interrupter: asking, log: log}
}

// Shown returns the number of the newest decision that all projections showed,
// as seen by this projector, 0 before the first. It may be called concurrently
// with Run.
func (p *Projector) Shown() uint64 { return p.shown.Load() }

// Run projects until ctx ends, and then shortly what is left. It retries by
// itself: the projections are off the critical path, and a delay affects only
// people who look at them.
func (p *Projector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.run(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		p.log.Warn("projecting the journal", "error", err)
		if !errors.Is(err, ErrUnanswered) {
			p.pause(ctx)
		}
	}
}

// Project projects until all projections show a decision, or ctx ends. Unlike Run it
// returns the first error.
func (p *Projector) Project(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := make(chan error, 1)
	go func() {
		shown <- Projected(ctx, p.js, last)
		cancel()
	}()
	err := p.run(ctx)
	if ctx.Err() != nil {
		return <-shown
	}
	cancel()
	<-shown
	return err
}

// pause returns when the streams, which may be closed now, are open again.
func (p *Projector) pause(ctx context.Context) {
	_ = p.interrupter.Do(ctx, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(retryTime):
		}
		return nil
	})
}

func (p *Projector) run(ctx context.Context) error {
	var t *tail
	err := p.interrupter.Do(ctx, func(ctx context.Context) (err error) {
		if err = createAll(ctx, p.js, p.topology.projections()); err == nil {
			t, err = p.findTail(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainTime, cancel) })()
	for {
		err := p.interrupter.Do(ctx, t.waitIdle)
		ended := ctx.Err() != nil
		if err != nil && !ended {
			return err
		}
		if err = p.interrupter.Do(working, t.catchUp); err != nil || ended {
			return err
		}
	}
}

// tail is the position of a projector.
type tail struct {
	*Projector
	done     []progress  // of each projection
	standing ledgerState // of the ledger
	next     uint64      // sequence of the next record to read
	room     []byte      // of the last records of the audit
	// The journal's last record, and its size, when they were last asked for.
	end, size uint64
}

// findTail finds the position of the projections. If the audit does not have it, or
// another projection has lost what it had when the audit was written, the whole
// journal is read.
func (p *Projector) findTail(ctx context.Context) (*tail, error) {
	stream, err := p.js.Stream(ctx, CommitStream)
	if err != nil {
		return nil, err
	}
	t := &tail{Projector: p, done: make([]progress, len(projections)), next: max(1, stream.CachedInfo().State.FirstSeq)}
	for i, projection := range projections {
		if t.done[i], err = projected(ctx, p.js, projection); err != nil {
			return nil, err
		}
	}
	t.standing = ledgerState{newest: t.done[0].decision, channel: make(map[bcp.ChannelKey]uint64)}
	if t.standing.ledger, err = leader(ctx, p.js, ledger); err != nil {
		return nil, err
	}
	last := t.done[len(t.done)-1]
	if len(last.shown) != len(projections) {
		return t, nil
	}
	for i, done := range t.done[:len(t.done)-1] {
		if done.decision < last.shown[i+1] {
			return t, nil
		}
	}
	t.next = max(t.next, last.shown[0]+1)
	p.shown.Store(last.decision)
	return t, nil
}

// waitIdle waits for a record, and then until the journal is idle, but not longer than lateTime.
func (t *tail) waitIdle(ctx context.Context) error {
	if err := t.await(ctx); err != nil {
		return err
	}
	late := time.Now().Add(lateTime)
	for look, bytes := gatherTime, uint64(restBytes/2); time.Now().Before(late); look, bytes = restTime, restBytes {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
		if busy, err := t.busy(ctx, bytes); err != nil || !busy {
			return err
		}
	}
	return nil
}

// await waits until there is a record to read. It is notified when one is
// published, and checks again after a reconnect.
func (t *tail) await(ctx context.Context) error {
	conn := t.js.Conn()
	back := conn.StatusChanged(nats.CONNECTED)
	defer conn.RemoveStatusListener(back)
	heard := make(chan *nats.Msg, 1)
	sub, err := conn.ChanSubscribe(subjects.All(subjects.KindCommit), heard)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := sub.AutoUnsubscribe(1); err != nil {
		return err
	}
	// A record from just before the subscription is stored a moment later.
	for wait := restTime; ; {
		if _, err := t.busy(ctx, 0); err != nil || t.end >= t.next {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-heard:
			return nil
		case <-back: // resubscribed
			wait = restTime
		case <-time.After(wait):
			wait = min(2*wait, awaitTime)
		}
	}
}

// busy says whether the journal grew by more than some bytes since it was last
// looked at, as it does when somebody waits.
func (t *tail) busy(ctx context.Context, bytes uint64) (bool, error) {
	stream, err := t.js.Stream(ctx, CommitStream)
	if err != nil {
		return false, err
	}
	state, before := stream.CachedInfo().State, t.size
	t.end, t.size = state.LastSeq, state.Bytes
	return t.size > before+bytes, nil
}

// catchUp projects what the journal has.
func (t *tail) catchUp(ctx context.Context) error {
	var gathered [][]byte
	var read uint64
	project := func() error {
		err := t.project(ctx, gathered, read)
		gathered = gathered[:0]
		return err
	}
	_, err := readRecords(ctx, t.js, t.next, false, func(r Record) error {
		gathered, read = append(gathered, r.Decisions...), r.Sequence
		if len(gathered) < gatherDecisions {
			return nil
		}
		return project()
	})
	if err == nil && len(gathered) > 0 {
		err = project()
	}
	return err
}

// progress is the position of a projection: the number of the newest decision
// that it shows, the sequence of its stream's newest message, and what the audit
// says about the other projections.
type progress struct {
	decision, sequence uint64
	shown              []uint64
}

// outgoing is a message of a projection, and the newest decision that it shows.
type outgoing struct {
	subject  string
	data     []byte
	decision uint64
}

// project writes the messages of some decisions, the last of which ends a
// record. The audit comes last: the others have everything that it shows.
func (t *tail) project(ctx context.Context, records [][]byte, read uint64) error {
	lines := lines{channels: make(map[bcp.ChannelKey]int)}
	audits := make([]outgoing, 0, len(records))
	t.room = t.room[:0]
	for _, b := range records {
		d, err := bcp.DecodeDecision(b)
		if err != nil {
			return err
		}
		if line, ok := d.Line(); ok {
			shown, err := t.standing.shows(ctx, &line)
			if err != nil {
				return err
			}
			if !shown {
				lines.add(line)
			}
		}
		if d.Seq <= t.done[1].decision {
			continue
		}
		message, err := t.audited(&d, b)
		if err != nil {
			return err
		}
		audits = append(audits, message)
	}
	if err := t.publish(ctx, lines.messages(), ledger, &t.done[0], nil); err != nil {
		return err
	}
	shown := []string{strconv.FormatUint(read, 10), strconv.FormatUint(t.done[0].decision, 10)}
	if err := t.publish(ctx, audits, audit, &t.done[1], nats.Header{shownHeader: {strings.Join(shown, " ")}}); err != nil {
		return err
	}
	t.next = read + 1
	t.shown.Store(t.done[1].decision)
	return nil
}

// audited returns the audit message of a decision of this record, without sealed
// content.
func (t *tail) audited(d *bcp.Decision, record []byte) (message outgoing, err error) {
	begin := len(t.room)
	if t.room, err = appendPublic(t.room, record); err != nil {
		return outgoing{}, err
	}
	controller, reader := d.Controller, d.Reader
	if controller == "" || reader == "" {
		controller, reader = "", ""
	}
	return outgoing{subjects.Audit(controller, reader, d.Kind.String()), t.room[begin:len(t.room):len(t.room)], d.Seq}, nil
}

// publish writes messages of a projection, the last with one more header, and waits for
// that one. Each expects the one before, so if one fails, the later ones fail too, the
// last reports it for all, and a retry of a message that was stored is refused: a
// projection has no gaps and no duplicates.
func (t *tail) publish(ctx context.Context, messages []outgoing, p projection, done *progress, more nats.Header) error {
	if len(messages) == 0 {
		return nil
	}
	conn := t.js.Conn()
	msg := &nats.Msg{Header: nats.Header{decisionHeader: {""}, natsjs.ExpectedLastSeqHeader: {""}}}
	for i, m := range messages {
		done.decision = max(done.decision, m.decision)
		msg.Subject, msg.Data = m.subject, m.data
		msg.Header[decisionHeader][0] = strconv.FormatUint(done.decision, 10)
		msg.Header[natsjs.ExpectedLastSeqHeader][0] = strconv.FormatUint(done.sequence, 10)
		done.sequence++
		if i+1 < len(messages) {
			if err := conn.PublishMsg(msg); err != nil { // it is copied
				return err
			}
			continue
		}
		maps.Copy(msg.Header, more)
		ack, err := t.js.PublishMsgAsync(msg)
		if err == nil {
			err = Await(ctx, []natsjs.PubAckFuture{ack})
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", p.stream, err)
		}
	}
	return nil
}

// Projected waits until all projections show the decision with this number.
func Projected(ctx context.Context, js natsjs.JetStream, seq uint64) error {
	for {
		last, err := projected(ctx, js, audit)
		if err == nil && last.decision >= seq {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the audit: %w", errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// decision returns the newest decision that the projection shows with a message.
func (p projection) decision(header nats.Header) (uint64, error) {
	n, err := strconv.ParseUint(header.Get(decisionHeader), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s has a message without %s", ErrRecord, p.stream, decisionHeader)
	}
	return n, nil
}

// leader returns the stream of a projection; only its leader is asked for
// messages: with a lagging replica decisions would be projected twice.
func leader(ctx context.Context, js natsjs.JetStream, p projection) (natsjs.Stream, error) {
	stream, err := js.Stream(ctx, p.stream)
	if err != nil {
		return nil, err
	}
	stream.CachedInfo().Config.AllowDirect = false
	return stream, nil
}

// projected returns how far a projection is.
func projected(ctx context.Context, js natsjs.JetStream, p projection) (progress, error) {
	stream, err := leader(ctx, js, p)
	if err != nil {
		return progress{}, err
	}
	done := progress{sequence: stream.CachedInfo().State.LastSeq}
	// Not the message at the stream's last sequence: it may have been deleted.
	msg, err := stream.GetLastMsgForSubject(ctx, p.filter())
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return done, nil
	}
	if err != nil {
		return progress{}, fmt.Errorf("reading %s: %w", p.stream, err)
	}
	if done.decision, err = p.decision(msg.Header); err != nil {
		return progress{}, err
	}
	for _, number := range strings.Fields(msg.Header.Get(shownHeader)) {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return progress{}, fmt.Errorf("%w: %s has a message with another %s", ErrRecord, p.stream, shownHeader)
		}
		done.shown = append(done.shown, n)
	}
	return done, nil
}
