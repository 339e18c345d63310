package client

import (
	"context"
	"errors"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Source is the journal of a mesh: read over the mesh if it runs, also on a cluster, and
// from the state folder if it is stopped.
type Source struct {
	*mesh.Source
	Folder  meshdir.Folder
	Running bool
}

// longAct is how long an act of an operator may take that reads the whole journal.
const longAct = 15 * time.Minute

// OpenSource opens the journal of the mesh of a folder.
func OpenSource(ctx context.Context, where meshdir.StateFlags) (*Source, error) {
	folder, err := where.Folder()
	if err != nil {
		return nil, err
	}
	if folder.Serves() {
		who := Flags{Where: where, Attempt: longAct}
		c, err := who.Connect(ctx, bcp.RoleOperator)
		if err != nil {
			return nil, err
		}
		return &Source{sourceOf(c, folder), folder, true}, nil
	}
	if _, err := os.Stat(server.StreamsOf(folder.State)); err != nil {
		if meshdir.WasExported(folder.State) {
			return nil, cli.Failf("there is no journal in %s, and the address of its cluster is not known", cli.Quoted(folder.State)).WithHint("bcpmesh accounts push saves it for the commands that have the keys")
		}
		return nil, cli.Failf("there is no journal in %s", cli.Quoted(folder.State)).WithHint("no mesh has run there; --state names another folder")
	}
	source, err := mesh.Open(ctx, folder.State, folder.Definition(), meshdir.Unlock())
	if err != nil {
		return nil, JournalFailure(err, folder.State)
	}
	return &Source{source, folder, false}, nil
}

// Close ends what the source needs; it was only read, or what was written says so itself.
func (s *Source) Close() { _ = s.Source.Close() }

// sourceOf is a running mesh as its operator asks it; closing it disconnects.
func sourceOf(c *Client, folder meshdir.Folder) *mesh.Source {
	o := c.Operator()
	// Whoever looks at the checkpoints says that they cannot be read.
	reaches, _ := mesh.Tree(folder.State).Reaches()
	return mesh.Dial(folder.State, folder.Definition(), mesh.Operator{
		Records: func(ctx context.Context, from, least uint64, each func(jetstream.Record) error) error {
			return eachRecord(ctx, o.Journal, from, max(least, reaches), each)
		},
		Key: o.Key, Reconcile: o.Reconcile,
		Truncate: func(ctx context.Context, t bcp.Truncation) (jetstream.Position, error) {
			r, err := o.Truncate(ctx, t)
			if err == nil && r.Failed != "" {
				err = errors.New(r.Failed)
			}
			return jetstream.Position{Sequence: r.Sequence, Decision: r.Decision, Head: r.Head}, meshdir.Failure(err)
		},
		Close: c.Close,
	})
}

const (
	// A server of a cluster that answers may be behind the others: what the journal is
	// known to have is waited for so long, and asked for so often.
	copyPatience = 15 * time.Second
	copyPause    = 250 * time.Millisecond
)

// recordsSince reads a journal from a sequence on, up to what the server has that answers.
type recordsSince func(ctx context.Context, from uint64) iter.Seq2[agents.Record, error]

func eachRecord(ctx context.Context, since recordsSince, from, least uint64, each func(jetstream.Record) error) error {
	for patience := time.Now().Add(copyPatience); ; {
		for r, err := range since(ctx, from) {
			if err != nil {
				return meshdir.Failure(err)
			}
			decisions, err := jetstream.DecodeRecord(r.Data)
			if err == nil {
				err = each(jetstream.Record{Sequence: r.Sequence, Left: r.Pending, Decisions: decisions})
			}
			if err != nil {
				return err
			}
			from = r.Sequence + 1
		}
		if from > least || time.Now().After(patience) {
			return nil
		}
		select {
		case <-ctx.Done():
			return meshdir.Failure(ctx.Err())
		case <-time.After(copyPause):
		}
	}
}

// BaseHint says where a base is taken from.
const BaseHint = "it is in that file: tar -xzf FILE -C .bcpmesh base"

// After is what an error says after the one that it wraps.
func After(err, wrapped error) string {
	_, rest, found := strings.Cut(err.Error(), wrapped.Error()+": ")
	if !found {
		return cli.Plain(err.Error())
	}
	return cli.Plain(rest)
}

// JournalFaults are what may be wrong with a journal or a backup.
var JournalFaults = cli.Faults{
	{Of: server.ErrInUse, Says: "a mesh is starting on {it}", Hint: "try again when it serves"},
	{Of: mesh.ErrSalvage, Says: "a mesh runs on {it}", Hint: "stop it first: the journal of a running mesh is backed up, and not salvaged"},
	{Of: jetstream.ErrBase, Hint: BaseHint},
	{Of: jetstream.ErrHashes, Hint: "they are in that file: tar -xzf FILE -C .bcpmesh tree/hashes"},
	{Of: jetstream.ErrNothingToSalvage},
	{Of: jetstream.ErrLost, Hint: "bcpmesh backup --salvage saves what is left"},
	{Of: jetstream.ErrRewritten, Hint: "bcpmesh backup --salvage saves what is left"},
	{Of: jetstream.ErrRecord, Says: "the journal is damaged: {why}", Hint: "bcpmesh backup --salvage saves everything before the damage"},
	{Of: accounts.ErrBusy, Hint: "another command is using {path}: try again"},
}

// JournalFailure says what is wrong with a journal or a backup, and what to do.
func JournalFailure(err error, folder string) error {
	if said, ok := errors.AsType[*cli.Failure](err); ok {
		return said
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if known := JournalFaults.Failure(err, folder); known != nil {
		return known
	}
	return cli.Failf("%s", cli.Plain(err.Error()))
}

// RecordProgress draws a bar on a terminal. finish removes it.
func RecordProgress(p *cli.Program, what string) (progress func(done, all uint64), finish func()) {
	if !p.Out.TalkTerminal {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(done, all uint64) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(all), progressbar.OptionSetWriter(p.Out.Stderr), progressbar.OptionShowCount(),
					progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(what))
			}
			_ = bar.Set64(int64(done)) // it is talk
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}

const (
	// booksPatience is how long the books may take to show what was decided before.
	booksPatience = 5 * time.Second
	booksPause    = 50 * time.Millisecond
)

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
		if _, err := os.Stat(server.StreamsOf(folder.State)); err == nil && !folder.Serves() {
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
		c.Owner, _ = (&Flags{Where: f.Where}).Connect(ctx, bcp.RoleOperator) // the gateway may not listen
	}
	if c.Owner != nil {
		c.Behind, err = behind(ctx, c.Auditor(), c.Owner.Operator())
		if err != nil {
			p.Out.Talkf("the gateway does not say what it has decided: the newest decisions may not be here")
		}
	}
	if c.Behind > 0 {
		p.Out.Talkf("the ledger does not show the last %s yet", cli.Count(int(c.Behind), "decision"))
	}
	return c, nil
}

// TalkOfAge says how far books are of which the gateway says nothing: they may be old.
func (c *Client) TalkOfAge(ctx context.Context, p *cli.Program) {
	if c.Owner != nil || c.files != nil {
		return
	}
	if last, err := c.Auditor().Last(ctx); err == nil {
		p.Out.Talkf("as of decision %d of %s; the gateway was not asked for newer ones", last.Decision.Seq, cli.Moment(last.Decision.At()))
	}
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

// behind waits for the audit to show what the gateway had decided, and returns how many decisions it lacks in the end.
func behind(ctx context.Context, auditor *agents.Auditor, operator *agents.Operator) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, booksPatience)
	defer cancel()
	storage, err := operator.Storage(ctx)
	if err != nil {
		return 0, err
	}
	missing := uint64(0) // at the last look
	for decided := storage.Decisions; ; {
		last, err := auditor.Last(ctx)
		switch {
		case err != nil && missing > 0 && ctx.Err() != nil: // the patience ended during a look
			return missing, nil
		case err != nil && !errors.Is(err, agents.ErrNoRecords):
			return 0, err
		}
		shown := last.Decision.Seq
		if storage.Shown > 0 { // on a cluster another server may have answered
			shown = min(shown, storage.Shown)
		}
		if shown >= decided {
			return 0, nil
		}
		missing = decided - shown
		select {
		case <-ctx.Done():
			return missing, nil
		case <-time.After(booksPause):
		}
		if again, err := operator.Storage(ctx); err == nil {
			storage = again
		}
	}
}
