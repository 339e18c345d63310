package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// projectedTimeout is the timeout for a lagging ledger.
const projectedTimeout = 5 * time.Second

// Reconcile adds up the charges of the journal up to a decision, 0 for all of it, from
// the base on if it is truncated, and compares them with the charges in each decision,
// with the lines of the ledger, and with the books of a state that has applied the same
// decisions.
//
// The ledger need not have a line for each decision, but for the newest of each
// channel; what it has must be the journal's. Decisions that it does not show
// yet are not differences, but are reported.
func Reconcile(ctx context.Context, js natsjs.JetStream, bases *Bases, last uint64, books []bcp.PoolBalance) (status.Reconciliation, error) {
	r := status.Reconciliation{Differences: []status.Difference{}}
	shown, err := shownBy(ctx, js, last)
	if err != nil {
		return r, err
	}
	var counted state.Recount
	begin, err := Begin(ctx, js)
	if err == nil && begin.Truncated() {
		var base Snapshot
		if base, _, err = bases.Read(ctx, begin); err == nil {
			err = counted.Begin(base.Checkpoint)
		}
	}
	if err != nil {
		return r, err
	}
	lines, err := openLines(ctx, js, begin.Decision)
	if err != nil {
		return r, err
	}
	defer lines.close()
	missing := make(map[bcp.ChannelKey]uint64) // newest missing line of each channel in the ledger
	count := func(record []byte) error {
		d, err := bcp.DecodeDecision(record)
		if err != nil {
			return err
		}
		if last > 0 && d.Seq > last {
			return errEnough // it has grown meanwhile
		}
		r.Decisions = d.Seq
		if err := counted.Add(&d); err != nil {
			r.Differ(status.BookJournal, d.Seq, "%s", err)
		}
		return lines.compare(ctx, &r, &d, shown, missing)
	}
	_, err = readRecords(ctx, js, 0, false, func(read Record) error {
		for _, record := range read.Decisions {
			if err := count(record); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return r, err
	}
	if err := lines.excess(ctx, &r, last == 0); err != nil {
		return r, err
	}
	for _, key := range slices.SortedFunc(maps.Keys(missing), bcp.ChannelKey.Compare) {
		r.Differ(status.BookLedger, missing[key], "the ledger lacks decision %d of %s and %s, the newest that moved bits", missing[key], key.Controller, key.Reader)
	}
	r.Behind = r.Decisions - min(r.Decisions, shown)
	counted.CompareState(&r, books)
	return r, nil
}

// shownBy returns the newest decision that all projections show, which may be
// later than last. It waits for a running projector.
func shownBy(ctx context.Context, js natsjs.JetStream, last uint64) (uint64, error) {
	if last > 0 {
		patient, cancel := context.WithTimeout(ctx, projectedTimeout)
		defer cancel()
		if err := Projected(patient, js, last); err != nil && ctx.Err() != nil {
			return 0, err
		}
	}
	done, err := projected(ctx, js, audit)
	return done.decision, err
}

// ledgerLines reads the ledger in parallel with the journal: each channel's lines in
// order.
type ledgerLines struct {
	reader *reader // nil if there are none
	end    uint64  // sequence of its last message
	read   uint64
	begin  uint64 // lines up to it cannot be compared
	newest uint64 // decision of the last message read
	// waiting are lines that were read but not compared.
	waiting map[bcp.ChannelKey][]bcp.LedgerLine
}

func openLines(ctx context.Context, js natsjs.JetStream, begin uint64) (*ledgerLines, error) {
	stream, err := js.Stream(ctx, LedgerStream)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	l := &ledgerLines{begin: begin, waiting: make(map[bcp.ChannelKey][]bcp.LedgerLine)}
	// Not the stream's last sequence: that message may have been deleted.
	newest, err := stream.GetLastMsgForSubject(ctx, subjects.All(subjects.KindLedger))
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	l.end = newest.Sequence
	if l.reader, err = read(js, stream, stream.CachedInfo().State.FirstSeq, false); err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return l, nil
}

// close is called once everything is read.
func (l *ledgerLines) close() {
	if l.reader != nil {
		l.reader.end()
	}
}

// advance reads the next message. What cannot be read is a difference.
func (l *ledgerLines) advance(ctx context.Context, r *status.Reconciliation) error {
	m, err := l.reader.message(ctx)
	if err != nil {
		return fmt.Errorf("reading the ledger: %w", err)
	}
	l.read = m.sequence
	lines, err := bcp.DecodeLedgerLines(m.data)
	if err != nil {
		r.Differ(status.BookLedger, 0, "message %d of the ledger cannot be read", l.read)
		return nil
	}
	for _, line := range lines {
		if l.newest = line.Seq; line.Seq > l.begin {
			key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
			l.waiting[key] = append(l.waiting[key], line)
		}
	}
	return nil
}

// compare checks the lines of a decision's channel up to the decision. Lines of
// decisions that were projected together are grouped by channel: some may come after
// the lines of maxProjected later decisions, and twice as many after a crash.
func (l *ledgerLines) compare(ctx context.Context, r *status.Reconciliation, d *bcp.Decision, shown uint64, missing map[bcp.ChannelKey]uint64) error {
	for l.read < l.end && l.newest <= d.Seq+2*maxProjected {
		if err := l.advance(ctx, r); err != nil {
			return err
		}
	}
	key, _ := d.Channel()
	line, moves := d.Line()
	found := false
	waiting := l.waiting[key]
	for ; len(waiting) > 0 && waiting[0].Seq <= d.Seq; waiting = waiting[1:] {
		next := &waiting[0]
		r.Lines++
		switch {
		case next.Seq < d.Seq || !moves || found:
			l.unknown(r, next)
		default:
			found = true
			delete(missing, key)
			if !bytes.Equal(bcp.EncodeLedgerLine(&line), bcp.EncodeLedgerLine(next)) { // in any format of the ledger
				r.Differ(status.BookLedger, d.Seq, "the ledger's line of decision %d has %s bits and %s settled; the journal has %s and %s",
					d.Seq, next.Nominal, next.Balance.Settled, line.Nominal, line.Balance.Settled)
			}
		}
	}
	if len(waiting) > 0 {
		l.waiting[key] = waiting
	} else {
		delete(l.waiting, key)
	}
	if moves && !found && d.Seq <= shown {
		missing[key] = d.Seq
	}
	return nil
}

func (l *ledgerLines) unknown(r *status.Reconciliation, line *bcp.LedgerLine) {
	r.Differ(status.BookLedger, line.Seq, "the ledger has a line of decision %d that the journal does not have there", line.Seq)
}

// excess finds lines without a counted decision. If the journal was not read to its end,
// lines after the last decision read are ignored.
func (l *ledgerLines) excess(ctx context.Context, r *status.Reconciliation, whole bool) error {
	for whole && l.read < l.end {
		if err := l.advance(ctx, r); err != nil {
			return err
		}
	}
	left := slices.Concat(slices.Collect(maps.Values(l.waiting))...)
	slices.SortFunc(left, func(a, b bcp.LedgerLine) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range left {
		switch line := &left[i]; {
		case line.Seq <= r.Decisions:
			r.Lines++
			l.unknown(r, line)
		case whole:
			r.Lines++
			r.Differ(status.BookLedger, line.Seq, "the ledger has a line of decision %d, and the journal ends at %d", line.Seq, r.Decisions)
		}
	}
	return nil
}
