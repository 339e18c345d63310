package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Source is a journal for a tree: a [Journal], or a [Reading].
type Source interface {
	// Begin returns where it begins.
	Begin(ctx context.Context) (Beginning, error)
	// ReplayBehind calls apply with each decision after a position. The error
	// wraps [ErrPosition] if the journal does not have the position.
	ReplayBehind(ctx context.Context, p Position, apply func(decision []byte) error) error
	// Last returns the sequence of the newest record read.
	Last() uint64
}

// RecordsFrom calls each with the records of a journal from a sequence to the current
// last one, oldest first. If a lagging replica may answer, it waits a while for the
// records up to least. An error of each stops it and is returned.
type RecordsFrom func(ctx context.Context, from, least uint64, each func(sequence uint64, decisions [][]byte) error) error

// Reading is a journal as somebody reads it who is not its gateway.
type Reading struct {
	records RecordsFrom
	least   uint64
	last    uint64
}

// NewReading returns a journal that is known to have a record with the sequence
// least.
func NewReading(records RecordsFrom, least uint64) *Reading {
	return &Reading{records: records, least: least}
}

// Begin implements [Source].
func (r *Reading) Begin(ctx context.Context) (begin Beginning, err error) {
	first := true
	err = r.records(ctx, 1, 0, func(sequence uint64, decisions [][]byte) (err error) {
		if first {
			begin, err = readBeginning(sequence, decisions)
		}
		for i := 0; err == nil && begin.announced() && i < len(decisions); i++ {
			var d bcp.Decision
			if d, err = bcp.DecodeDecision(decisions[i]); err == nil {
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

// Last implements [Source].
func (r *Reading) Last() uint64 { return r.last }

// ReplayBehind implements [Source].
func (r *Reading) ReplayBehind(ctx context.Context, p Position, apply func(decision []byte) error) error {
	each := p.applyAfter(apply)
	expected := max(1, p.Sequence)
	last := uint64(0)
	err := r.records(ctx, expected, max(r.least, p.Sequence), func(sequence uint64, decisions [][]byte) error {
		if last == 0 && sequence == p.Sequence+1 { // the position itself may be cut off
			begin, err := readBeginning(sequence, decisions)
			if err == nil && begin.Position != p {
				err = ErrPosition
			}
			if err != nil {
				return err
			}
			expected = sequence
		}
		if sequence != expected {
			return ErrMissing
		}
		expected, last = expected+1, sequence
		return each(sequence, decisions)
	})
	if err == nil && last < p.Sequence {
		err = errEnds
	}
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	r.last = last
	return nil
}
