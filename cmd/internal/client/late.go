package client

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/home"
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

// Books connects as an auditor; of a stopped mesh to a server of its own on its files,
// for the owner of the state folder. Where the command is of that owner, the audit shows
// then what the gateway had decided before, or what it lacks is said. follow says that it is
// followed, which a stopped mesh is not.
func (f *Flags) Books(ctx context.Context, p *cli.Program, follow bool) (*Client, error) {
	if f.Creds == "" && f.URL == "" {
		folder, err := f.Where.Folder()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(home.Streams(folder.State)); err == nil && !folder.Serves() {
			if follow {
				return nil, cli.Failf("the mesh is stopped: there is nothing to follow").WithHint("start it: bcpmesh up %s", folder.Dir)
			}
			p.Out.Talkf("the mesh is stopped: this is read from its files")
			return f.booksOfFiles(ctx)
		}
	}
	c, err := f.Connect(ctx, bcp.RoleAuditor)
	if err != nil {
		return nil, err
	}
	if f.Creds == "" {
		c.Owner, _ = ConnectOperator(ctx, f.Where) // the gateway may not listen
	}
	ctx, cancel := context.WithTimeout(ctx, booksPatience)
	defer cancel()
	c.Late = lateness(ctx, c, c.Owner)
	if c.Owner != nil {
		c.Late.Talk(p)
	}
	return c, nil
}

// booksOfFiles serves the audit of a stopped mesh, and connects to that.
func (f *Flags) booksOfFiles(ctx context.Context) (*Client, error) {
	files, err := OpenSource(ctx, f.Where)
	if err != nil {
		return nil, err
	}
	c := &Client{Name: bcp.Operator, Encoding: bcp.JSON, Definition: files.Folder.Definition(), files: files}
	url, creds, err := files.Audit(ctx)
	if err == nil {
		c.Connection, err = agents.Connect(ctx, url, agents.CredsText(creds.Text()), agents.Options{Name: c.Name, Encoding: c.Encoding})
	}
	if err != nil {
		files.Close()
		return nil, JournalFailure(err, files.Folder.State)
	}
	return c, nil
}

// lateness looks how far the books are that an auditor reads. With the operator the gateway says
// what it has decided, and is waited for; where that is nil, or when it does not answer, the audit
// alone is looked at.
func lateness(ctx context.Context, auditor, operator *Client) Late {
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
