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
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
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
		return &Source{dial(c, folder), folder, true}, nil
	}
	if _, err := os.Stat(home.Streams(folder.State)); err != nil {
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

// dial is a running mesh as its operator asks it; closing it disconnects.
func dial(c *Client, folder meshdir.Folder) *mesh.Source {
	o := c.Operator()
	// Whoever looks at the checkpoints says that they cannot be read.
	least, _ := mesh.Tree(folder.State).Reaches()
	return mesh.Dial(folder.State, folder.Definition(), mesh.Operator{
		Records: func(ctx context.Context, each func([][]byte, uint64) error) error {
			return eachRecord(ctx, o.Journal, 0, least, func(r *agents.Record, decisions [][]byte) error { return each(decisions, r.Pending) })
		},
		From: func(ctx context.Context, from, least uint64, each func(uint64, [][]byte) error) error {
			return eachRecord(ctx, o.Journal, from, least, func(r *agents.Record, decisions [][]byte) error { return each(r.Sequence, decisions) })
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

func eachRecord(ctx context.Context, since recordsSince, from, least uint64, each func(*agents.Record, [][]byte) error) error {
	for patience := time.Now().Add(copyPatience); ; {
		for r, err := range since(ctx, from) {
			if err != nil {
				return meshdir.Failure(err)
			}
			decisions, err := jetstream.DecodeRecord(r.Data)
			if err == nil {
				err = each(&r, decisions)
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

// JournalFailure says what is wrong with a journal or a backup, and what to do.
func JournalFailure(err error, folder string) error {
	var said *cli.Failure
	switch {
	case errors.As(err, &said):
		return said
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, server.ErrInUse):
		return cli.Failf("a mesh is starting on %s", cli.Quoted(folder)).WithHint("try again when it serves")
	case errors.Is(err, mesh.ErrSalvage):
		return cli.Failf("a mesh runs on %s", cli.Quoted(folder)).WithHint("stop it first: the journal of a running mesh is backed up, and not salvaged")
	case errors.Is(err, jetstream.ErrBase):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint(BaseHint)
	case errors.Is(err, state.ErrDefinitions):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("bcpmesh restore OLDEST... NEWEST DIR rebuilds the whole journal from backups: look there")
	case errors.Is(err, jetstream.ErrHashes):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("they are in that file: tar -xzf FILE -C .bcpmesh tree/hashes")
	case errors.Is(err, jetstream.ErrNothingToSalvage):
		return cli.Failf("%s", cli.Plain(err.Error()))
	case errors.Is(err, jetstream.ErrLost), errors.Is(err, jetstream.ErrRewritten):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("bcpmesh backup --salvage saves what is left")
	case errors.Is(err, jetstream.ErrRecord):
		return cli.Failf("the journal is damaged: %s", cli.Plain(err.Error())).WithHint("bcpmesh backup --salvage saves everything before the damage")
	case errors.Is(err, accounts.ErrBusy):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("another command is using %s: try again", cli.Plain(folder))
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
