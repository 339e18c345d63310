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
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// pushes publishes so many alerts on each shard.
func (x *shardedMesh) pushes(n int) {
	x.t.Helper()
	for range n {
		x.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
		x.says(cli.ExitOK, `publish boss alerts {"urgent":false} --as clerk --wait 60s`)
	}
}

// key returns the public key of a shard's checkpoints.
func (x *shardedMesh) key(shard int) string {
	x.t.Helper()
	return strings.TrimSpace(x.says(cli.ExitOK, fmt.Sprint("audit key --shard ", shard)))
}

// signs has checkpoints of both shards signed, and returns them.
func (x *shardedMesh) signs() (newest [2]audit.SignedCheckpoint) {
	x.t.Helper()
	for line := range strings.Lines(x.says(cli.ExitOK, "audit checkpoint --json")) {
		var said struct {
			audit.SignedCheckpoint
			Shard int `json:"shard"`
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			x.t.Fatalf("%q: %v", line, err)
		}
		newest[said.Shard] = said.SignedCheckpoint
	}
	return newest
}

func (x *shardedMesh) write(name, content string) string {
	x.t.Helper()
	file := filepath.Join(x.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		x.t.Fatal(err)
	}
	return file
}

// The journal of each shard of a cluster is a log with a key of its own. Whoever owns the
// keys exports it, signs checkpoints of which each continues the one before, and proves a
// decision, and whoever has the public key verifies that without a mesh.
//
// covers P11.2, P11.3, A-CHAIN, P4.5
func TestAuditOfACluster(t *testing.T) {
	t.Parallel()
	x := startShards(t)
	x.pushes(2)
	for _, command := range []string{"audit key", "audit export " + filepath.Join(t.TempDir(), "a"), "audit prove 1", "audit redecide"} {
		x.says(cli.ExitUsage, command, "the mesh has 2 shards, each with a journal of its own", "hint: name one with --shard")
		x.says(cli.ExitUsage, command+" --shard 2", "the mesh has no shard 2", "hint: it has the shards 0 to 1")
	}
	x.says(cli.ExitFailed, "audit prove 1 --shard 1", "no checkpoint was recorded yet", "audit checkpoint")

	first := x.signs()
	keys := [2]string{x.key(0), x.key(1)}
	if !regexp.MustCompile(`^bcpmesh/[a-z2-7]+\+`).MatchString(keys[0]) || !regexp.MustCompile(`^bcpmesh/[a-z2-7]+/shard-1\+`).MatchString(keys[1]) {
		t.Fatalf("the keys are %q", keys)
	}
	x.pushes(2)
	second := x.signs()
	for shard, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := note.Open([]byte(second[shard].Checkpoint), note.VerifierList(verifier)); err != nil || !strings.HasPrefix(n.Text, verifier.Name()+"\n") {
			t.Errorf("a stock reader of notes, shard %d: %+v, %v", shard, n, err)
		}
		before, err := verify.OpenCheckpoint([]byte(first[shard].Checkpoint), []string{key})
		if err != nil {
			t.Fatal(err)
		}
		after, err := verify.OpenCheckpoint([]byte(second[shard].Checkpoint), []string{key})
		if err != nil || after.Size < before.Size+2 {
			t.Errorf("shard %d: a checkpoint of %d decisions behind one of %d: %v", shard, after.Size, before.Size, err)
		}
		if _, err := verify.OpenCheckpoint([]byte(second[shard].Checkpoint), []string{keys[1-shard]}); err == nil {
			t.Errorf("the checkpoint of shard %d passes for one of the other", shard)
		}

		of := fmt.Sprint(" --shard ", shard)
		file := filepath.Join(t.TempDir(), "export")
		x.says(cli.ExitOK, "audit export "+file+of, "exported decisions 1 to", "key "+key)
		checks := "audit verify " + file + " --key " + key
		for _, c := range []audit.SignedCheckpoint{first[shard], second[shard]} {
			checks += " --since " + x.write("checkpoint", c.Checkpoint)
		}
		r := execute(t, "", strings.Fields(checks)...)
		if want := [2]string{"main ← mailer", "boss ← clerk"}[shard]; r.code != cli.ExitOK || !strings.Contains(r.stdout, want) || strings.Count(r.stdout, " ←") != 1 {
			t.Errorf("verify, shard %d: %d %s%s", shard, r.code, r.stdout, r.stderr)
		}
		if r := execute(t, "", "audit", "verify", file, "--key", keys[1-shard]); r.code != cli.ExitFailed || !strings.Contains(r.stderr, "another key") {
			t.Errorf("verify with the key of the other shard: %d %s", r.code, r.stderr)
		}
		if r := execute(t, "", "audit", "verify", file, "--key", key, "--key", keys[1-shard], "--since", x.write("other", second[1-shard].Checkpoint)); r.code != cli.ExitFailed {
			t.Errorf("an export of shard %d continues the other: %s", shard, r.stdout)
		}

		proof := x.write("proof", x.says(cli.ExitOK, "audit prove 3"+of, "c2sp.org/tlog-proof@v1", "index 2"))
		if r := execute(t, "", "audit", "verify", "--proof", proof, "--key", key); r.code != cli.ExitOK || !strings.Contains(r.stdout, fmt.Sprintf("decision 3 of %d", after.Size)) {
			t.Errorf("the proof of shard %d: %d %s%s", shard, r.code, r.stdout, r.stderr)
		}
		if r := execute(t, "", "audit", "verify", "--proof", proof, "--key", keys[1-shard]); r.code != cli.ExitFailed {
			t.Errorf("the proof of shard %d passes for one of the other", shard)
		}
		x.says(cli.ExitFailed, "audit prove 9999"+of, "decisions")
		x.says(cli.ExitOK, "audit redecide"+of, "4 same, 0 differ")
		x.says(cli.ExitOK, "audit checkpoint"+of, "— "+strings.Split(key, "+")[0]+" ")
	}
	x.says(cli.ExitOK, "audit redecide --channel boss/clerk", "4 same, 0 differ")
	x.says(cli.ExitOK, "audit checkpoint", "shard 0", "shard 1")

	// One shard's checkpoints do not pass for those of another, in the operator's own
	// folder neither: the journal contradicts them, and nothing is signed.
	trees := [2]string{filepath.Join(x.keys, "tree"), filepath.Join(x.keys, "tree.1")}
	err := errors.Join(os.Rename(trees[0], trees[0]+".away"), os.Rename(trees[1], trees[0]), os.Rename(trees[0]+".away", trees[1]))
	if err != nil {
		t.Fatal(err)
	}
	x.refused("")
	if err := os.WriteFile(filepath.Join(trees[0], "checkpoints"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.says(cli.ExitFailed, "audit checkpoint --shard 0", "the record of checkpoints is damaged")
	if content, err := os.ReadFile(filepath.Join(trees[0], "checkpoints")); err != nil || string(content) != "{}\n" {
		t.Errorf("something was signed: %s, %v", content, err)
	}
}

// refused expects that neither checkpoints nor exports of the journals are signed.
func (x *shardedMesh) refused(words string) {
	x.t.Helper()
	sizes := func() (sizes [2]int64) {
		for shard, folder := range []string{"tree", "tree.1"} {
			info, err := os.Stat(filepath.Join(x.keys, folder, "checkpoints"))
			if err != nil {
				x.t.Fatal(err)
			}
			sizes[shard] = info.Size()
		}
		return sizes
	}
	before := sizes()
	x.says(cli.ExitFailed, "audit checkpoint", "shard 0: "+words, "shard 1: "+words, "hint: nothing was signed")
	for _, shard := range []string{"0", "1"} {
		x.says(cli.ExitFailed, "audit checkpoint --shard "+shard, words, "hint: nothing was signed")
		file := filepath.Join(x.t.TempDir(), "export")
		x.says(cli.ExitFailed, "audit export "+file+" --shard "+shard, words, "hint: nothing was signed")
		if _, err := os.Stat(file); err == nil {
			x.t.Errorf("a refused export of shard %s left a file", shard)
		}
	}
	if after := sizes(); after != before {
		x.t.Errorf("checkpoints were recorded: %v bytes, and %v before", after, before)
	}
}

// Whoever owns the nodes can write another history, whose chain is whole. The checkpoints
// beside the operator's keys tell.
//
// covers P11.2, A-CHAIN
func TestAnotherHistoryOnACluster(t *testing.T) {
	t.Parallel()
	x := writeShards(t)
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
	backup := "backup " + filepath.Join(folder, "b.tar.gz") + " --shard 1 --url " + x.cluster.URL() + " --creds " + filepath.Join(x.files, keys.GatewaysFolder, "one")
	x.says(cli.ExitFailed, backup, "contradicts an earlier checkpoint", "hint: bcpmesh backup --salvage")
	x.says(cli.ExitOK, backup+" --salvage", "backed up")
	state := filepath.Join(folder, "state")
	if r := execute(t, "", "restore", filepath.Join(folder, "b.tar.gz"), state); r.code != cli.ExitOK {
		t.Fatal(r.stderr)
	}
	for _, name := range []string{"keys/checkpoint.1.key", "tree.1"} {
		if _, err := os.Stat(filepath.Join(state, name)); err == nil {
			t.Errorf("%s is in a backup of another history", name)
		}
	}
}

// Messages as they came are told of all shards in one order, or of one; and an auditor,
// who has no state folder, has no journal of any shard.
//
// covers P2.5, P11.3, P11.4, BCP-7
func TestJournalsOfAClusterAreTheOperators(t *testing.T) {
	t.Parallel()
	x := startShards(t)
	x.says(cli.ExitOK, `publish main digest {"summary":"zebra"} --as mailer --wait 60s`)
	x.says(cli.ExitOK, `publish boss digest {"summary":"okapi"} --as clerk --wait 60s`)
	x.says(cli.ExitOK, `publish main digest {"summary":"lemur"} --as mailer --wait 60s`)
	all := x.says(cli.ExitOK, "audit replay --raw --kind push", "shard 0: main ← mailer", "HOSTILE TEXT of mailer", "│ zebra", "shard 1: boss ← clerk", "HOSTILE TEXT of clerk", "│ okapi", "│ lemur")
	if !regexp.MustCompile(`(?s)zebra.*okapi.*lemur`).MatchString(all) {
		t.Errorf("not in the order of time:\n%s", all)
	}
	for _, of := range []string{" --shard 1", " --channel boss/clerk", " --agent clerk"} {
		if one := x.says(cli.ExitOK, "audit replay --raw --kind push"+of, "│ okapi"); strings.Contains(one, "zebra") || strings.Contains(one, "shard 1") {
			t.Errorf("%s:\n%s", of, one)
		}
	}
	x.says(cli.ExitOK, "audit replay --raw --kind push --json", `"controller":"boss" "shard":1 "raw":{"base64"`)
	x.says(cli.ExitUsage, "audit replay --raw --shard 2", "the mesh has no shard 2")

	creds := filepath.Join(t.TempDir(), "kim.creds")
	x.says(cli.ExitOK, "creds issue kim --role auditor --out "+creds)
	remote := " --as kim --url " + x.cluster.URL() + " --creds " + creds
	if r := execute(t, "", strings.Fields("audit replay --raw --shard 1"+remote)...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "for the owner of the state folder") {
		t.Errorf("with the creds of an auditor: %d %s%s", r.code, r.stdout, r.stderr)
	}
	kim, err := agents.Connect(t.Context(), x.cluster.URL(), agents.CredsFile(creds), agents.Options{Name: "kim"})
	if err != nil {
		t.Fatal(err)
	}
	defer kim.Close()
	for shard := range 2 {
		o := agents.NewOperator(kim).OnShard(shard)
		for r, err := range o.Journal(t.Context(), 0) {
			if err == nil {
				t.Errorf("an auditor reads %s of the journal of shard %d", r.Subject, shard)
			}
		}
		if _, err := o.Key(t.Context(), "bcp.v1.key"); err == nil {
			t.Errorf("an auditor has a key of shard %d", shard)
		}
	}
	// Without the folder of the keys there is nothing to sign with, or to read by.
	about, err := os.ReadFile(home.Ready(x.keys))
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.WriteFile(home.Ready(empty), about, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"audit export " + filepath.Join(t.TempDir(), "e") + " --shard 1", "audit checkpoint", "audit prove 1 --shard 1", "audit replay --raw"} {
		args := append(strings.Fields(command), "--dir", x.dir, "--state", empty)
		if r := execute(t, "", args...); r.code != cli.ExitFailed || !strings.Contains(r.stderr, "the keys of the mesh") || r.stdout != "" {
			t.Errorf("%s without keys: %d %s%s", command, r.code, r.stdout, r.stderr)
		}
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 1 {
		t.Errorf("it made %v, %v", left, err)
	}
}
