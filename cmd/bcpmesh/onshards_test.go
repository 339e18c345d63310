package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// shardedFiles are two pairs of agents that are alike, on two shards: main and mailer,
// boss and clerk.
func shardedFiles() map[string]string {
	files := map[string]string{"mesh.yaml": "name: desk\nmax_disk_mb: 64\napprovers: [kim]\nauditors: [kim]\n"}
	for shard, pair := range [][2]string{{"main", "mailer"}, {"boss", "clerk"}} {
		files["agents/"+pair[0]+".md"] = fmt.Sprintf(`---
name: %s
shard: %d
bcp_channels:
  - peer: %s
    role: controller
    max_category: 3
    budget_bits: 3000
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: digest, category: 3, directive: Sum up., max_words: 8}
---
`, pair[0], shard, pair[1])
		files["agents/"+pair[1]+".md"] = fmt.Sprintf("---\nname: %s\nshard: %d\nbcp_channels:\n  - {peer: %s, role: reader, max_category: 3}\n---\n", pair[1], shard, pair[0])
	}
	return files
}

// shardedMesh is a mesh on two shards of a cluster, and who types commands beside its
// keys.
type shardedMesh struct{ *exported }

// writeShards writes the definitions.
func writeShards(t *testing.T) *shardedMesh {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range shardedFiles() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &shardedMesh{exported: &exported{t: t, dir: dir}}
}

func startShards(t *testing.T) *shardedMesh {
	t.Helper()
	x := writeShards(t)
	x.exported = exportMesh(t, x.dir)
	t.Cleanup(x.gateway("one"))
	x.push(cli.ExitOK, keys.ExportedSystem, "--wait", "60s")
	return x
}

// gateway runs one, and returns what ends it.
func (x *shardedMesh) gateway(name string) (stop func()) {
	x.t.Helper()
	folder := meshdir.Folder{Dir: x.dir}
	g, err := mesh.StartGateway(x.t.Context(), mesh.GatewayConfig{
		Load: func() (*bcp.Mesh, error) { return folder.LoadAll() }, URL: x.cluster.URL(), Creds: filepath.Join(x.files, keys.GatewaysFolder, name), Name: name,
		State: filepath.Join(x.t.TempDir(), name), Version: "test", Logger: hclog.New(&hclog.LoggerOptions{Output: x.t.Output()}),
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return func() {
		if err := g.Stop(context.Background()); err != nil {
			x.t.Error(err)
		}
	}
}

// says runs a command on the mesh, which ends with a code, and returns what it says on
// both streams. The words of each of wants are in a line of it, in this order.
func (x *shardedMesh) says(code int, command string, wants ...string) string {
	x.t.Helper()
	r := x.types(command)
	all := r.stdout + r.stderr
	if r.code != code {
		x.t.Errorf("%s: exit code %d, want %d: %s", command, r.code, code, all)
	}
	for _, want := range wants {
		if !lineWith(want).MatchString(all) {
			x.t.Errorf("%s: %q is not in\n%s", command, want, all)
		}
	}
	return all
}

// comesToSay repeats a command until it says all of wants: books may be behind a receipt.
func (x *shardedMesh) comesToSay(command string, wants ...string) {
	x.t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(10 * time.Millisecond) {
		r := x.types(command)
		if !slices.ContainsFunc(wants, func(want string) bool { return !lineWith(want).MatchString(r.stdout) }) {
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%s did not come to say %q: %d\n%s%s", command, wants, r.code, r.stdout, r.stderr)
		}
	}
}

func (x *shardedMesh) types(command string) outcome {
	x.t.Helper()
	return execute(x.t, "", append(strings.Fields(command), "--dir", x.dir, "--state", x.keys)...)
}

// lineWith matches a line that has these words in this order.
func lineWith(text string) *regexp.Regexp {
	words := strings.Fields(text)
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	return regexp.MustCompile(strings.Join(words, `.*?`))
}

// held waits for an item of a controller, and returns its id.
func (x *shardedMesh) held(controller string) string {
	x.t.Helper()
	list := x.says(cli.ExitOK, "approvals list --json")
	m := regexp.MustCompile(`"item_id":"(i[A-Z0-9]+)","kind":"[a-z]+","controller":"` + controller + `"`).FindStringSubmatch(list)
	if m == nil {
		x.t.Fatalf("no item of %s waits: %s", controller, list)
	}
	return m[1]
}

// To people a mesh on shards is one mesh: what lists has all shards, with the shard of
// each row; what names an agent, a channel or an item finds its shard; and --shard
// narrows to one, of those that there are.
//
// covers P4.5, P7.1, P11.1, P11.3, BCP-62, BCP-84
func TestCommandsOfPeopleReachAllShards(t *testing.T) {
	t.Parallel()
	x := startShards(t)
	for _, pair := range [][2]string{{"main", "mailer"}, {"boss", "clerk"}} {
		for what, answer := range map[string]string{"alerts": `{"urgent":true}`, "digest": `{"summary":"All_is_well."}`} {
			x.says(cli.ExitOK, "publish "+pair[0]+" "+what+" "+answer+" --as "+pair[1]+" --wait 60s")
		}
	}
	x.comesToSay("audit tail -n 9999", "0 push main ← mailer accept 1", "0 push main ← mailer hold", "1 push boss ← clerk accept 1", "1 push boss ← clerk hold")
	x.comesToSay("ledger show", "0 main ← mailer nominal", "1 boss ← clerk nominal")
	for command, wants := range map[string][]string{
		"status":               {"SHARD DECISIONS LAST JOURNAL", "2 items held", "SHARD ITEM KIND", "0 main ← mailer", "1 boss ← clerk", "Pushes of the last day"},
		"session list":         {"SHARD CONTROLLER", "0 main", "1 boss"},
		"approvals list":       {"SHARD ITEM", "0 i summary main ← mailer", "1 i summary boss ← clerk"},
		"audit tail -n 9999":   {"SHARD SEQ", "0 push main ← mailer", "1 push boss ← clerk"},
		"audit replay":         {"shard 0: main ← mailer push to alerts", "shard 1: boss ← clerk push to alerts"},
		"ledger show":          {"SHARD CHANNEL", "0 main ← mailer nominal", "1 boss ← clerk nominal"},
		"ledger history":       {"SHARD SEQ", "0 main ← mailer", "1 boss ← clerk"},
		"ledger subscriptions": {"0 main ← mailer alerts 1", "1 boss ← clerk alerts 1"},
		"ledger reconcile":     {"shard 0: journal, ledger and state agree", "shard 1: journal, ledger and state agree"},
		"proposals list":       {"no approved proposal"},
		"reload":               {"shard 0: definitions loaded", "shard 1: definitions loaded"},
		"doctor":               {"ok gateway shard 0: it decides", "ok gateway shard 1: it decides"},
	} {
		x.says(cli.ExitOK, command, wants...)
		if command == "doctor" {
			continue
		}
		// One shard alone looks like a mesh on one.
		only := x.says(cli.ExitOK, command+" --shard 1")
		if strings.Contains(only, "mailer") || strings.Contains(only, "SHARD") || strings.Contains(only, "shard 1:") {
			t.Errorf("%s --shard 1 says\n%s", command, only)
		}
		x.says(cli.ExitUsage, command+" --shard 2", "--shard: the mesh has no shard 2", "hint: it has the shards 0 to 1")
		x.says(cli.ExitUsage, command+" --shard 64", "0 to 63")
	}
	for command, want := range map[string]string{
		"approvals list --json":                                      `"controller":"boss" "shard":1`,
		"session list --json":                                        `"controller":"boss" "shard":1`,
		"ledger show --json":                                         `"controller":"boss" "shard":1`,
		"ledger history --json":                                      `"controller":"boss" "shard":1`,
		"audit tail --json -n 9999":                                  `"controller":"boss" "shard":1`,
		"audit replay --json":                                        `"controller":"boss" "shard":1`,
		"status --json":                                              `"shards":[{"decisions": "shard":1`,
		"taint report clerk --source web":                            "taint of clerk: report",
		"session open --renew --as boss":                             "session of boss: open",
		"ledger show --channel boss/clerk":                           "boss ← clerk",
		"audit erase --channel boss/clerk --before 2020-01-01 --yes": "erased: 0 keys",
	} {
		x.says(cli.ExitOK, command, want)
	}
	if named := x.says(cli.ExitOK, "ledger show --channel boss/clerk"); strings.Contains(named, "SHARD") || strings.Contains(named, "main") {
		t.Errorf("a channel is on one shard:\n%s", named)
	}
	if one := x.says(cli.ExitOK, "approvals list --json --shard 0"); strings.Contains(one, `"shard"`) {
		t.Errorf("shard 0 is named: %s", one)
	}
	x.says(cli.ExitUsage, "explain 3", "each of 2 shards has decisions with numbers", "--shard")
	x.says(cli.ExitOK, "explain 3 --shard 1", "decision 3")
	x.says(cli.ExitUsage, "audit erase --channel _ --before 2020-01-01 --yes", "the mesh has 2 shards", "--shard")

	// A person finds an item wherever it is held.
	boss, main := x.held("boss"), x.held("main")
	x.says(cli.ExitOK, "approvals show "+boss, "all is well")
	x.says(cli.ExitOK, "explain "+boss, "push boss ← clerk")
	x.says(cli.ExitRefused, "approvals show "+boss+" --shard 0", "item_not_found")
	x.says(cli.ExitRefused, "approvals reject iNOBODYHASTHIS --reason no", "item_not_found")
	x.says(cli.ExitOK, "approvals approve --yes "+boss, "approved", "it goes to boss")
	x.says(cli.ExitRefused, "approvals approve --yes "+boss, "already_decided")
	x.says(cli.ExitOK, "approvals reject --reason no "+main, "rejected")
	x.says(cli.ExitOK, "approvals list", "nothing waits")

	// With a creds file nobody knows the shards: it is the one that is named.
	creds := filepath.Join(t.TempDir(), "kim.creds")
	x.says(cli.ExitOK, "creds issue kim --role auditor --out "+creds)
	remote := " --as kim --url " + x.cluster.URL() + " --creds " + creds
	for shard, want := range []string{"main", "boss"} {
		for _, named := range []string{fmt.Sprint(" --shard ", shard), ""}[:2-shard] {
			r := execute(t, "", strings.Fields("ledger show"+remote+named)...)
			if r.code != cli.ExitOK || !strings.Contains(r.stdout, want+" ←") || strings.Count(r.stdout, " ←") != 1 {
				t.Errorf("with creds, %q: %d\n%s%s", named, r.code, r.stdout, r.stderr)
			}
		}
	}
	// A stock client reads a shard's streams under its prefix.
	nc, err := nats.Connect(x.cluster.URL(), nats.UserCredentials(creds), nats.CustomInboxPrefix(subjects.InboxPrefix("kim")), nats.Timeout(clustertest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.NewWithAPIPrefix(nc, subjects.InShard(1, subjects.AuditPrefix))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := stream.GetLastMsgForSubject(t.Context(), subjects.Ledger("boss", "clerk")); err != nil || line.Subject != subjects.Ledger("boss", "clerk") {
		t.Errorf("a stock client reads %+v: %v", line, err)
	}
	if r := execute(t, "", strings.Fields("audit tail --shard 5"+remote)...); r.code != cli.ExitRefused || !strings.Contains(r.stderr, "the server refuses it") {
		t.Errorf("a shard that there is not: %d %s", r.code, r.stderr)
	}
}

// seen is where a command writes to; it ends it once it has written each of some words.
type seen struct {
	mu    sync.Mutex
	text  strings.Builder
	words []string
	end   context.CancelFunc
}

// Write implements [io.Writer].
func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	if !slices.ContainsFunc(s.words, func(word string) bool { return !strings.Contains(s.text.String(), word) }) {
		s.end()
	}
	return len(b), nil
}

// Whoever follows hears of what is new on every shard, behind the past of all.
//
// covers P11.3, P4.5
func TestFollowAllShards(t *testing.T) {
	t.Parallel()
	x := startShards(t)
	x.says(cli.ExitOK, `publish boss alerts {"urgent":true} --as clerk --wait 60s`)
	for _, command := range []string{"audit tail --follow", "audit replay --follow --json"} {
		for _, word := range []string{"clerk", "mailer"} { // the past, and what is new
			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			until := &seen{words: []string{word}, end: cancel}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				runCommandLine(ctx, append(strings.Fields(command), "--dir", x.dir, "--state", x.keys), strings.NewReader(""), until, io.Discard, func(string) string { return "" })
			}()
			if word == "mailer" {
				x.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
			}
			<-ended
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("%s: %v are not in\n%s", command, until.words, until.text.String())
			}
			cancel()
		}
	}
	// What cannot be read is an error.
	who := client.Flags{Where: meshdir.StateFlags{Dir: x.dir, State: x.keys}}
	c, err := who.Connect(t.Context(), bcp.RoleAuditor)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := false
	for _, err := range (&audit.Replaying{}).OfAudit(ctx, c) {
		failed = err != nil
	}
	if !failed {
		t.Error("a replay without a connection is whole")
	}
}

// Where one of several shards does not answer, the others are told all the same, and it
// is said which did not.
//
// covers P4.5
func TestShardThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ask := func(silent ...int) func(context.Context, int) (int, error) {
		return func(_ context.Context, shard int) (int, error) {
			if slices.Contains(silent, shard) {
				return 0, fmt.Errorf("x: %w", context.DeadlineExceeded)
			}
			return 10 * shard, nil
		}
	}
	for name, c := range map[string]struct {
		shards, silent []int
		want           string
		code           int
	}{
		"all":         {[]int{0, 1, 2}, nil, "0 10 20", cli.ExitOK},
		"without one": {[]int{0, 1, 2}, []int{1}, "0 20", cli.ExitPartly},
		"none":        {[]int{0, 1}, []int{0, 1}, "", cli.ExitFailed},
		"one":         {[]int{1}, nil, "10", cli.ExitOK},
		"one silent":  {[]int{1}, []int{1}, "", cli.ExitFailed},
	} {
		got, err := client.OnShards(t.Context(), c.shards, ask(c.silent...))
		var said []string
		for i := range got {
			said = append(said, fmt.Sprint(got[i].Of))
			if got[i].Of != 10*got[i].Shard || (got[i].Cell() != "") != (len(c.shards) > 1) {
				t.Errorf("%s: %+v", name, got[i])
			}
		}
		code, message := cli.ExitOK, ""
		var f *cli.Failure
		if errors.As(meshdir.Failure(err), &f) {
			code, message = f.Code, f.Message
		}
		if strings.Join(said, " ") != c.want || code != c.code {
			t.Errorf("%s: %v, code %d: %v", name, said, code, err)
		}
		for _, shard := range c.silent {
			if named := strings.Contains(message, fmt.Sprintf("shard %d: no reply in time", shard)); named != (len(c.shards) > 1) {
				t.Errorf("%s says %q", name, message)
			}
		}
	}
}

// Creds of some keep nobody else: others may be on another shard at the first export, also
// of keys that had all of them on shard 0. After it nobody moves, in no way.
//
// covers P4.5, BCP-34
func TestExportMovesWhoHasNoCreds(t *testing.T) {
	t.Parallel()
	x := writeShards(t)
	x.keys = filepath.Join(t.TempDir(), "keys")
	out := filepath.Join(t.TempDir(), "cluster")
	x.says(cli.ExitOK, "creds issue mailer --out "+out+".creds")
	x.says(cli.ExitOK, "creds issue kim --role approver --out "+out+"2.creds")
	export := []string{"accounts", "export", x.dir, "--state", x.keys, "--out", out, "--gateway", "one", "--force"}
	if r := execute(t, "", export...); r.code != cli.ExitOK {
		t.Fatalf("export: %d %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(out, keys.GatewaysFolder, "one", "core.1.creds")); err != nil {
		t.Error(err)
	}
	x.onShard(1, 0, "boss", "clerk")
	r := execute(t, "", export...)
	if r.code != cli.ExitFailed || !strings.Contains(r.stderr, "boss is on shard 0, and was on shard 1") || !strings.Contains(r.stderr, "once creds were issued in its island, or an export or a push gave it to a cluster") {
		t.Errorf("back to the first: %d %s", r.code, r.stderr)
	}
}

// OnShard writes another shard into the files of agents.
func (x *shardedMesh) onShard(old, shard int, names ...string) {
	x.t.Helper()
	for _, name := range names {
		file := filepath.Join(x.dir, "agents", name+".md")
		content, err := os.ReadFile(file)
		if err == nil {
			text := strings.Replace(string(content), fmt.Sprintf("shard: %d\n", old), "", 1)
			err = os.WriteFile(file, []byte(strings.Replace(text, "\n", fmt.Sprintf("\nshard: %d\n", shard), 1)), 0o600)
		}
		if err != nil {
			x.t.Fatal(err)
		}
	}
}

// An agent that has creds keeps its shard: an export that would move it makes nothing,
// says what to do, and leaves the mesh as it was.
//
// covers P4.5, BCP-34
func TestExportMovesNobody(t *testing.T) {
	t.Parallel()
	x := writeShards(t)
	x.keys = filepath.Join(t.TempDir(), "keys")
	out := filepath.Join(t.TempDir(), "cluster")
	x.says(cli.ExitOK, "creds issue clerk --out "+out+".creds")
	export := []string{"accounts", "export", x.dir, "--state", x.keys, "--out", out, "--gateway", "one"}
	r := execute(t, "", export...)
	if _, err := os.Stat(out); r.code != cli.ExitFailed || !strings.Contains(r.stderr, "is on shard 1, and was on shard 0") || !strings.Contains(r.stderr, "hint: ") || err == nil {
		t.Errorf("export: %d %s, %v", r.code, r.stderr, err)
	}
	x.says(cli.ExitOK, "creds issue mailer --out "+out+"2.creds") // it is no mesh of a cluster since
	x.onShard(1, 0, "boss", "clerk")
	if r := execute(t, "", export...); r.code != cli.ExitOK {
		t.Errorf("where they were: %d %s", r.code, r.stderr)
	}
}

// What an operator backs up, and restores, is one shard: a mesh of several is refused
// without its name, and a backup goes to no other shard than that of its journal, nor to
// a mesh that has its agents on another.
//
// covers P11.1, P4.5
func TestBackupOfOneShard(t *testing.T) {
	x := startShards(t)
	x.says(cli.ExitOK, `publish boss alerts {"urgent":true} --as clerk --wait 60s`)
	folder := t.TempDir()
	access := " --url " + x.cluster.URL() + " --creds " + filepath.Join(x.files, keys.GatewaysFolder, "one")
	file := filepath.Join(folder, "one.tar.gz")
	x.says(cli.ExitUsage, "backup "+file+access, "the mesh has 2 shards", "--shard 0, --shard 1")
	x.says(cli.ExitUsage, "backup "+file+access+" --shard 2", "the mesh has no shard 2")
	x.says(cli.ExitUsage, "backup "+file+" --shard 1", "--shard needs --url and --creds")
	if _, err := os.Stat(file); err == nil {
		t.Error("a refused backup left a file")
	}
	signed := x.signs()
	x.says(cli.ExitOK, "backup "+file+access+" --shard 1", "backed up")
	t.Chdir(x.dir)
	for shard, want := range map[string]string{"": "the mesh has 2 shards", " --shard 0": "of 1, and not of 0"} {
		r := execute(t, "", strings.Fields("restore "+file+access+shard)...)
		if r.code == cli.ExitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("restore%s: %d %s", shard, r.code, r.stderr)
		}
	}
	// Restored into a folder, it is decided again there, and no mesh of one process runs.
	state := filepath.Join(folder, "state")
	for _, step := range []struct {
		code          int
		command, want string
	}{
		{cli.ExitOK, "restore " + file + " " + state, "restored"},
		{cli.ExitOK, "audit redecide --state " + state, "1 same"},
		{cli.ExitFailed, "up --listen 127.0.0.1:0 --state " + state, "an agent keeps its shard"},
		{cli.ExitFailed, "up --listen 127.0.0.1:0 --state " + state, "bcpmesh gateway serves on a cluster"},
		{cli.ExitOK, "restore " + file + access + " --shard 1", "restored"}, // it is there
	} {
		if r := execute(t, "", strings.Fields(step.command)...); r.code != step.code || !strings.Contains(r.stdout+r.stderr, step.want) {
			t.Errorf("%s: %d %s%s", step.command, r.code, r.stdout, r.stderr)
		}
	}
	// What was signed of the shard is in it with its key, and nothing of another shard.
	x.signs()
	for _, name := range []string{"keys/checkpoint.1.key", "tree.1/checkpoints"} {
		restored, err := os.ReadFile(filepath.Join(state, name))
		own, same := os.ReadFile(filepath.Join(x.keys, name))
		if err != nil || same != nil || !bytes.HasPrefix(own, restored) || len(own) == len(restored) != strings.HasPrefix(name, "keys") {
			t.Errorf("%s has %d of %d bytes: %v, %v", name, len(restored), len(own), err, same)
		}
	}
	for _, name := range []string{"keys/checkpoint.key", "tree"} {
		if _, err := os.Stat(filepath.Join(state, name)); err == nil {
			t.Errorf("%s of shard 0 is in a backup of shard 1", name)
		}
	}
	// A folder of shard 0 goes on with its log.
	zero, export := filepath.Join(folder, "zero"), filepath.Join(folder, "zero.bcpaudit")
	x.says(cli.ExitOK, "backup "+zero+".tar.gz"+access+" --shard 0", "backed up")
	for _, command := range []string{"restore " + zero + ".tar.gz " + zero, "audit export " + export + " --state " + zero,
		"audit verify " + export + " --key " + x.key(0) + " --since " + x.write("checkpoint", signed[0].Checkpoint)} {
		if r := execute(t, "", strings.Fields(command)...); r.code != cli.ExitOK {
			t.Errorf("%s: %d %s%s", command, r.code, r.stdout, r.stderr)
		}
	}
	x.onShard(1, 0, "boss", "clerk")
	x.onShard(0, 1, "main", "mailer")
	moved := execute(t, "", strings.Fields("restore "+file+access+" --shard 1")...)
	if moved.code != cli.ExitFailed || !strings.Contains(moved.stderr, "is on shard 0, and in the journal of shard 1 since decision ") || !strings.Contains(moved.stderr, "leave it on shard 1 (shard: 1 in its definition), or give the agent on shard 0 another name") || !strings.Contains(moved.stderr, "nothing was written") {
		t.Errorf("restored to where its agents are not: %d %s", moved.code, moved.stderr)
	}
	if err := os.Remove(filepath.Join(x.files, keys.GatewaysFolder, "one", "core.1.creds")); err != nil {
		t.Fatal(err)
	}
	x.says(cli.ExitFailed, "backup "+file+access+" --shard 1", "cannot be read", "accounts export --force")
}
