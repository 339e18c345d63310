package audit

import (
	"context"
	"iter"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/archive"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// restingDecisions returns the decisions of a stopped mesh, which has one journal.
func restingDecisions(ctx context.Context, p *cli.Program, j *client.Journal) iter.Seq2[bcp.Decision, error] {
	decisions := j.Decisions(ctx, p)
	return func(yield func(bcp.Decision, error) bool) {
		for d, err := range decisions {
			if err != nil {
				err = archive.BackupFailure(err, j.Folder.State)
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// tailResting shows the newest records of a stopped mesh.
func tailResting(ctx context.Context, p *cli.Program, j *client.Journal, number int, follow bool, wanted func(*bcp.Decision) bool) error {
	if follow {
		return cli.Failf("the mesh is stopped: there is nothing to follow").WithHint("start it: bcpmesh up %s", j.Folder.Dir)
	}
	var newest []bcp.Decision
	for d, err := range restingDecisions(ctx, p, j) {
		if err != nil {
			return err
		}
		if !wanted(&d) {
			continue
		}
		if newest = append(newest, d); len(newest) > 2*number {
			newest = append(newest[:0], newest[len(newest)-number:]...)
		}
	}
	return showRecords(p.Out, newest[max(0, len(newest)-number):], false)
}

// ofResting returns the records that a replay shows of a stopped mesh.
func (r *Replaying) ofResting(ctx context.Context, p *cli.Program, j *client.Journal) iter.Seq2[*replayed, error] {
	kind := r.decisionKind()
	return func(yield func(*replayed, error) bool) {
		var one replayed
		for d, err := range restingDecisions(ctx, p, j) {
			if err != nil {
				yield(nil, err)
				return
			}
			if d.At().Before(r.span.Since.At) || kind != 0 && d.Kind != kind ||
				r.channel.Text != "" && (d.Controller != r.channel.Value.Controller || d.Reader != r.channel.Value.Reader) {
				continue
			}
			one.Decision = d
			if !yield(&one, nil) {
				return
			}
		}
	}
}
