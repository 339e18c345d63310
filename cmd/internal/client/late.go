package client

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

const (
	// booksPatience is how long the books may take to show what was decided before.
	booksPatience = 5 * time.Second
	booksPause    = 50 * time.Millisecond
)

// Late is how far the audit and ledger of some shards are, before they are read.
type Late []Sharded[position]

type position struct {
	shown  uint64    // the newest decision of the audit
	at     time.Time // its time
	behind uint64    // decisions that the gateway made before, and nobody is shown
	asked  bool      // the gateway said so
}

// Owner connects as the owner of the state folder, if the command is that person's and the
// gateway listens. Else it returns nil.
func (f *Flags) Owner(ctx context.Context) *Client {
	if f.Creds != "" {
		return nil
	}
	o, err := ConnectOperator(ctx, f.Where)
	if err != nil {
		return nil
	}
	return o
}

// Books connects as an auditor of all shards. Where the command is of the owner of the state
// folder, the audit shows then what the gateway had decided before, or what it lacks is said.
func (f *Flags) Books(ctx context.Context, p *cli.Program) (*Client, error) {
	c, err := f.Connect(ctx, bcp.RoleAuditor)
	if err != nil {
		return nil, err
	}
	if operator := f.Owner(ctx); operator != nil {
		defer operator.Close()
		ctx, cancel := context.WithTimeout(ctx, booksPatience)
		defer cancel()
		Lateness(ctx, c, operator, c.Shards).Talk(p)
	}
	return c, nil
}

// Lateness looks how far the books are that an auditor reads. With the operator the gateway says
// what it has decided, and is waited for; where that is nil, or when it does not answer, the audit
// alone is looked at.
func Lateness(ctx context.Context, auditor, operator *Client, shards []int) Late {
	list, _ := OnShards(ctx, shards, func(ctx context.Context, shard int) (position, error) { // a shard that does not answer has no books either
		var o *agents.Operator
		if operator != nil {
			o = operator.Operator(shard)
		}
		return readPosition(ctx, auditor.Auditor(shard), o)
	})
	return list
}

func readPosition(ctx context.Context, auditor *agents.Auditor, operator *agents.Operator) (p position, err error) {
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

// Of is how many decisions the books of a shard lack.
func (l Late) Of(shard int) uint64 {
	for i := range l {
		if l[i].Shard == shard {
			return l[i].Of.behind
		}
	}
	return 0
}

// Talk says what the books lack, or how far they are if the gateway was not asked.
func (l Late) Talk(p *cli.Program) {
	for i := range l {
		switch at := &l[i].Of; {
		case at.behind > 0:
			p.Out.Talkf(l[i].Label()+"the ledger does not show the last %s yet", cli.Count(int(at.behind), "decision"))
		case !at.asked && at.shown > 0:
			p.Out.Talkf(l[i].Label()+"as of decision %d of %s; the gateway was not asked for newer ones", at.shown, cli.Moment(at.at))
		}
	}
}
