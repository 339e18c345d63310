// Command bcpmesh runs and inspects a mesh of agents that exchange no more
// information than their operator declared.
package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/attach"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/define"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/run"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

//go:embed help.txt
var help string

func main() { cli.Main(rootCommand) }

// commandGroups are the commands, by what people do with them.
func commandGroups(p *cli.Program) []cli.CommandGroup {
	return []cli.CommandGroup{
		{Title: "Run a mesh", Commands: []*cobra.Command{
			cli.New(p, "init [DIR]", &define.Init{}),
			cli.New(p, "check [DIR]", &define.Check{}),
			cli.New(p, "up [DIR]", &run.Up{}),
			cli.New(p, "reload", &run.Reload{}),
			cli.New(p, "status", &run.Status{}),
			cli.New(p, "doctor", &run.Doctor{}),
			cli.New(p, "web", &run.Web{}),
			cli.New(p, "demo", &run.Demo{}),
		}},
		{Title: "Take part", Commands: []*cobra.Command{
			cli.New(p, "query READER [SPEC]", &byhand.Query{}),
			cli.New(p, "answer [QUERY_ID] [JSON]", &byhand.Answer{}),
			cli.New(p, "publish CONTROLLER SUBSCRIPTION [JSON]", &byhand.Publish{}),
			cli.New(p, "inbox", &byhand.Inbox{}),
			cli.New(p, "session [open|close]", &byhand.Session{}),
			cli.New(p, "taint AGENT", &byhand.Taint{}),
			cli.New(p, "agent [-- COMMAND [ARG…]]", &attach.Agent{}, cli.New(p, "run NAME", &attach.AgentRun{})),
			cli.New(p, "reader [-- PROGRAM [ARG...]]", &attach.Reader{}),
			cli.New(p, "planner [-- PROGRAM [ARG...]]", &attach.Planner{}),
			cli.New(p, "tool [-- PROGRAM [ARG...]]", &attach.Tool{}, cli.New(p, "import SERVICE [-- SERVER [ARG...]]", &attach.ToolImport{})),
			audit.KernelCommand(p, cli.New(p, "check KERNEL GRANT [PLAN]", &simulate.KernelCheck{}), cli.New(p, "simulate", &simulate.KernelSimulate{})),
		}},
		{Title: "Decide", Commands: []*cobra.Command{
			byhand.ApprovalsCommand(p),
			cli.Noun(cli.New(p, "proposals [COMMAND]", &define.Proposals{}), nil, cli.New(p, "send READER [JSON]", &define.Send{})),
		}},
		{Title: "Look back", Commands: []*cobra.Command{
			audit.AuditCommand(p),
			cli.New(p, "explain ID", &audit.Explain{}),
			cli.Group("ledger", cli.New(p, "show", &audit.LedgerShow{Channel: client.ChannelFlag{Named: true}}), cli.New(p, "reconcile", &audit.LedgerReconcile{})),
		}},
		{Title: "Connect", Commands: []*cobra.Command{
			cli.Noun(cli.New(p, "creds [FILE]", &keys.List{}), cli.IsID,
				cli.New(p, "issue AGENT", &keys.Issue{}), cli.New(p, "invite AGENT", &keys.Invite{}), cli.New(p, "revoke AGENT|GATEWAY", &keys.Revoke{})),
			cli.New(p, "join TOKEN", &keys.Join{}),
			cli.ContextCommand(p),
			cli.New(p, "mcp", &attach.MCP{}),
			cli.New(p, "wrap READER -- SERVER [ARG...]", &attach.Wrap{}),
			cli.New(p, "adopt HOST --as AGENT", &attach.Adopt{}),
			cli.New(p, "hook session|tool", &attach.Hook{}),
			cli.New(p, "fetch URL", &simulate.Fetch{}),
			cli.New(p, "guard OPERATION [FILE]", &simulate.Guard{}),
			elsewhere(p, bridge, "a2a", "Serve a controller by A2A, or make a Reader of an A2A agent"),
			elsewhere(p, bridge, "relay", "Forward deliveries of a site's mesh to a mesh above it"),
			cli.Noun(cli.New(p, "role [COMMAND]", &define.Roles{}), nil,
				cli.New(p, "report", &define.RoleReport{}), cli.New(p, "attest [KERNEL...]", &define.RoleAttest{}), cli.New(p, "show [ORGANISATION] FILE...", &define.RoleShow{}),
				cli.New(p, "verify [FILE...] AGENT", &define.RoleVerify{}), cli.New(p, "simulate", &simulate.RoleSimulate{})),
		}},
		{Title: "Maintain", Commands: []*cobra.Command{
			cli.New(p, "perms [DIR]", &define.Perms{}),
			cli.Group("keys", cli.New(p, "seal", &keys.Seal{}), cli.New(p, "rotate", &keys.Rotate{})),
			cli.Group("accounts", cli.New(p, "export [DIR]", &keys.Export{}), cli.New(p, "push [DIR]", &keys.PushFlags{})),
			cli.New(p, "backup FILE", &run.Backup{}),
			cli.New(p, "restore FILE... [DIR]", &run.Restore{}),
			cli.New(p, "gateway [DIR]", &run.Gateway{}),
		}},
		{Title: "Laboratory", Commands: []*cobra.Command{
			cli.New(p, "validate [FILE...]", &define.Validate{}),
			elsewhere(p, laboratory, "conformance", "Test an agent in any language against the protocol"),
			elsewhere(p, laboratory, "redteam", "Attack a mesh with the credentials of hijacked agents"),
			elsewhere(p, laboratory, "bench", "Measure the cost of the protocol on this machine"),
		}},
	}
}

func rootCommand(p *cli.Program) *cobra.Command {
	files, none, agents := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), cobra.NoFileCompletions, meshdir.CompleteAgents(false)
	p.Complete = map[string]cobra.CompletionFunc{
		"AGENT": meshdir.CompleteAgents(true), "NAME": agents, "READER": agents, "CONTROLLER": agents, "KERNEL": client.CompleteKernels,
		"DIR": cli.CompleteFolders, "FILE": files, "ORGANISATION": files, "PLAN": files,
		"CONTROLLER/READER": client.CompleteChannels, "HOST,*.HOST,HOST:PORT": none, "NKEY": none, "ORGANISATION=FILE": none, "ORIGIN": none, "RUN": none, "URL": none,
		"FILE or DIR": cobra.FixedCompletions([]string{"jwt", "creds", "conf"}, cobra.ShellCompDirectiveFilterFileExt),
		"ADDRESS":     cobra.FixedCompletions([]string{"localhost:4280"}, cobra.ShellCompDirectiveNoFileComp),
	}
	p.Explain = meshdir.Failure
	root := cli.Root(p, help, func(cmd *cobra.Command) error { return welcome(p, cmd) }, commandGroups(p),
		attach.CellCommand(p, attach.RunCell), cli.CompletionCommand(p))
	cli.Complete(root, "as", meshdir.CompleteAgents(true))
	return root
}

// welcome is what the program says without a command: how the mesh of this folder is, if
// there is one, and what there is.
func welcome(p *cli.Program, root *cobra.Command) error {
	if p.Out.JSON {
		return p.Out.Value(map[string]string{"command": root.CommandPath(), "help": strings.TrimSpace(root.Long), "usage": root.UsageString()})
	}
	folder, err := meshdir.Find(".")
	switch about, running := folder.Running(); {
	case err != nil:
		p.Out.Printf("bcpmesh demo shows what it does; bcpmesh init office makes a mesh.\n\n")
	case running == nil && about.Alive():
		p.Out.Printf("The mesh in %s runs at %s; bcpmesh status says more.\n\n", cli.Plain(folder.Dir), about.URL)
	default:
		p.Out.Printf("The mesh in %s is stopped; bcpmesh up starts it.\n\n", cli.Plain(folder.Dir))
	}
	return cli.WriteUsage(root)
}
