package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Record is one of a journal.
type Record struct {
	Sequence  uint64
	Left      uint64   // about how many come after it
	Decisions [][]byte // each as bcp.EncodeDecision wrote it
}

// Records is a journal as it is read: it calls each with the records from a sequence, or from wherever
// the journal begins if that is 0, to the current last one, oldest first. If a lagging replica may
// answer, it waits a while for the records up to least. An error of each stops it and is returned.
type Records func(ctx context.Context, from, least uint64, each func(Record) error) error

// JournalRecords returns the records that a connection of the gateway reads; with salvage
// those before the first that is missing.
func JournalRecords(js natsjs.JetStream, salvage bool) Records {
	return func(ctx context.Context, from, _ uint64, each func(Record) error) error {
		_, err := readRecords(ctx, js, from, salvage, each)
		return err
	}
}

// Begin returns where the journal begins.
func (r Records) Begin(ctx context.Context) (begin Beginning, err error) {
	first := true
	err = r(ctx, 0, 0, func(record Record) (err error) {
		if first {
			begin, err = readBeginning(record.Sequence, record.Decisions)
		}
		for i := 0; err == nil && begin.announced() && i < len(record.Decisions); i++ {
			var d bcp.Decision
			if d, err = bcp.DecodeDecision(record.Decisions[i]); err == nil {
				begin.name(&d)
			}
		}
		if first = false; err == nil && !begin.announced() {
			err = errEnough
		}
		return err
	})
	if err == nil && begin.announced() {
		err = errUnnamed(begin)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("reading the journal: %w", err)
	}
	return begin, err
}

// behind calls apply with each decision after a position, and returns the sequence of the last record. The
// journal is known to have a record with the sequence least. The error wraps [ErrPosition] if it does not
// have the position.
func (r Records) behind(ctx context.Context, p Position, least uint64, apply func(decision []byte) error) (last uint64, err error) {
	each := p.applyAfter(apply)
	expected := max(1, p.Sequence)
	err = r(ctx, expected, max(least, p.Sequence), func(record Record) error {
		if last == 0 && record.Sequence == p.Sequence+1 { // the position itself may be cut off
			begin, err := readBeginning(record.Sequence, record.Decisions)
			if err == nil && begin.Position != p {
				err = ErrPosition
			}
			if err != nil {
				return err
			}
			expected = record.Sequence
		}
		if record.Sequence != expected {
			return ErrMissing
		}
		expected, last = expected+1, record.Sequence
		return each(record)
	})
	if err == nil && last < p.Sequence {
		err = errEnds
	}
	if err != nil {
		err = fmt.Errorf("reading the journal: %w", err)
	}
	return last, err
}
