package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// pushes publishes so many alerts on each channel.
func (x *clusterMesh) pushes(n int) {
	x.t.Helper()
	for range n {
		x.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
		x.says(cli.ExitOK, `publish boss alerts {"urgent":false} --as clerk --wait 60s`)
	}
}

// key returns the public key of the checkpoints.
func (x *clusterMesh) key() string {
	x.t.Helper()
	return strings.TrimSpace(x.says(cli.ExitOK, "audit key"))
}

// signs has a checkpoint signed, and returns it.
func (x *clusterMesh) signs() string {
	x.t.Helper()
	var said struct{ Checkpoint string }
	text := x.says(cli.ExitOK, "audit export --checkpoint --json")
	stopIf(x.t, json.Unmarshal([]byte(text), &said) != nil, "%q", text)
	return said.Checkpoint
}

func (x *clusterMesh) write(name, content string) string {
	x.t.Helper()
	file := filepath.Join(x.t.TempDir(), name)
	noError(x.t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// Whoever owns the keys of a mesh on a cluster exports its journal, signs checkpoints of
// which each continues the one before, and proves a decision, and whoever has the public
// key verifies that without a mesh.
//
// covers P11.2, P11.3, A-CHAIN
func TestAuditOfACluster(t *testing.T) {
	t.Parallel()
	x := startClusterDesk(t)
	x.pushes(2)
	x.says(cli.ExitFailed, "audit export --decision 1", "no checkpoint was recorded yet", "audit export --checkpoint")
	first, key := x.signs(), x.key()
	stopIf(t, !regexp.MustCompile(`^bcpmesh/[a-z2-7]+\+`).MatchString(key), "the key is %q", key)
	x.pushes(2)
	second := x.signs()
	verifier := must(note.NewVerifier(key))(t)
	if n, err := note.Open([]byte(second), note.VerifierList(verifier)); err != nil || !strings.HasPrefix(n.Text, verifier.Name()+"\n") {
		t.Errorf("a stock reader of notes: %+v, %v", n, err)
	}
	before := must(verify.OpenCheckpoint([]byte(first), []string{key}))(t)
	after, err := verify.OpenCheckpoint([]byte(second), []string{key})
	failIf(t, err != nil || after.Size < before.Size+4,
		"a checkpoint of %d decisions behind one of %d: %v", after.Size, before.Size, err)
	file := filepath.Join(t.TempDir(), "export")
	x.says(cli.ExitOK, "audit export "+file, "exported decisions 1 to", "key "+key)
	r := execute(t, "", "audit", "verify", file, "--json", "--key", key, "--since", x.write("first", first), "--since", x.write("second", second))
	failIf(t, r.code != cli.ExitOK || !strings.Contains(r.stdout, `"controller":"main","reader":"mailer"`) || !strings.Contains(r.stdout, `"controller":"boss","reader":"clerk"`),
		"verify: %d %s%s", r.code, r.stdout, r.stderr)
	proof := x.write("proof", x.says(cli.ExitOK, "audit export --decision 3", "c2sp.org/tlog-proof@v1", "index 2"))
	if r := execute(t, "", "audit", "verify", "--decision", "3", proof, "--key", key); r.code != cli.ExitOK || !strings.Contains(r.stdout, fmt.Sprintf("decision 3 of %d", after.Size)) {
		t.Errorf("the proof: %d %s%s", r.code, r.stdout, r.stderr)
	}
	x.says(cli.ExitFailed, "audit export --decision 9999", "decisions")
	x.says(cli.ExitOK, "audit redecide", "8 same, 0 differ")
	x.says(cli.ExitOK, "audit redecide --channel boss/clerk", "4 same, 0 differ")
	x.says(cli.ExitOK, "audit export --checkpoint", "— "+strings.Split(key, "+")[0]+" ")
	checkpoints := filepath.Join(x.keys, "tree", "checkpoints")
	noError(t, os.WriteFile(checkpoints, []byte("{}\n"), 0o600))
	x.says(cli.ExitFailed, "audit export --checkpoint", "the record of checkpoints is damaged")
	if content, err := os.ReadFile(checkpoints); err != nil || string(content) != "{}\n" {
		t.Errorf("something was signed: %s, %v", content, err)
	}
}

// refused expects that neither checkpoints nor exports of the journal are signed.
func (x *clusterMesh) refused(words string) {
	x.t.Helper()
	size := func() int64 {
		info := must(os.Stat(filepath.Join(x.keys, "tree", "checkpoints")))(x.t)
		return info.Size()
	}
	before := size()
	x.says(cli.ExitFailed, "audit export --checkpoint", words, "hint: nothing was signed")
	file := filepath.Join(x.t.TempDir(), "export")
	x.says(cli.ExitFailed, "audit export "+file, words, "hint: nothing was signed")
	_, err := os.Stat(file)
	failIf(x.t, err == nil, "a refused export left a file")
	after := size()
	failIf(x.t, after != before, "checkpoints were recorded: %d bytes, and %d before", after, before)
}

// Whoever owns the nodes can write another history, whose chain is whole. The checkpoints
// beside the operator's keys tell.
//
// covers P11.2, A-CHAIN
func TestAnotherHistoryOnACluster(t *testing.T) {
	t.Parallel()
	x := writeClusterDesk(t)
	x.exported = exportMesh(t, x.dir)
	stop := x.gateway("one")
	x.push(cli.ExitOK, keys.ExportedSystem, "--wait", "60s")
	x.pushes(1)
	x.signs()
	stop()
	for i := range x.cluster.Size() {
		x.cluster.Stop(t, i)
		x.cluster.Empty(t, i)
	}
	for i := range x.cluster.Size() {
		x.cluster.Restart(t, i)
	}
	x.cluster.AwaitHealthy(t)
	t.Cleanup(x.gateway("two"))
	x.pushes(10) // it is longer
	x.refused("contradicts an earlier checkpoint")

	// Nor is it backed up as if it were the one that was signed.
	folder := t.TempDir()
	backup := "backup " + filepath.Join(folder, "b.tar.gz") + " --url " + x.cluster.URL() + " --creds " + filepath.Join(x.files, keys.GatewaysFolder, "one")
	x.says(cli.ExitFailed, backup, "contradicts an earlier checkpoint", "hint: bcpmesh backup --salvage")
	x.says(cli.ExitOK, backup+" --salvage", "backed up")
	state := filepath.Join(folder, "state")
	r := execute(t, "", "restore", filepath.Join(folder, "b.tar.gz"), state)
	stopIf(t, r.code != cli.ExitOK, "%v", r.stderr)
	for _, name := range []string{"keys/checkpoint.key", "tree"} {
		_, err := os.Stat(filepath.Join(state, name))
		failIf(t, err == nil, "%s is in a backup of another history", name)
	}
}

// Messages as they came are told to the owner of the keys alone: an auditor, who has no
// state folder, has no journal.
//
// covers P2.5, P11.3, P11.4, BCP-7
func TestJournalsOfAClusterAreTheOperators(t *testing.T) {
	t.Parallel()
	x := startClusterDesk(t)
	x.says(cli.ExitOK, `publish main digest {"summary":"zebra"} --as mailer --wait 60s`)
	x.says(cli.ExitOK, `publish boss digest {"summary":"okapi"} --as clerk --wait 60s`)
	x.says(cli.ExitOK, `publish main digest {"summary":"lemur"} --as mailer --wait 60s`)
	all := x.says(cli.ExitOK, "audit replay --raw --kind push", "main ← mailer", "HOSTILE TEXT of mailer", "│ zebra", "boss ← clerk", "HOSTILE TEXT of clerk", "│ okapi", "│ lemur")
	failIf(t, !regexp.MustCompile(`(?s)zebra.*okapi.*lemur`).MatchString(all), "not in the order of time:\n%s", all)
	for _, of := range []string{" --channel boss/clerk", " --agent clerk"} {
		one := x.says(cli.ExitOK, "audit replay --raw --kind push"+of, "│ okapi")
		failIf(t, strings.Contains(one, "zebra"), "%s:\n%s", of, one)
	}
	x.says(cli.ExitOK, "audit replay --raw --kind push --json", `"controller":"boss" "raw":{"base64"`)

	creds := filepath.Join(t.TempDir(), "kim.creds")
	x.says(cli.ExitOK, "creds issue kim --role auditor --out "+creds)
	remote := " --as kim --url " + x.cluster.URL() + " --creds " + creds
	if r := execute(t, "", strings.Fields("audit replay --raw"+remote)...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "for the owner of the state folder") {
		t.Errorf("with the creds of an auditor: %d %s%s", r.code, r.stdout, r.stderr)
	}
	kim := must(agents.Connect(t.Context(), x.cluster.URL(), agents.CredsFile(creds), agents.Options{Name: "kim"}))(t)
	defer kim.Close()
	o := agents.NewOperator(kim)
	for r, err := range o.Journal(t.Context(), 0) {
		failIf(t, err == nil, "an auditor reads %s of the journal", r.Subject)
	}
	_, err := o.Key(t.Context(), "bcp.v1.key")
	failIf(t, err == nil, "an auditor has a key")
	// Without the folder of the keys there is nothing to sign with, or to read by.
	about := readFile(t, server.ReadyOf(x.keys))
	empty := filepath.Join(t.TempDir(), "state")
	noError(t, errors.Join(os.Mkdir(empty, 0o700), os.WriteFile(server.ReadyOf(empty), about, 0o600)))
	for _, command := range []string{"audit export " + filepath.Join(t.TempDir(), "e"), "audit export --checkpoint", "audit export --decision 1", "audit replay --raw"} {
		args := append(strings.Fields(command), "--dir", x.dir, "--state", empty)
		if r := execute(t, "", args...); r.code != cli.ExitFailed || !strings.Contains(r.stderr, "the keys of the mesh") || r.stdout != "" {
			t.Errorf("%s without keys: %d %s%s", command, r.code, r.stdout, r.stderr)
		}
	}
	left, err := os.ReadDir(empty)
	failIf(t, err != nil || len(left) != 1, "it made %v, %v", left, err)
}
