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
				err := eachRecord(t.Context(), since, 0, c.least, func(r *agents.Record, decisions [][]byte) error {
					if len(decisions) != 1 {
						return fmt.Errorf("%d decisions", len(decisions))
					}
					got = append(got, r.Sequence)
					return nil
				})
				if took := time.Since(begun); err != nil || !slices.Equal(got, want) || took > copyPatience+copyPause {
					t.Errorf("records %d, want %d, after %v: %v", got, want, took, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := eachRecord(ctx, since, 0, 99, func(*agents.Record, [][]byte) error { return nil }); !errors.Is(err, context.Canceled) {
					t.Errorf("interrupted: %v", err)
				}
			})
		})
	}
}

// Records of several sources come in the order of time, and an error of one ends all.
//
// covers P11.3
func TestByTime(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	source := func(numbers ...int) iter.Seq2[int, error] { // a negative one is an error
		return func(yield func(int, error) bool) {
			for _, n := range numbers {
				var err error
				if n < 0 {
					err = broken
				}
				if !yield(n, err) {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		sources [][]int
		want    []int
		err     error
	}{
		"one":              {[][]int{{1, 2}}, []int{1, 2}, nil},
		"three":            {[][]int{{1, 5, 6}, {}, {2, 3, 7}}, []int{1, 2, 3, 5, 6, 7}, nil},
		"one that breaks":  {[][]int{{1, 5}, {2, -1, 3}}, []int{1, 2}, broken},
		"broken from here": {[][]int{{1, 5}, {-1}}, nil, broken},
	} {
		var all []iter.Seq2[int, error]
		for _, numbers := range c.sources {
			all = append(all, source(numbers...))
		}
		var got []int
		var failed error
		for n, err := range ByTime(all, func(n int) time.Time { return time.Unix(int64(n), 0) }) {
			if failed = err; err == nil {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, c.want) || !errors.Is(failed, c.err) {
			t.Errorf("%s: %d, want %d: %v", name, got, c.want, failed)
		}
		for range ByTime(all, func(int) time.Time { return time.Time{} }) {
			break // what is left is not asked for
		}
	}
}
