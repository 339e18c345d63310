package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func auditEraseCommand(p *program) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	var wait durationFlag
	var channel channelFlag
	var before dateFlag
	var raw, yes bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Destroy the keys of what was said on a channel",
		Long: `Destroy the keys under which the journal keeps what was said on a channel in the
days before a date, in UTC: answers, questions, ids that agents chose; with --raw
also the messages as they came, which otherwise expire with raw_retention. Older
snapshots go.

Nobody can read it any more. Verdicts, bits, names and times stay, and the chain
of decisions verifies. The erasure itself is recorded first. Where the mesh still
needs something of those days, nothing is erased and you hear what.

It does not reach backups and exports of before, nor what agents and models were
told. The mesh has to run.`,
		Example: `  bcpmesh audit erase --channel main/researcher --before 2026-03-15
  bcpmesh audit erase --channel main/researcher --before 2026-03-15 --raw --yes
  bcpmesh audit erase --channel _ --before 2026-03-15  # what belongs to no channel`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if channel.text == "" || before.text == "" {
				return usagef("audit erase: expected --channel and --before").withHint("audit erase --help shows an example")
			}
			if !yes {
				if !p.interactive() {
					return usagef("audit erase: expected --yes, where nobody can be asked")
				}
				ok, err := newPrompter(cmd.Context(), p).confirm(fmt.Sprintf("Erase what was said on %s before %s, for ever?", channel.text, before.text))
				if err != nil {
					return err
				}
				if !ok {
					return failf("nothing was erased")
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			// Asked again, it would record another erasure.
			who := clientFlags{where: where, attempt: wait.value, shard: shard}
			c, err := who.connect(ctx, bcp.RoleOperator)
			if err != nil {
				return err
			}
			defer c.Close()
			on, err := c.one(channel.value.Controller)
			if err != nil {
				return err
			}
			result, err := c.operator(on).Erase(ctx, bcp.EraseRequest{Controller: channel.value.Controller, Reader: channel.value.Reader,
				Before: before.text, Raw: raw})
			if err != nil {
				return outcomeOf(err)
			}
			return p.showErased(result)
		},
	}
	where.addTo(cmd)
	shard.addTo(cmd, "on a cluster: the shard of what belongs to no channel, or to one that is gone")
	waitFlag(cmd, &wait, 10*time.Minute, "how long to try")
	cmd.Flags().Var(&channel, "channel", "the channel, or _ for what belongs to none")
	cmd.Flags().Var(&before, "before", "the first day that is kept")
	cmd.Flags().BoolVar(&raw, "raw", false, "also the messages as they came")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (p *program) showErased(r agents.Erased) error {
	var failed error
	switch {
	case r.Decision == 0:
		failed = failf("nothing was erased: %s", plain(strings.Join(r.Reasons, "; ")))
	case r.Failed != "":
		failed = failf("the erasure is recorded and not complete: %s", plain(r.Failed)).withHint("ask again: what is erased stays so")
	}
	if p.out.json {
		return errors.Join(p.out.value(r), failed)
	}
	if failed == nil {
		p.out.printf("erased: %s, %s of raw messages\n", count(r.Keys, "key"), count(r.RawKeys, "key"))
		p.out.talkf("recorded as decision %d; backups and exports of before are not reached", r.Decision)
	}
	return failed
}

// channelFlag is CONTROLLER/READER, or _ for no channel.
type channelFlag struct {
	text  string
	value bcp.ChannelKey
	named bool // _ is none
}

func (f *channelFlag) String() string { return f.text }

// Type names the flag's values in the help.
func (f *channelFlag) Type() string { return "CONTROLLER/READER" }

// Set takes two names of agents.
func (f *channelFlag) Set(s string) error {
	if s == "_" && !f.named {
		f.text, f.value = s, bcp.ChannelKey{}
		return nil
	}
	controller, reader, _ := strings.Cut(s, "/")
	c, err := bcp.ParseAgentName(controller)
	r, also := bcp.ParseAgentName(reader)
	switch {
	case err == nil && also == nil:
	case f.named:
		return errors.New("expected two agents such as main/researcher")
	default:
		return errors.New("expected two agents such as main/researcher, or _")
	}
	f.text, f.value = s, bcp.ChannelKey{Controller: c, Reader: r}
	return nil
}

// dateFlag is a day in UTC.
type dateFlag struct{ text string }

func (f *dateFlag) String() string { return f.text }

// Type names the flag's values in the help.
func (f *dateFlag) Type() string { return "DATE" }

// Set takes a date.
func (f *dateFlag) Set(s string) error {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return errors.New("expected a date such as 2026-03-15")
	}
	f.text = s
	return nil
}
