package main

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func auditCommand(p *program) *cobra.Command {
	return group("audit", "Show what happened, prove it, decide it again, or erase what was said",
		"Show what happened: every decision of the gateway, in order. Export it, and verify\nthat an export is what was signed. Decide it again by other definitions. Or erase\nwhat was said on a channel: that it happened stays.",
		`  bcpmesh audit tail --follow
  bcpmesh audit replay --since 1h`,
		auditTailCommand(p), auditReplayCommand(p), auditRedecideCommand(p), auditExportCommand(p), auditVerifyCommand(p), auditKeyCommand(p),
		auditCheckpointCommand(p), auditProveCommand(p), auditEraseCommand(p))
}

func auditTailCommand(p *program) *cobra.Command {
	var who clientFlags
	var follow bool
	number := numberFlag{value: 20}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest records of the audit",
		Long: `Show the newest records of the audit: asks, answers, pushes, verdicts, charges,
deliveries, connections, violations of permissions. What was said stands there
as a salted commitment only.

It reads as one of the mesh's auditors.`,
		Example: `  bcpmesh audit tail
  bcpmesh audit tail -n 100 --json
  bcpmesh audit tail --follow`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			return tail(cmd.Context(), p, c, number.value, follow)
		},
	}
	who.addTo(cmd, "auditor")
	cmd.Flags().VarP(&number, "number", "n", "how many records")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new records until interrupted")
	return cmd
}

func tail(ctx context.Context, p *program, c *client, number int, follow bool) error {
	var mu sync.Mutex
	next := map[int]uint64{} // by shard
	lists, missing := onShards(ctx, c.shards, func(ctx context.Context, shard int) ([]bcp.Decision, error) {
		records, behind, err := newestRecords(ctx, c.auditor(shard), number)
		mu.Lock()
		defer mu.Unlock()
		next[shard] = behind
		return records, err
	})
	if lists == nil {
		return missing
	}
	records := oneList(lists)
	slices.SortStableFunc(records, func(a, b sharded[bcp.Decision]) int { return a.Of.At().Compare(b.Of.At()) })
	if len(lists) > 1 {
		records = records[max(0, len(records)-number):]
	}
	if err := p.out.records(records, follow); err != nil || missing != nil || !follow {
		return errors.Join(err, missing)
	}
	from := func(_ context.Context, shard int) (agents.Selection, error) {
		return agents.Selection{From: next[shard], Follow: true}, nil
	}
	for r, err := range c.records(ctx, c.shards, from) {
		if err != nil {
			return err
		}
		if err := p.out.records([]sharded[bcp.Decision]{{Of: r.Of.Decision, Shard: r.Shard, several: r.several}}, true); err != nil {
			return err
		}
	}
	return nil
}

// newestRecords reads the last records of the audit and returns the sequence
// behind them.
func newestRecords(ctx context.Context, auditor *agents.Auditor, number int) (records []bcp.Decision, next uint64, err error) {
	last, err := auditor.Last(ctx)
	if errors.Is(err, agents.ErrNoRecords) {
		return nil, 1, nil
	}
	if err != nil {
		return nil, 0, outcomeOf(err)
	}
	next = last.Sequence + 1
	if number == 0 {
		return nil, next, nil
	}
	from := uint64(1)
	if last.Sequence > uint64(number) {
		from = last.Sequence - uint64(number) + 1
	}
	for r, err := range auditor.Audit(ctx, from) {
		if err != nil {
			return nil, 0, outcomeOf(err)
		}
		records, next = append(records, r.Decision), r.Sequence+1
		if len(records) == number {
			break // what has come since is for whoever follows
		}
	}
	return records, next, nil
}

// records shows records: in a table, or line by line where more follow.
func (o *output) records(records []sharded[bcp.Decision], follow bool) error {
	switch {
	case o.json:
		for i := range records {
			if err := o.line(&records[i]); err != nil {
				return err
			}
		}
	case follow:
		for i := range records {
			o.auditLine(&records[i])
		}
	case len(records) > 0:
		o.auditTable(records)
	}
	return o.flush()
}
