package run

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/pages"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// DemoCommand returns the command demo.
func DemoCommand(p *cli.Program) *cobra.Command {
	var mbox, keep, pagesAt string
	var runs, desk bool
	limit := cli.NumberFlag{Value: 100, Least: 1}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See a hijacked mail reader meet the gateway",
		Long: `Run a temporary mesh in this process: a tainted reader works through a mailbox, a
clean assistant learns from it through the gateway.

On mail with a planted instruction the reader acts hijacked and says, word for
word, what the attacker wants. It shows three of the mails, and what it comes to.
--json has each mail: what was said, what was delivered, what was refused or held and
by which rule of the protocol, and what it cost in bits; then the ledger and the end of
the audit. Nothing is kept, unless --keep names a folder.

With --kernel it is the story of a task instead: a kernel has a mail summarised and
sent to its owner, with a planted instruction in the mail, a reader that obeys it,
and then a planner that is compromised.

With --web, a page tells the story as well, and compares what the assistant hears
without and with a gateway. The mesh keeps running until Ctrl-C, for you to look
around and to decide about held items.

With --desk it is the story of agents that models run: an editor, who reads nothing,
asks a reader of saved web pages and a reader of mail, some of them hostile, for the
brief of the week; then the same with readers that obey whatever they read. The models
are scripts, unless BCPMESH_MODEL names one, and the pages are part of the program,
unless BCPMESH_ARCHIVE names a folder of saved responses, or off for the live web.`,
		Example: `  bcpmesh demo
  bcpmesh demo --web localhost:4280
  bcpmesh demo --desk
  bcpmesh demo --kernel
  bcpmesh demo --mbox ~/mail/inbox.mbox --limit 50
  bcpmesh demo --keep ./mailroom && cd mailroom && bcpmesh up`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"mbox", "keep", "web"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return cli.Usagef("demo: --%s: expected a name, got nothing", name).WithHint("bcpmesh demo --help shows an example")
				}
			}
			cli.IgnoreBrokenPipes()
			for _, other := range []struct {
				name  string
				asked bool
				tell  func(context.Context, *cli.Program, string) error
			}{{"kernel", runs, demoKernel}, {"desk", desk, demoDesk}} {
				if !other.asked {
					continue
				}
				for _, name := range []string{"mbox", "limit", "web", "kernel", "desk"} {
					if name != other.name && cmd.Flags().Changed(name) {
						return cli.Usagef("demo: --%s and --%s cannot be combined", other.name, name)
					}
				}
				return other.tell(cmd.Context(), p, keep)
			}
			return demo(cmd.Context(), p, demoOptions{mbox, keep, pagesAt, limit.Value})
		},
	}
	cmd.Flags().StringVar(&mbox, "mbox", "", "read this mbox `FILE`, Maildir or single message instead of the example mail")
	cmd.Flags().StringVar(&keep, "keep", "", "keep definitions, journal and audit in this new `DIR`")
	cmd.Flags().StringVar(&pagesAt, "web", "", "serve the story and the pages of the mesh at this `ADDRESS` of this machine; port 0: any")
	cli.Complete(cmd, "web", cobra.FixedCompletions([]string{"localhost:4280"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&desk, "desk", false, "tell the story of agents that models run")
	cmd.Flags().BoolVar(&runs, "kernel", false, "tell the story of a task that a kernel does")
	cmd.Flags().Var(&limit, "limit", "read at most this many messages")
	return cmd
}

// demoOptions are the flags of the story of the mailroom.
type demoOptions struct {
	mbox, keep, web string
	limit           int
}

func demo(ctx context.Context, p *cli.Program, o demoOptions) (err error) {
	box, err := openMailbox(o.mbox)
	if err != nil {
		return err
	}
	defer func() { _ = box.Close() }() // it was only read
	s := newStory(p.Out)
	var server *web.Server // nil without --web
	if o.web != "" {
		if server, err = pages.Listen(p, "--web", o.web, s.scenes); err != nil {
			return err
		}
		defer func() { _ = server.Close() }() // it may be closed already
	}
	dir, err := demoFolder(o.keep, mailroom.Definitions())
	if err != nil {
		return err
	}
	defer func() {
		if o.keep == "" || err != nil {
			_ = os.RemoveAll(dir) // we made it, and what is left of it tells nothing
		}
	}()

	def, report := definition.Load(mailroom.Definitions())
	if def == nil {
		return cli.Failf("the example does not load: %s", report.Errors[0].Message)
	}
	m, err := launch(ctx, mesh.Config{
		Definition: def, State: home.State(dir), Version: cli.ProgramVersion(), OnDecision: s.decided,
		Logger: cli.NewLogger(hclog.Error, p.Out.Stderr),
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return startFailure(err, listening{}, dir)
	}
	defer func() { err = errors.Join(err, stopMesh(m)) }()

	s.begin(def, o.mbox)
	reader, err := credentials(m, mailroom.ReaderAgent, bcp.RoleReader)
	if err != nil {
		return err
	}
	assistant, err := credentials(m, mailroom.AssistantAgent, bcp.RoleController)
	if err != nil {
		return err
	}
	err = mailroom.Run(ctx, mailroom.Options{
		URL: m.URL(), Reader: reader, Assistant: assistant, Mail: box, Limit: o.limit, Said: s.said, Did: s.addAction,
		After: func(done mailroom.Done) error {
			if err := s.waitSettled(ctx); err != nil {
				return err
			}
			s.tell(done)
			return nil
		},
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return cli.Failf("the demonstration stopped: %s", err)
	}
	if err := m.Projected(ctx, s.last()); err != nil {
		return cli.Failf("the audit is late: %s", err)
	}
	ledger, records, err := readBooks(ctx, m, def)
	if err != nil {
		return err
	}
	if err := s.end(def, ledger, records, o.keep); err != nil || server == nil {
		return err
	}
	return showStory(ctx, p, m, server, dir)
}

// showStory serves pages about the mesh of a demonstration until ctx ends.
func showStory(ctx context.Context, p *cli.Program, m *mesh.Mesh, server *web.Server, dir string) error {
	if err := p.Out.Flush(); err != nil {
		return err
	}
	ready := home.Ready(home.State(dir))
	if err := meshdir.WriteReady(ready, meshdir.Ready{URL: m.URL(), State: home.State(dir), PID: os.Getpid(), Web: server.URL()}); err != nil {
		return cli.Failf("%s cannot be written: %s", cli.Quoted(ready), cli.FileReason(err))
	}
	defer func() { _ = os.Remove(ready) }()
	p.Out.Talkf("the story is at %s until you press Ctrl-C", server.URL())
	pagesOf := serveWeb(ctx, server, meshdir.StateFlags{Dir: dir})
	defer pagesOf.stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-pagesOf.failed:
		return err
	case <-m.Done():
		return cli.Failf("the gateway stopped by itself")
	}
}

// openMailbox opens the user's mail, or the example's. There is a message in it.
func openMailbox(path string) (*mailbox.Mailbox, error) {
	if path == "" {
		box, err := mailbox.OpenFS(mail.FS, ".", mailbox.Limits{})
		if err != nil {
			return nil, cli.Failf("the example mail cannot be read: %s", err)
		}
		return box, nil
	}
	box, err := mailbox.Open(path)
	if err == nil {
		_, err = box.Next()
		_ = box.Close() // it was only read
		if err == nil {
			box, err = mailbox.Open(path)
		}
	}
	if err == nil {
		return box, nil
	}
	reason := strings.TrimPrefix(cli.FileReason(err), "mailbox "+path+": ")
	switch {
	case errors.Is(err, io.EOF):
		return nil, cli.Failf("%s holds no message", cli.Quoted(path)).WithHint("name an mbox file, a Maildir, or one message")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, cli.Failf("%s cannot be read: %s", cli.Quoted(path), reason)
	}
	return nil, cli.Failf("%s is not a mailbox: %s", cli.Quoted(path), reason).WithHint("name an mbox file, a Maildir, or one message")
}

// demoFolder makes the folder of the mesh, a temporary one or one to keep, with the
// definitions in it.
func demoFolder(keep string, definitions fs.FS) (string, error) {
	dir, what := keep, "--keep "+cli.Quoted(keep)
	var err error
	if keep == "" {
		what = "a temporary folder"
		dir, err = os.MkdirTemp("", "bcpmesh-demo-")
	} else if err = os.Mkdir(keep, 0o700); err != nil {
		return "", cli.Failf("%s: %s", what, cli.FileReason(err)).WithHint("name a new folder in an existing one")
	}
	if err == nil {
		if err = copyDefinitions(dir, definitions); err != nil {
			_ = os.RemoveAll(dir) // we made it
		}
	}
	if err != nil {
		return "", cli.Failf("%s: %s", what, cli.FileReason(err))
	}
	return dir, nil
}

func copyDefinitions(dir string, definitions fs.FS) error {
	return fs.WalkDir(definitions, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(path))
		if entry.IsDir() {
			return os.Mkdir(target, 0o700)
		}
		b, err := fs.ReadFile(definitions, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if strings.HasSuffix(path, ".sh") { // an embedded file has lost it
			mode = 0o700
		}
		return os.WriteFile(target, b, mode)
	})
}

func credentials(m *mesh.Mesh, agent bcp.AgentName, role bcp.Role) (agents.Credentials, error) {
	creds, err := m.Issue(agent, role, time.Hour)
	if err != nil {
		return agents.Credentials{}, cli.Failf("credentials for %s: %s", agent, err)
	}
	return agents.CredsText(creds.Text()), nil
}

// readBooks reads ledger and audit as any auditor of the mesh would.
func readBooks(ctx context.Context, m *mesh.Mesh, def *bcp.Mesh) ([]bcp.LedgerLine, []bcp.Decision, error) {
	creds, err := credentials(m, def.Auditors[0], bcp.RoleAuditor)
	if err != nil {
		return nil, nil, err
	}
	conn, err := agents.Connect(ctx, m.URL(), creds, agents.Options{Name: def.Auditors[0], Logger: hclog.NewNullLogger()})
	if err != nil {
		return nil, nil, cli.Failf("the auditor cannot connect: %s", err)
	}
	defer conn.Close()
	auditor := agents.NewAuditor(conn)
	newest, err := auditor.Ledger(ctx)
	if err != nil {
		return nil, nil, cli.Failf("the ledger cannot be read: %s", err)
	}
	var lines []bcp.LedgerLine
	for _, r := range newest {
		line, err := bcp.DecodeLedgerLine(r.Data)
		if err != nil {
			return nil, nil, cli.Failf("the ledger cannot be read: %s", err)
		}
		lines = append(lines, line)
	}
	var records []bcp.Decision
	for r, err := range auditor.Audit(ctx, 0) {
		if err != nil {
			return nil, nil, cli.Failf("the audit cannot be read: %s", err)
		}
		records = append(records, r.Decision)
	}
	return lines, records, nil
}
