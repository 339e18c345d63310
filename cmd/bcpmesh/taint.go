package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

func taintCommand(p *program) *cobra.Command {
	return group("taint", "Report what an agent has read, or forget it",
		`Report what an agent has read, or forget it. What an agent answers is as tainted
as what it has read: its base_taint, what was reported for it, and what was
delivered to it. A report raises that and never lowers it, over restarts too.`,
		`  bcpmesh taint report main --source web
  bcpmesh taint reset main`,
		taintReportCommand(p), taintResetCommand(p))
}

func taintReportCommand(p *program) *cobra.Command {
	source := wordFlag{}
	for _, s := range bcp.TaintSources() {
		source.words = append(source.words, string(s))
	}
	cmd := taintVerbCommand(p, "report AGENT", "Say that an agent has read something that others may have written",
		`Say that an agent has read something that others may have written: a web page, a
document, the answer of an API, a row of a database, the output of an agent
outside the mesh. Each makes its taint high. A Controller can report so itself.`,
		"  bcpmesh taint report main --source document",
		func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
			if source.value == "" {
				return usagef("taint report: expected --source").withHint("one of %s", strings.Join(source.words, ", "))
			}
			return o.ReportTaint(ctx, agent, bcp.TaintSource(source.value))
		})
	source.addTo(cmd, "source", "where it came from")
	return cmd
}

func taintResetCommand(p *program) *cobra.Command {
	return taintVerbCommand(p, "reset AGENT", "Forget what was reported for an agent and delivered to it",
		`Forget what was reported for an agent and what was delivered to it: for an agent
that has begun anew and remembers nothing. Its base_taint stays.`,
		"  bcpmesh taint reset main", func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
			return o.ResetTaint(ctx, agent)
		})
}

func taintVerbCommand(p *program, use, short, long, example string, do func(context.Context, *agents.Operator, bcp.AgentName) error) *cobra.Command {
	var where stateFlags
	var wait durationFlag
	verb, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args:              arguments(1, "AGENT"),
		ValidArgsFunction: firstArgument(completeAgents(false)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), wait.value)
			defer cancel()
			agent, err := agentOf(where, args[0])
			if err != nil {
				return err
			}
			c, err := connectOperator(ctx, where)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := do(ctx, agents.NewOperator(c.Connection), agent); err != nil {
				return outcomeOf(err)
			}
			if p.out.json {
				return p.out.value(map[string]string{"agent": string(agent), "taint": verb})
			}
			p.out.printf("taint of %s: %s\n", agent, verb)
			return nil
		},
	}
	where.addTo(cmd)
	waitFlag(cmd, &wait, 30*time.Second, "how long to try")
	return cmd
}

// agentOf finds an agent of the mesh that an argument names.
func agentOf(where stateFlags, name string) (bcp.AgentName, error) {
	folder, err := where.folder()
	if err != nil {
		return "", err
	}
	def, err := folder.load()
	if err != nil {
		return "", err
	}
	var names []string
	for _, a := range def.Agents {
		if string(a.Name) == name {
			return a.Name, nil
		}
		names = append(names, string(a.Name))
	}
	return "", unknownAgent(name, names)
}
