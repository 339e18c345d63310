package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// deskFiles are two pairs of agents that are alike: main and mailer, boss and clerk.
func deskFiles() map[string]string {
	files := map[string]string{"mesh.yaml": "name: desk\nmax_disk_mb: 64\napprovers: [kim]\nauditors: [kim]\n"}
	for _, pair := range [][2]string{{"main", "mailer"}, {"boss", "clerk"}} {
		files["agents/"+pair[0]+".md"] = fmt.Sprintf(`---
name: %s
bcp_channels:
  - peer: %s
    role: controller
    max_category: 3
    budget_bits: 3000
    subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: digest, category: 3, directive: Sum up., max_words: 8}
---
`, pair[0], pair[1])
		files["agents/"+pair[1]+".md"] = fmt.Sprintf("---\nname: %s\nbcp_channels:\n  - {peer: %s, role: reader, max_category: 3}\n---\n", pair[1], pair[0])
	}
	return files
}

// clusterMesh is a mesh on a cluster, and who types commands beside its keys.
type clusterMesh struct{ *exported }

// writeClusterDesk writes the definitions.
func writeClusterDesk(t *testing.T) *clusterMesh {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, deskFiles())
	return &clusterMesh{exported: &exported{t: t, dir: dir}}
}

func startClusterDesk(t *testing.T) *clusterMesh {
	t.Helper()
	x := writeClusterDesk(t)
	x.exported = exportMesh(t, x.dir)
	t.Cleanup(x.gateway("one"))
	x.push(cli.ExitOK, keys.ExportedSystem, "--wait", "60s")
	return x
}

// gateway runs one, and returns what ends it.
func (x *clusterMesh) gateway(name string) (stop func()) {
	x.t.Helper()
	folder := meshdir.Folder{Dir: x.dir}
	g := must(mesh.StartGateway(x.t.Context(), mesh.GatewayConfig{
		Cluster: server.ClusterConfig{URL: x.cluster.URL(), Creds: filepath.Join(x.files, keys.GatewaysFolder, name), Name: name},
		Config: mesh.Config{
			Load:  func() (*bcp.Mesh, error) { return folder.LoadAll(definition.Site{}) },
			State: filepath.Join(x.t.TempDir(), name), Version: "test", Logger: hclog.New(&hclog.LoggerOptions{Output: x.t.Output()}),
		},
	}))(x.t)
	return func() {
		err := g.Stop(context.Background())
		failIf(x.t, err != nil, "%v", err)
	}
}

// says runs a command on the mesh, which ends with a code, and returns what it says on
// both streams. The words of each of wants are in a line of it, in this order.
func (x *clusterMesh) says(code int, command string, wants ...string) string {
	x.t.Helper()
	r := x.types(command)
	all := r.stdout + r.stderr
	failIf(x.t, r.code != code, "%s: exit code %d, want %d: %s", command, r.code, code, all)
	for _, want := range wants {
		failIf(x.t, !lineWith(want).MatchString(all), "%s: %q is not in\n%s", command, want, all)
	}
	return all
}

// comesToSay repeats a command until it says all of wants: books may be behind a receipt.
func (x *clusterMesh) comesToSay(command string, wants ...string) {
	x.t.Helper()
	for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(10 * time.Millisecond) {
		r := x.types(command)
		if !slices.ContainsFunc(wants, func(want string) bool { return !lineWith(want).MatchString(r.stdout) }) {
			return
		}
		stopIf(x.t, time.Now().After(deadline), "%s did not come to say %q: %d\n%s%s", command, wants, r.code, r.stdout, r.stderr)
	}
}

func (x *clusterMesh) types(command string) outcome {
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
func (x *clusterMesh) held(controller string) string {
	x.t.Helper()
	list := x.says(cli.ExitOK, "approvals --json")
	m := regexp.MustCompile(`"item_id":"(i[A-Z0-9]+)","kind":"[a-z]+","controller":"` + controller + `"`).FindStringSubmatch(list)
	stopIf(x.t, m == nil, "no item of %s waits: %s", controller, list)
	return m[1]
}

// The commands of people work on a cluster as beside a mesh of one process: for the owner
// of the keys, and with a creds file.
//
// covers P7.1, P11.1, P11.3, BCP-62, BCP-84
func TestCommandsOfPeopleOnACluster(t *testing.T) {
	t.Parallel()
	x := startClusterDesk(t)
	for _, pair := range [][2]string{{"main", "mailer"}, {"boss", "clerk"}} {
		for what, answer := range map[string]string{"alerts": `{"urgent":true}`, "digest": `{"summary":"All_is_well."}`} {
			x.says(cli.ExitOK, "publish "+pair[0]+" "+what+" "+answer+" --as "+pair[1]+" --wait 60s")
		}
	}
	x.comesToSay("audit -n 9999", "mailer pushes: accepted 1 bit", "mailer pushes: held", "clerk pushes: accepted 1 bit", "clerk pushes: held")
	x.comesToSay("ledger show", "main ← mailer nominal", "boss ← clerk nominal")
	for command, wants := range map[string][]string{
		"status":                           {"2 items held"},
		"session":                          {"main", "boss"},
		"approvals":                        {"i summary main ← mailer", "i summary boss ← clerk"},
		"audit replay":                     {"main ← mailer push to alerts", "boss ← clerk push to alerts"},
		"ledger show --history":            {"main ← mailer", "boss ← clerk"},
		"ledger reconcile":                 {"journal, ledger and state agree"},
		"proposals":                        {"no approved proposal"},
		"reload":                           {"definitions loaded"},
		"doctor":                           {"ok gateway it decides"},
		"explain 3":                        {"decision 3"},
		"taint clerk --source web":         {"taint of clerk: report"},
		"session open --renew --as boss":   {"session of boss: open"},
		"ledger show --channel boss/clerk": {"boss ← clerk"},
		"audit erase --channel boss/clerk --before 2020-01-01 --yes": {"erased: 0 keys"},
	} {
		x.says(cli.ExitOK, command, wants...)
	}
	boss, main := x.held("boss"), x.held("main")
	x.says(cli.ExitOK, "approvals "+boss, "all is well")
	x.says(cli.ExitOK, "explain "+boss, "push boss ← clerk")
	x.says(cli.ExitRefused, "approvals reject iNOBODYHASTHIS --reason no", "item_not_found")
	x.says(cli.ExitOK, "approvals approve --yes "+boss, "approved", "it goes to boss")
	x.says(cli.ExitRefused, "approvals approve --yes "+boss, "already_decided")
	x.says(cli.ExitOK, "approvals reject --reason no "+main, "rejected")
	x.says(cli.ExitOK, "approvals", "nothing waits")

	creds := filepath.Join(t.TempDir(), "kim.creds")
	x.says(cli.ExitOK, "creds issue kim --role auditor --out "+creds)
	r := execute(t, "", "ledger", "show", "--as", "kim", "--url", x.cluster.URL(), "--creds", creds)
	failIf(t, r.code != cli.ExitOK || !strings.Contains(r.stdout, "boss ←") || !strings.Contains(r.stdout, "main ←"),
		"with creds: %d\n%s%s", r.code, r.stdout, r.stderr)
}

// A cluster's journal is backed up over the network, with what was signed of it and the
// keys, and restored into a folder, where it is decided again and goes on with its log.
//
// covers P11.1
func TestBackupOfACluster(t *testing.T) {
	x := startClusterDesk(t)
	x.says(cli.ExitOK, `publish boss alerts {"urgent":true} --as clerk --wait 60s`)
	folder := t.TempDir()
	access := " --url " + x.cluster.URL() + " --creds " + filepath.Join(x.files, keys.GatewaysFolder, "one")
	file, state, export := filepath.Join(folder, "one.tar.gz"), filepath.Join(folder, "state"), filepath.Join(folder, "one.bcpaudit")
	signed := x.signs()
	x.says(cli.ExitOK, "backup "+file+access, "backed up")
	t.Chdir(x.dir)
	for _, step := range []struct{ command, want string }{
		{"restore " + file + " " + state, "restored"},
		{"audit redecide --state " + state, "1 same"},
		{"restore " + file + access, "restored"}, // it is there
		{"audit export " + export + " --state " + state, "exported"},
		{"audit verify " + export + " --key " + x.key() + " --since " + x.write("checkpoint", signed), "verified"},
	} {
		if r := execute(t, "", strings.Fields(step.command)...); r.code != cli.ExitOK || !strings.Contains(r.stdout+r.stderr, step.want) {
			t.Errorf("%s: %d %s%s", step.command, r.code, r.stdout, r.stderr)
		}
	}
	noError(t, os.Remove(filepath.Join(x.files, keys.GatewaysFolder, "one", "core.creds")))
	x.says(cli.ExitFailed, "backup "+file+access, "cannot be read", "accounts export")
}
