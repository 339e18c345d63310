package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// AuditCommand returns the command audit.
func AuditCommand(p *cli.Program) *cobra.Command {
	replay := replaying{Channel: client.ChannelFlag{Named: true}, Kind: cli.WordFlag{Name: "KIND", Words: cli.Map(bcp.DecisionKinds(), bcp.DecisionKind.String)}}
	command := cli.New(p, "replay", &replay)
	cli.Complete(command, "query", completeIDs(&replay.Flags, exchangesOf))
	return cli.Noun(cli.New(p, "audit [COMMAND]", &tail{}), nil,
		command, cli.New(p, "redecide", &redecide{}), cli.New(p, "tighten", &tightening{}), cli.New(p, "export [FILE]", &export{}),
		cli.New(p, "verify FILE...", &verification{}), cli.New(p, "key", &key{}), cli.New(p, "erase", &erase{}))
}

// tail shows the newest records.
type tail struct {
	client.Flags
	Number cli.NumberFlag `short:"n" default:"20"`
}

func (o *tail) Run(ctx context.Context, p *cli.Program, _ []string) error {
	c, err := o.Books(ctx, p, false)
	if err != nil {
		return err
	}
	defer c.Close()
	records, err := NewestRecords(ctx, c.Auditor(), o.Number.Value, func(d *bcp.Decision) bool { return !tell.Connection(d) }) // of which each command makes some
	if err != nil {
		return err
	}
	return new(replaying).tell(ctx, p.Out, func(each func(*replayed) error) error {
		for _, d := range records {
			if err := each(&replayed{Decision: d}); err != nil {
				return err
			}
		}
		return nil
	})
}

// read has each take the decisions of the audit that are of a selection and in a span, until its first error.
func read(ctx context.Context, c *client.Client, s agents.Selection, span client.SpanFlags, each func(*bcp.Decision) error) error {
	from, err := span.From(ctx, c.Auditor())
	if err != nil {
		return err
	}
	s.From = max(s.From, from)
	for r, err := range c.Auditor().Select(ctx, s) {
		if err != nil || span.Over(&r.Decision) {
			return err
		}
		if err := each(&r.Decision); err != nil {
			return err
		}
	}
	return nil
}

// adds is what takes decisions, for [read].
func adds(add func(*bcp.Decision)) func(*bcp.Decision) error {
	return func(d *bcp.Decision) error {
		add(d)
		return nil
	}
}

// NewestRecords reads the last records of the audit that are wanted, nil for all.
func NewestRecords(ctx context.Context, auditor *agents.Auditor, number int, wanted func(*bcp.Decision) bool) (records []bcp.Decision, err error) {
	last, err := auditor.Last(ctx)
	if errors.Is(err, agents.ErrNoRecords) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if number == 0 {
		return nil, nil
	}
	// Where few of the newest are wanted, it looks further back.
	for reach := uint64(number); ; reach *= 4 {
		from := uint64(1)
		if last.Sequence > reach {
			from = last.Sequence - reach + 1
		}
		records = nil
		for r, err := range auditor.Select(ctx, agents.Selection{From: from}) {
			if err != nil {
				return nil, err
			}
			if wanted == nil || wanted(&r.Decision) {
				records = append(records, r.Decision)
			}
			if r.Sequence >= last.Sequence {
				break
			}
		}
		if len(records) >= number || from == 1 {
			return records[max(0, len(records)-number):], nil
		}
	}
}

// completedRecords is how many of the newest records are looked through.
const completedRecords = 200

// completeIDs completes the ids that of finds in each of the newest records, newest first.
func completeIDs(who *client.Flags, of func(*bcp.Decision) []string) cobra.CompletionFunc {
	return client.CompleteFrom(who, bcp.RoleAuditor, 1, func(ctx context.Context, c *client.Client) (ids []string) {
		seen := map[string]bool{"": true}
		records, _ := NewestRecords(ctx, c.Auditor(), completedRecords, nil) // without an answer none is completed
		for _, d := range slices.Backward(records) {
			for _, id := range of(&d) {
				if !seen[id] {
					seen[id] = true
					ids = append(ids, cobra.CompletionWithDesc(id, d.Kind.String()+" "+d.At().Local().Format(time.TimeOnly)))
				}
			}
		}
		return ids
	})
}

// exchangesOf are the ids of the query and the item that a decision is about.
func exchangesOf(d *bcp.Decision) []string { return []string{string(d.Item), string(d.Query)} }
