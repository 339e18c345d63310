package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// RecordTruncation records that the journal may begin with this record, if t is zero, or
// that what is in front of an earlier one is proven and backed up. It returns where the
// record before it ends.
func (g *Gateway) RecordTruncation(ctx context.Context, t bcp.Truncation) (before jetstream.Position, err error) {
	err = g.between(ctx, func(context.Context) error {
		if g.failed != nil {
			return g.failed
		}
		before = jetstream.Position{Sequence: g.journal.Last(), Decision: g.state.Last(), Head: g.state.Head()}
		t.Sequence = cmp.Or(t.Sequence, before.Sequence)
		return g.recordNow(g.state.DecideTruncate(g.moment(), t))
	})
	return before, err
}

// Cut calls cut between two steps, and again after others until it reports that all is
// cut off: nothing is written to the journal during a call, and nobody reads all of it
// until the last. If a call fails, the gateway ends: records that it appended then could
// be cut off too.
func (g *Gateway) Cut(ctx context.Context, cut func(context.Context) (all bool, err error)) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	longest := time.Duration(0)
	for all := false; !all; {
		if err := g.between(ctx, func(context.Context) (err error) {
			if g.failed != nil {
				return g.failed
			}
			// Whoever asked may go meanwhile; what is begun ends.
			cutting, cancel := context.WithTimeout(context.Background(), recordTimeout)
			defer cancel()
			begun := time.Now()
			if all, err = cut(cutting); err != nil {
				g.failed = err
				g.cancel(err)
			}
			longest = max(longest, time.Since(begun))
			return err
		}); err != nil {
			return err
		}
	}
	g.log.Info("journal truncated", "longest_pause", longest.Round(time.Microsecond))
	return nil
}
