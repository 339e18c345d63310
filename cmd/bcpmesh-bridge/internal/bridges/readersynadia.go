package bridges

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/synadia"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/serve"
)

// synadiaOptions are the flags of synadia.
type synadiaOptions struct {
	client.AgentFlags
	agent    string
	context  string // the agent's NATS system
	timeout  cli.DurationFlag
	parallel int
}

// ReaderSynadiaCommand returns the command synadia.
func ReaderSynadiaCommand(p *cli.Program) *cobra.Command {
	o := synadiaOptions{timeout: cli.DurationFlag{Value: 2 * time.Minute, Least: time.Second}}
	cmd := &cobra.Command{
		Use:   "synadia --context CONTEXT --agent SUBJECT",
		Short: "Answer each query by prompting an agent on another NATS system",
		Long: `Answer each query by prompting an agent that speaks the Synadia Agent Protocol for
NATS, version 0.3: Claude Code, PI, OpenClaw and others have plugins for it. The agent
is not trusted: its answers are validated and charged like those of any Reader.

The agent is on a NATS system of its own, or in another account: --context says where:
a context of the nats CLI, by name or file, with url, creds and ca. Without --agent
the command shows the agents that it finds there, and prompts none.

Each query is one prompt with an inbox of its own. The answer is the JSON object in
the agent's text, of at most 256 KiB. Questions from the agent get no answer, since
that would be a path from the Controller to it. An agent that is silent for a minute
is given up.`,
		Example: `  bcpmesh synadia --context agents
  bcpmesh synadia --context agents --agent agents.prompt.pi.kim.desk --creds researcher.creds`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.context == "" {
				return cli.Usagef("synadia: expected --context CONTEXT").WithHint("nats context save agents --server nats://HOST --creds FILE makes one")
			}
			if o.parallel < 1 || o.parallel > serve.MaxParallel {
				return cli.Usagef("synadia: --parallel: expected 1 to %d, got %d", serve.MaxParallel, o.parallel)
			}
			if o.agent == "" {
				return findAgents(cmd.Context(), p, o)
			}
			o.FromEnvironment(p.Env, bcp.RoleReader)
			if o.Creds == "" {
				return cli.Usagef("synadia: expected --creds FILE").WithHint("bcpmesh creds issue AGENT --out FILE makes one")
			}
			return answerBySynadia(cmd.Context(), p, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddTo(cmd, "creds `FILE` of a reader (default: $BCPMESH_READER_CREDS)")
	cmd.Flags().StringVar(&o.context, "context", "", "where the agent is: a `CONTEXT` of the nats CLI, by name or file")
	cmd.Flags().StringVar(&o.agent, "agent", "", "the `SUBJECT` of the agent's prompts")
	cmd.Flags().Var(&o.timeout, "timeout", "how long one answer may take")
	cmd.Flags().IntVar(&o.parallel, "parallel", 4, "how many `QUERIES` are answered at a time")
	return cmd
}

// connectContext connects to the NATS system of a context.
func connectContext(o synadiaOptions) (*nats.Conn, error) {
	c, err := readNATSContext(o.context)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(c.url, append(c.options, nats.Name("bcpmesh synadia"), nats.MaxReconnects(-1), nats.Timeout(10*time.Second))...)
	if err != nil {
		return nil, cli.Failf("the NATS system of the context %s cannot be reached: %s", cli.Quoted(o.context), cli.FileReason(err))
	}
	return conn, nil
}

// findAgents shows who can be prompted, for a person who decides whom to take.
func findAgents(ctx context.Context, p *cli.Program, o synadiaOptions) error {
	conn, err := connectContext(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := synadia.Find(ctx, conn)
	if err != nil {
		return synadiaFailure(o.agent, err)
	}
	if p.Out.JSON {
		type line struct {
			Subject     string `json:"subject"`
			Agent       string `json:"agent"`
			Owner       string `json:"owner"`
			Session     string `json:"session"`
			Version     string `json:"protocol_version"`
			Description string `json:"description"`
			Speaks      bool   `json:"usable"`
		}
		lines := []line{}
		for _, f := range found {
			lines = append(lines, line{f.Subject, f.Agent, f.Owner, f.Session, f.Version, f.Description, f.Speaks})
		}
		return p.Out.Value(lines)
	}
	if len(found) == 0 {
		return cli.Failf("no agent answers in the context %s", cli.Quoted(o.context)).WithHint("nats micro list shows which services are there")
	}
	p.Out.Printf("What agents say of themselves, not to be trusted:\n\n")
	var rows [][]string
	for _, f := range found {
		usable := "yes"
		if !f.Speaks {
			usable = "no: speaks " + f.Version
		}
		rows = append(rows, []string{f.Subject, cli.Plain(f.Agent), cli.Plain(f.Owner), cli.Plain(f.Description), cli.Plain(usable)})
	}
	p.Out.Table([]string{"subject", "agent", "owner", "description", "usable"}, rows)
	p.Out.Printf("\nTo answer with one of them, add:\n  --agent SUBJECT --creds FILE\n")
	return nil
}

// answerBySynadia answers queries until interrupted.
func answerBySynadia(ctx context.Context, p *cli.Program, o synadiaOptions) error {
	agent, err := o.Connect(ctx, p, "reader", o.parallel)
	if err != nil {
		return err
	}
	defer agent.Conn.Close()
	if agent.Role != bcp.RoleReader {
		return cli.Failf("%s belongs to %s, %s: expected the creds of a reader", cli.Quoted(o.Creds), agent.Name, agent.Role)
	}
	conn, err := connectContext(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	asked, err := synadia.New(synadia.Config{Conn: conn, Subject: o.agent, Timeout: o.timeout.Value, Logger: agent.Log})
	if err == nil {
		err = asked.Check(ctx)
	}
	if err != nil {
		return synadiaFailure(o.agent, err)
	}
	return serve.Queries(ctx, p, agent.Conn, asked.Answer, string(agent.Name)+" answers with the agent at "+o.agent)
}

func synadiaFailure(agent string, err error) error {
	var failed *stdio.RunError
	switch {
	case errors.Is(err, synadia.ErrSubject):
		return cli.Usagef("synadia: --agent: expected a subject such as agents.prompt.pi.kim.desk, got %s", cli.Quoted(agent)).WithHint("without --agent the command shows those that it finds")
	case errors.Is(err, synadia.ErrAbsent):
		return cli.Failf("no agent serves %s", cli.Quoted(agent)).WithHint("without --agent the command shows those that it finds")
	case errors.Is(err, synadia.ErrVersion):
		return cli.Failf("the agent at %s speaks another version of the protocol than 0.3", cli.Quoted(agent))
	case errors.As(err, &failed):
		return cli.Failf("agents cannot be looked for: %s", failed.Reason)
	default:
		return fmt.Errorf("synadia: %w", err)
	}
}
