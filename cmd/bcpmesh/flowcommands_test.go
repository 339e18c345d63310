package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/home"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

// TestFlowScripts plays the scripts that tell the seeds' flows and error cases,
// and in the long form then again with the mesh killed, and started again on the same
// state and port, at each of their steps. They say nothing about which it is: the results
// are the same.
//
// covers P4.5, P9.1, P9.5, A-RECONN
func TestFlowScripts(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		if restarts && !effort.Long() {
			continue
		}
		name := map[bool]string{false: "as it is", true: "killed at each step"}[restarts]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playScripts(t, testscript.Params{
				Dir:                 "testdata/flow",
				RequireUniqueNames:  true,
				RequireExplicitExec: true,
				UpdateScripts:       *update,
				Cmds:                flowCommands,
				Setup: func(env *testscript.Env) error {
					env.Setenv("GORACE", "atexit_sleep_ms=0")
					p := &played{restarts: restarts, address: clustertest.FreeAddress(t)}
					env.Values[playedKey{}] = p
					env.Defer(p.kill)
					return nil
				},
			})
		})
	}
}

// played is the mesh of one script, a process of its own.
type played struct {
	restarts bool
	folder   string
	address  string
	cmd      *exec.Cmd
}

type playedKey struct{}

var flowCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exitcode": clitest.Exitcode, "jsonenv": jsonenvCommand,
	"mesh": meshCommand, "step": stepCommand, "receive": receiveCommand, "review": reviewCommand, "told": toldCommand, "listed": listedCommand, "until": untilCommand, "gather": gatherCommand,
}

// kill ends the process as a power cut would.
func (p *played) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// start runs the mesh, on the port that it had before.
func (p *played) start(ts *testscript.TestScript) {
	ready := ts.MkAbs("ready.json")
	_ = os.Remove(ready)
	bcpmesh, err := exec.LookPath("bcpmesh")
	ts.Check(err)
	p.cmd = exec.Command(bcpmesh, "up", p.folder, "--listen", p.address, "--ready-file", ready)
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	ts.Check(p.cmd.Start())
	for deadline := time.Now().Add(scriptTimeout); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &struct{ URL string }{}) == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the mesh is not ready")
		}
	}
}

func playedBy(ts *testscript.TestScript) *played { return ts.Value(playedKey{}).(*played) }

// meshCommand is `mesh DIR`: the mesh of the folder runs from here on.
func meshCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mesh DIR")
	}
	p := playedBy(ts)
	p.folder = ts.MkAbs(args[0])
	p.start(ts)
}

// stepCommand is `step ARROW`: what follows is this arrow of a diagram, or this
// row of a table.
func stepCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: step ARROW")
	}
	if p := playedBy(ts); p.restarts {
		p.kill()
		p.start(ts)
	}
}

// receiveCommand is `receive PATTERN`: the Controller gets and acknowledges
// deliveries, until a line of JSON matches; `! receive` finds that nothing waits.
func receiveCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg && len(args) == 0 {
		ts.Check(ts.Exec("bcpmesh", "inbox", "--json", "--wait", "600ms"))
		if out := ts.ReadFile("stdout"); out != "" {
			ts.Fatalf("the Controller gets %s", out)
		}
		return
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: receive PATTERN, or ! receive")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	var all []string
	for deadline := time.Now().Add(scriptTimeout); time.Now().Before(deadline); {
		ts.Check(ts.Exec("bcpmesh", "inbox", "--json", "--wait", "300ms"))
		out := ts.ReadFile("stdout")
		if pattern.MatchString(out) {
			return
		}
		all = append(all, out)
	}
	ts.Fatalf("no delivery matches %s: %q", args[0], all)
}

// listedCommand is `listed PATTERN`: the Reader is asked what matches.
func listedCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listed PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(scriptTimeout); time.Now().Before(deadline); {
		ts.Check(ts.Exec("bcpmesh", "answer", "--json", "--wait", "300ms"))
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("no query matches %s", args[0])
}

// connected connects as an agent or a person of the script's mesh.
func connected(ts *testscript.TestScript, name bcp.AgentName, role bcp.Role) (*agents.Connection, context.Context) {
	p := playedBy(ts)
	store, err := accounts.Open(home.State(p.folder))
	ts.Check(err)
	creds, err := store.Issue(name, role, client.OwnCredsTTL)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	c, err := agents.Connect(ctx, "nats://"+p.address, agents.CredsText(creds.Text()), agents.Options{Name: name})
	ts.Check(err)
	ts.Defer(func() { c.Close(); cancel() })
	return c, ctx
}

// reviewCommand is `review PERSON KIND ACT [TEXT]`: the person takes the only item
// of the kind and approves it, rejects it with a reason, or edits it. ACT look
// changes nothing. `! review PERSON KIND` finds that no such item waits.
func reviewCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg && len(args) != 2 || !neg && len(args) != 3 && len(args) != 4 {
		ts.Fatalf("usage: review PERSON KIND ACT [TEXT], or ! review PERSON KIND")
	}
	c, ctx := connected(ts, bcp.AgentName(args[0]), bcp.RoleApprover)
	defer c.Close()
	approver := agents.NewApprover(c)
	items, err := approver.List(ctx)
	ts.Check(err)
	items = slices.DeleteFunc(items, func(it bcp.Item) bool { return string(it.Kind) != args[1] })
	if neg {
		if len(items) > 0 {
			ts.Fatalf("%d items wait", len(items))
		}
		return
	}
	if len(items) != 1 {
		ts.Fatalf("%d items wait", len(items))
	}
	view, err := approver.View(ctx, items[0].ID)
	ts.Check(err)
	text := ""
	if len(args) == 4 {
		text = args[3]
	}
	switch args[2] {
	case "look":
		if content := string(view.Content) + view.Justification; !strings.Contains(content, text) {
			ts.Fatalf("the item holds %q", content)
		}
	case "approve":
		ts.Check(approver.Approve(ctx, view))
	case "reject":
		ts.Check(approver.Reject(ctx, view, text))
	case "edit":
		preview, err := approver.Preview(ctx, view, json.RawMessage(text))
		ts.Check(err)
		ts.Check(approver.Edit(ctx, view, preview))
	default:
		ts.Fatalf("no act %s", args[2])
	}
}

// toldCommand is `told READER PATTERN`: the Reader connects and hears of its
// subscriptions, or a result, that match, and acknowledges what it hears.
func toldCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: told READER PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	c, ctx := connected(ts, bcp.AgentName(args[0]), bcp.RoleReader)
	defer c.Close()
	reader := agents.NewReader(c)
	results := make(chan string, 100)
	note := func(message any) {
		b, err := bcp.Encode(message, bcp.JSON)
		if err == nil {
			results <- string(b)
		}
	}
	reader.OnResult(func(r bcp.ValidationResult) { note(r) })
	reader.OnSubscriptions(func(list []bcp.ActiveSubscription) {
		note(bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive, Subscriptions: list})
	})
	ts.Check(reader.Start(ctx))
	defer func() { ts.Check(reader.Stop(ctx)); ts.Check(c.NATS().Flush()) }()
	var all []string
	for {
		select {
		case r := <-results:
			if pattern.MatchString(r) {
				return
			}
			all = append(all, r)
		case <-ctx.Done():
			ts.Fatalf("no result matches %s: %q", args[1], all)
		}
	}
}
