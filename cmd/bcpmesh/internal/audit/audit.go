package audit

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// AuditCommand returns the command audit.
func AuditCommand(p *cli.Program) *cobra.Command {
	return cli.Noun(auditTailCommand(p), nil,
		auditReplayCommand(p), auditRedecideCommand(p), auditTightenCommand(p), auditExportCommand(p), auditVerifyCommand(p), auditKeyCommand(p), auditEraseCommand(p))
}

func auditTailCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	var follow, connections bool
	number := cli.NumberFlag{Value: 20}
	cmd := &cobra.Command{
		Use: "audit [COMMAND]",
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted := exceptConnections
			if connections {
				wanted = everyRecord
			}
			c, err := who.Books(cmd.Context(), p, follow)
			if err != nil {
				return err
			}
			defer c.Close()
			return tail(cmd.Context(), p, c, number.Value, follow, wanted)
		},
	}
	who.AddTo(cmd, "auditor")
	cmd.Flags().VarP(&number, "number", "n", "how many records")
	cmd.Flags().BoolVar(&connections, "connections", false, "show who connected and disconnected, too")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow new records until interrupted")
	return cmd
}

func everyRecord(*bcp.Decision) bool { return true }

func exceptConnections(d *bcp.Decision) bool { return !tell.Connection(d) }

func tail(ctx context.Context, p *cli.Program, c *client.Client, number int, follow bool, wanted func(*bcp.Decision) bool) error {
	records, next, err := NewestRecords(ctx, c.Auditor(), number, wanted)
	if err != nil {
		return err
	}
	if err := showRecords(p.Out, records, follow); err != nil || !follow {
		return err
	}
	for r, err := range c.Auditor().Select(ctx, agents.Selection{From: next, Follow: true}) {
		if err != nil {
			return meshdir.Failure(err)
		}
		if !wanted(&r.Decision) {
			continue
		}
		if err := showRecords(p.Out, []bcp.Decision{r.Decision}, true); err != nil {
			return err
		}
	}
	return nil
}

// NewestRecords reads the last records of the audit that are wanted, nil for all, and
// returns the sequence behind them.
func NewestRecords(ctx context.Context, auditor *agents.Auditor, number int, wanted func(*bcp.Decision) bool) (records []bcp.Decision, next uint64, err error) {
	last, err := auditor.Last(ctx)
	if errors.Is(err, agents.ErrNoRecords) {
		return nil, 1, nil
	}
	if err != nil {
		return nil, 0, meshdir.Failure(err)
	}
	next = last.Sequence + 1
	if number == 0 {
		return nil, next, nil
	}
	// Where few of the newest are wanted, it looks further back.
	for reach := uint64(number); ; reach *= 4 {
		from := uint64(1)
		if last.Sequence > reach {
			from = last.Sequence - reach + 1
		}
		records = nil
		for r, err := range auditor.Audit(ctx, from) {
			if err != nil {
				return nil, 0, meshdir.Failure(err)
			}
			if wanted == nil || wanted(&r.Decision) {
				records = append(records, r.Decision)
			}
			if r.Sequence >= last.Sequence {
				break // what has come since is for whoever follows
			}
		}
		if len(records) >= number || from == 1 {
			return records[max(0, len(records)-number):], next, nil
		}
	}
}

// showRecords shows records: in a table, or line by line where more follow.
func showRecords(o *cli.Output, records []bcp.Decision, follow bool) error {
	switch {
	case o.JSON:
		for i := range records {
			if err := o.Line(&records[i]); err != nil {
				return err
			}
		}
	case follow:
		for i := range records {
			auditLine(o, &records[i])
		}
	case len(records) > 0:
		AuditTable(o, records)
	}
	return o.Flush()
}
