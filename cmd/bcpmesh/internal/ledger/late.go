package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
)

const (
	// booksPatience is how long the books may take to show what was decided before.
	booksPatience = 2 * time.Second
	booksPause    = 50 * time.Millisecond
)

// late is how far the books of some shards are, before they are read.
type late []client.Sharded[position]

type position struct {
	shown  uint64    // the newest decision of the audit
	at     time.Time // its time
	behind uint64    // decisions that the gateway made before, and nobody is shown
	asked  bool      // the gateway said so
}

// lateness looks how far the books are. With the operator the gateway says what it has decided,
// and is waited for; without, or when it does not answer, the audit alone is looked at.
func lateness(ctx context.Context, c, operator *client.Client, shards []int) late {
	list, _ := client.OnShards(ctx, shards, func(ctx context.Context, shard int) (position, error) { // a shard that does not answer has no books either
		var o *agents.Operator
		if operator != nil {
			o = operator.Operator(shard)
		}
		return positionOf(ctx, c.Auditor(shard), o)
	})
	return list
}

func positionOf(ctx context.Context, auditor *agents.Auditor, operator *agents.Operator) (p position, err error) {
	var decided uint64
	for deadline := time.Now().Add(booksPatience); ; {
		shown := ^uint64(0)
		if operator != nil {
			storage, err := operator.Storage(ctx)
			if p.asked = err == nil; p.asked && decided == 0 {
				decided = storage.Decisions
			}
			if storage.Shown > 0 {
				shown = storage.Shown
			}
		}
		last, err := auditor.Last(ctx)
		if err != nil && !errors.Is(err, agents.ErrNoRecords) {
			return p, err
		}
		p.shown, p.at = last.Decision.Seq, last.Decision.At()
		shown = min(shown, p.shown)
		if p.behind = decided - min(shown, decided); p.behind == 0 || time.Now().After(deadline) {
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-time.After(booksPause):
		}
	}
}

func (l late) of(shard int) uint64 {
	for i := range l {
		if l[i].Shard == shard {
			return l[i].Of.behind
		}
	}
	return 0
}

// talk says what the books lack, or how far they are if the gateway was not asked.
func (l late) talk(p *cli.Program) {
	for i := range l {
		switch at := &l[i].Of; {
		case at.behind > 0:
			p.Out.Talkf(l[i].Label()+"the books do not show the last %s yet", cli.Count(int(at.behind), "decision"))
		case !at.asked && at.shown > 0:
			p.Out.Talkf(l[i].Label()+"as of decision %d of %s; the gateway was not asked for newer ones", at.shown, cli.Moment(at.at))
		}
	}
}
