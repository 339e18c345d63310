package client

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// Resting returns the journal of the folder's mesh if that is stopped, for a command that
// auditors use: the owner of the state folder may read it. It is nil if the mesh runs, is
// reached with creds or a URL, or has no journal there.
func (f *Flags) Resting(ctx context.Context) (*Journal, error) {
	if f.Creds != "" || f.URL != "" {
		return nil, nil
	}
	folder, err := f.Where.Folder()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(home.Streams(folder.State)); err != nil || folder.Serves() {
		return nil, nil
	}
	return OpenJournal(ctx, f.Where)
}

var errEnough = errors.New("the rest is not asked for")

// Decisions returns the decisions of the journal of a stopped mesh, which has one, as
// the audit shows them. It says so.
func (j *Journal) Decisions(ctx context.Context, p *cli.Program) iter.Seq2[bcp.Decision, error] {
	p.Out.Talkf("the mesh is stopped: this is read from its journal")
	return func(yield func(bcp.Decision, error) bool) {
		err := j.Read(ctx, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
			return records(ctx, func(decisions [][]byte, _ uint64) error {
				for _, record := range decisions {
					d, err := bcp.DecodeDecision(record)
					if err != nil {
						return err
					}
					if !yield(d.Public(), nil) {
						return errEnough
					}
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(bcp.Decision{}, err)
		}
	}
}
