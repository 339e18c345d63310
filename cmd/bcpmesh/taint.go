package main

import (
	"context"
	"strings"

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
	cmd := &cobra.Command{
		Use: "report AGENT", Short: "Say that an agent has read something that others may have written",
		Long: `Say that an agent has read something that others may have written: a web page, a
document, the answer of an API, a row of a database, the output of an agent
outside the mesh. Each makes its taint high. A Controller can report so itself.`,
		Example: "  bcpmesh taint report main --source document",
	}
	source.addTo(cmd, "source", "where it came from")
	return taintVerbCommand(p, cmd, func(where stateFlags, agent string) error {
		if source.value == "" {
			return usagef("taint report: expected --source").withHint("one of %s", strings.Join(source.words, ", "))
		}
		return isAgent(where, agent)
	}, func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
		return o.ReportTaint(ctx, agent, bcp.TaintSource(source.value))
	})
}

func taintResetCommand(p *program) *cobra.Command {
	return taintVerbCommand(p, &cobra.Command{
		Use: "reset AGENT", Short: "Forget what was reported for an agent and delivered to it",
		Long: `Forget what was reported for an agent and what was delivered to it: for an agent
that has begun anew and remembers nothing. Its base_taint stays.`,
		Example: "  bcpmesh taint reset main",
	}, isAgent, func(ctx context.Context, o *agents.Operator, agent bcp.AgentName) error {
		return o.ResetTaint(ctx, agent)
	})
}

func taintVerbCommand(p *program, cmd *cobra.Command, check func(stateFlags, string) error, do func(context.Context, *agents.Operator, bcp.AgentName) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = arguments(1, "AGENT"), firstArgument(completeAgents(false))
	return operatorCommand(cmd, check, func(ctx context.Context, o *client, agent string) error {
		shard, err := o.one(bcp.AgentName(agent))
		if err != nil {
			return err
		}
		if err := do(ctx, o.operator(shard), bcp.AgentName(agent)); err != nil {
			return err
		}
		if p.out.json {
			return p.out.value(map[string]string{"agent": agent, "taint": cmd.Name()})
		}
		p.out.printf("taint of %s: %s\n", agent, cmd.Name())
		return nil
	})
}

// isAgent refuses what is no agent of the mesh.
func isAgent(where stateFlags, name string) error {
	folder, err := where.folder()
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	var names []string
	for _, a := range def.Agents {
		if string(a.Name) == name {
			return nil
		}
		names = append(names, string(a.Name))
	}
	return unknownAgent(name, names)
}
