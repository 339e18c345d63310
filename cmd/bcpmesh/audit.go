package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func ledgerCommand(p *program) *cobra.Command {
	return group("ledger", "Show what the channels have spent",
		"Show what the channels have spent of their budgets, in bits.",
		"  bcpmesh ledger show", ledgerShowCommand(p))
}

func ledgerShowCommand(p *program) *cobra.Command {
	var who clientFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show each channel's budget, charges and what remains",
		Long: `Show the newest line of each channel of the ledger: the budget of its epoch in
nominal bits, what is settled, what open queries reserve, what remains, and the
capacity that was charged, which bounds what the controller can have learned.

It reads as one of the mesh's auditors.`,
		Example: `  bcpmesh ledger show
  bcpmesh ledger show --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := who.connect(cmd.Context(), bcp.RoleAuditor)
			if err != nil {
				return err
			}
			defer c.Close()
			lines, err := newestLines(cmd.Context(), agents.NewAuditor(c.Connection))
			if err != nil {
				return err
			}
			if p.out.json {
				return p.out.value(lines)
			}
			if len(lines) == 0 {
				p.out.talkf("nothing was charged yet")
				return nil
			}
			def := c.definition
			if def == nil {
				def = &bcp.Mesh{}
			}
			p.out.ledgerTable(def, lines)
			return nil
		},
	}
	who.addTo(cmd, "auditor")
	return cmd
}

// newestLines reads the newest line of each channel.
func newestLines(ctx context.Context, auditor *agents.Auditor) ([]bcp.LedgerLine, error) {
	records, err := auditor.Ledger(ctx)
	if err != nil {
		return nil, outcomeOf(err)
	}
	lines := []bcp.LedgerLine{}
	for _, r := range records {
		line, err := bcp.DecodeLedgerLine(r.Data)
		if err != nil {
			return nil, failf("a line of the ledger cannot be read: %s", err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func auditCommand(p *program) *cobra.Command {
	return group("audit", "Show what happened",
		"Show what happened: every decision of the gateway, in order.",
		"  bcpmesh audit tail --follow", auditTailCommand(p))
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
			return tail(cmd.Context(), p, agents.NewAuditor(c.Connection), number.value, follow)
		},
	}
	who.addTo(cmd, "auditor")
	cmd.Flags().VarP(&number, "number", "n", "how many records")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new records until interrupted")
	return cmd
}

func tail(ctx context.Context, p *program, auditor *agents.Auditor, number int, follow bool) error {
	records, next, err := newestRecords(ctx, auditor, number)
	if err != nil {
		return err
	}
	if err := p.out.records(records, follow); err != nil || !follow {
		return err
	}
	for r, err := range auditor.Follow(ctx, next) {
		if err != nil {
			return outcomeOf(err)
		}
		if err := p.out.records([]bcp.Decision{r.Decision}, true); err != nil {
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
func (o *output) records(records []bcp.Decision, follow bool) error {
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
