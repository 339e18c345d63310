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

// Late is how far the audit and ledger are, before they are read. The zero value says
// nothing.
type Late struct {
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

// Books connects as an auditor. Where the command is of the owner of the state
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
		Lateness(ctx, c, operator).Talk(p)
	}
	return c, nil
}

// Lateness looks how far the books are that an auditor reads. With the operator the gateway says
// what it has decided, and is waited for; where that is nil, or when it does not answer, the audit
// alone is looked at.
func Lateness(ctx context.Context, auditor, operator *Client) Late {
	var o *agents.Operator
	if operator != nil {
		o = operator.Operator()
	}
	p, err := readPosition(ctx, auditor.Auditor(), o)
	if err != nil {
		return Late{} // whoever reads the books says so
	}
	return p
}

func readPosition(ctx context.Context, auditor *agents.Auditor, operator *agents.Operator) (p Late, err error) {
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

// Behind is how many decisions the books lack.
func (l Late) Behind() uint64 { return l.behind }

// Talk says what the books lack, or how far they are if the gateway was not asked.
func (l Late) Talk(p *cli.Program) {
	switch {
	case l.behind > 0:
		p.Out.Talkf("the ledger does not show the last %s yet", cli.Count(int(l.behind), "decision"))
	case !l.asked && l.shown > 0:
		p.Out.Talkf("as of decision %d of %s; the gateway was not asked for newer ones", l.shown, cli.Moment(l.at))
	}
}
