package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// A server of a cluster that answers may be behind the others: what a journal is known to
// have is waited for, and read once.
//
// covers P11.2
func TestJournalThatIsBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends  []uint64 // the last record of each answer; the last one stays
		least uint64
		want  uint64
	}{
		"all at once":       {[]uint64{5}, 5, 5},
		"in three answers":  {[]uint64{2, 2, 4, 7}, 6, 7},
		"nothing at first":  {[]uint64{0, 3}, 3, 3},
		"it never comes":    {[]uint64{2}, 9, 2},
		"nobody knows more": {[]uint64{2, 9}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun, ends := time.Now(), c.ends
				since := func(_ context.Context, from uint64) iter.Seq2[agents.Record, error] {
					end := ends[0]
					ends = ends[min(1, len(ends)-1):]
					return func(yield func(agents.Record, error) bool) {
						for n := max(1, from); n <= end; n++ {
							if !yield(agents.Record{Sequence: n, Data: []byte("\x82\xa1v\x02\xa1d\x91\xc4\x01x")}, nil) {
								return
							}
						}
					}
				}
				var got, want []uint64
				for n := range c.want {
					want = append(want, n+1)
				}
				err := eachRecord(t.Context(), since, 0, c.least, func(r jetstream.Record) error {
					if len(r.Decisions) != 1 {
						return fmt.Errorf("%d decisions", len(r.Decisions))
					}
					got = append(got, r.Sequence)
					return nil
				})
				if took := time.Since(begun); err != nil || !slices.Equal(got, want) || took > copyPatience+copyPause {
					t.Errorf("records %d, want %d, after %v: %v", got, want, took, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := eachRecord(ctx, since, 0, 99, func(jetstream.Record) error { return nil }); !errors.Is(err, context.Canceled) {
					t.Errorf("interrupted: %v", err)
				}
			})
		})
	}
}

// What may be wrong with a journal is said with what to do.
func TestJournalFaults(t *testing.T) {
	t.Parallel()
	clitest.Faults(t, JournalFaults)
}
