package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// exported is a mesh whose accounts a cluster carries, with the files of its export.
type exported struct {
	t                *testing.T
	dir, keys, files string
	cluster          *clustertest.Cluster
	accounts         string // that a node keeps
}

func startExported(t *testing.T) *exported {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	succeed(t, "init", dir)
	return exportMesh(t, dir)
}

// exportMesh gives the mesh of a folder to a cluster of its own.
func exportMesh(t *testing.T, dir string) *exported {
	t.Helper()
	x := newExported(t, dir)
	x.export("--gateway", "two")
	x.serve()
	return x
}

// newExported is a mesh of which nothing is exported yet.
func newExported(t *testing.T, dir string) *exported {
	t.Helper()
	folder := t.TempDir()
	return &exported{t: t, dir: dir, keys: filepath.Join(folder, "keys"), files: filepath.Join(folder, "cluster")}
}

func (x *exported) export(more ...string) {
	x.t.Helper()
	args := append([]string{"accounts", "export", x.dir, "--state", x.keys, "--out", x.files, "--gateway", "one"}, more...)
	succeed(x.t, args...)
}

// serve starts the cluster, for the operators of further meshes too.
func (x *exported) serve(operators ...string) {
	t := x.t
	t.Helper()
	x.cluster = clustertest.Start(t, clustertest.Config{Text: func(_ int, folder string) string {
		// As the example has it: the file of all nodes, and behind it the node's own.
		content, err := os.ReadFile(filepath.Join(x.files, keys.ExportedResolver))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, keys.ExportedResolver), content, 0o600)
		}
		noError(t, err)
		text := fmt.Sprintf("include %q\nresolver: {type: full, dir: %q, allow_delete: false, interval: \"2s\"}\n", keys.ExportedResolver, filepath.Join(folder, "accounts"))
		if x.accounts = filepath.Join(folder, "accounts"); len(operators) > 0 {
			text += fmt.Sprintf("operator: [%s]\n", strconv.Quote(filepath.Join(x.files, "operator.jwt"))+", "+strings.Join(operators, ", "))
		}
		return text
	}})
}

// push runs accounts push and returns what it says. As its hints say, it is run again where a node, or a gateway whose accounts
// have just changed, did not answer.
func (x *exported) push(want int, creds string, more ...string) (keys.Pushed, string) {
	x.t.Helper()
	args := append([]string{"accounts", "push", x.dir, "--state", x.keys, "--url", x.cluster.NodeURL(0), "--creds", filepath.Join(x.files, creds), "--json"}, more...)
	updated := []string{}
	for tries := 1; ; tries++ {
		r := execute(x.t, "", args...)
		var result keys.Pushed
		if r.stdout != "" {
			noError(x.t, json.Unmarshal([]byte(r.stdout), &result))
			updated = append(updated, result.Updated...)
			result.Updated = updated
		}
		switch {
		case r.code == want:
			return result, r.stderr
		case r.code != cli.ExitPartly || want != cli.ExitOK || tries == 3:
			x.t.Fatalf("push: exit code %d, want %d: %s%s", r.code, want, r.stdout, r.stderr)
		}
	}
}

func (x *exported) edit(old, new string) {
	x.t.Helper()
	file := filepath.Join(x.dir, "mesh.yaml")
	content := must(os.ReadFile(file))(x.t)
	edited := strings.ReplaceAll(string(content), old, new)
	stopIf(x.t, edited == string(content), "%s has no %s", file, old)
	noError(x.t, os.WriteFile(file, []byte(edited), 0o600))
}

func (x *exported) store() *accounts.Store {
	x.t.Helper()
	return must(accounts.Open(x.keys))(x.t)
}

func (x *exported) waiting() int {
	x.t.Helper()
	changes, _, err := x.store().Pending(time.Now())
	noError(x.t, err)
	return len(changes)
}

// scribe plays the part of a gateway that records what was done with credentials. What
// is sent again, because its answer was lost, is recorded once and answered again.
func (x *exported) scribe(gateway string) (recorded func() []uint64) {
	x.t.Helper()
	ended := make(chan struct{})
	nc := must(nats.Connect(x.cluster.URL(), nats.ClosedHandler(func(*nats.Conn) { close(ended) }), nats.UserCredentials(filepath.Join(x.files, keys.GatewaysFolder, gateway, server.CoreCreds)), nats.CustomInboxPrefix(subjects.GatewayInbox), nats.Timeout(clustertest.Patience)))(x.t)
	x.t.Cleanup(nc.Close)
	var numbers []uint64
	must(nc.Subscribe(subjects.Control(bcp.ControlCredentials), func(m *nats.Msg) {
		changes, code := bcp.ParseCredentialRecords(m.Data)
		answer := any(status.Applied{Recorded: len(changes), Connections: []status.ClientConnection{}})
		if code != "" {
			answer = bcp.RefusalOf(code)
		}
		for _, c := range changes {
			if !slices.Contains(numbers, c.Number) {
				numbers = append(numbers, c.Number)
			}
		}
		body, err := bcp.Encode(answer, bcp.JSON)
		if err == nil {
			err = nc.Publish(subjects.Answer(bcp.RoleOperator, bcp.Operator, m.Reply), body)
		}
		failIf(x.t, err != nil, "%v", err)
	}))(x.t)
	noError(x.t, nc.Flush())
	return func() []uint64 {
		noError(x.t, nc.Drain())
		<-ended
		return numbers
	}
}

// A cluster of stock servers takes what was exported. A push gives each of them what
// is different, has it recorded, and completes what another push left undone. Who may
// read claims may not push them.
//
// covers P1.5, BCP-19, A-REVOKED, A-JWTSELF
func TestAccountsPush(t *testing.T) {
	t.Parallel()
	x := startExported(t)

	// No gateway serves yet: the changes wait.
	waiting := x.waiting()
	first, talk := x.push(cli.ExitPartly, keys.ExportedSystem, "--wait", "500ms")
	want := keys.Pushed{Pushed: server.Pushed{Servers: []string{"node-0", "node-1", "node-2"}, Updated: []string{}}, Waiting: waiting}
	diff := cmp.Diff(want, first)
	failIf(t, diff != "" || waiting == 0, "%v", diff)
	failIf(t, !strings.Contains(talk, "push again when a gateway serves"), "it says %q", talk)

	// With more changes than go into one message.
	for n := range bcp.MaxCredentialRecords {
		_, err := x.store().Issue("researcher", 0, 0)
		stopIf(t, err != nil, "%d: %v", n, err)
	}
	waiting = x.waiting()
	recorded := x.scribe("one")
	x.edit("alice", "bob")
	second, _ := x.push(cli.ExitOK, keys.ExportedSystem)
	failIf(t, second.Recorded != waiting || second.Waiting != 0 || x.waiting() != 0,
		"%d of %d recorded, %d wait", second.Recorded, waiting, x.waiting())
	diff = cmp.Diff([]string{accounts.Operators}, second.Updated)
	failIf(t, diff != "", "%v", diff)
	numbers := recorded()
	for i, n := range numbers {
		stopIf(t, n != uint64(i)+1, "recorded are %v", numbers)
	}
	failIf(t, len(numbers) != waiting, "%d were recorded, and %d waited", len(numbers), waiting)

	// A push that ends half way has given servers one account of several.
	noError(t, x.store().RevokeGateway("one"))
	must(x.store().RevokeAll("researcher", 0))(t)
	x.half(accounts.Core)
	_ = x.scribe("two")
	third, _ := x.push(cli.ExitOK, keys.ExportedSystem)
	diff = cmp.Diff([]string{accounts.Readers, accounts.System}, third.Updated)
	failIf(t, diff != "", "%v", diff)
	if nc, err := nats.Connect(x.cluster.NodeURL(1), nats.UserCredentials(filepath.Join(x.files, keys.GatewaysFolder, "one", server.CoreCreds))); err == nil {
		nc.Close()
		t.Error("a gateway that was revoked is let in")
	}

	// The end of an overlap takes a push, and this one says when.
	must(x.store().RotateAccounts(time.Hour))(t)
	if rotated, talk := x.push(cli.ExitOK, keys.ExportedSystem); len(rotated.Updated) != 4 || rotated.Due.IsZero() || !strings.Contains(talk, "until the push after") {
		t.Errorf("%+v: %s", rotated, talk)
	}

	// Without a node: it gets from the others what it missed.
	x.cluster.Kill(t, 2)
	x.edit("bob", "carol")
	fourth, talk := x.push(cli.ExitPartly, keys.ExportedSystem)
	failIf(t, fourth.Silent != 1 || len(fourth.Servers) != 2 || !strings.Contains(talk, "1 server did not answer"),
		"%+v: %s", fourth, talk)
	x.cluster.Restart(t, 2)
	x.cluster.AwaitHealthy(t)
	fifth, _ := x.push(cli.ExitOK, keys.ExportedSystem)
	expect(t, len(fifth.Servers), 3, "%+v", fifth)
	again, _ := x.push(cli.ExitOK, keys.ExportedSystem)
	failIf(t, len(again.Updated) > 0, "a push that has nothing to do: %+v", again)

	// A gateway's logins read and do not write.
	x.edit("carol", "dave")
	for _, creds := range []string{server.SystemCreds, server.CoreCreds} {
		_, talk := x.push(cli.ExitFailed, filepath.Join(keys.GatewaysFolder, "two", creds))
		failIf(t, !strings.Contains(talk, "these creds may not push"), "%s: %s", creds, talk)
	}
	sixth, _ := x.push(cli.ExitOK, keys.ExportedSystem)
	failIf(t, len(sixth.Updated) != 1, "what was refused was taken: %+v", sixth)
}

// half gives the cluster one account as it is now, and not the others.
func (x *exported) half(name string) {
	x.t.Helper()
	def := must(meshdir.Folder{Dir: x.dir}.Load())(x.t)
	b := must(accounts.CompileCluster(x.store(), subjects.Permissions(def), time.Now()))(x.t)
	creds := must(os.ReadFile(filepath.Join(x.files, keys.ExportedSystem)))(x.t)
	pusher := must(server.ConnectPusher(x.t.Context(), x.cluster.NodeURL(0), creds))(x.t)
	defer pusher.Close()
	account, _ := b.Account(name)
	must(pusher.Push(x.t.Context(), []accounts.Account{account}))(x.t)
}
