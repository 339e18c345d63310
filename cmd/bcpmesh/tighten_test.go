package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// playMailroom has the mailroom of a folder read mail.
func playMailroom(t *testing.T, dir string, files fs.FS) {
	t.Helper()
	folder := meshdir.In(dir)
	def := must(folder.Load())(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := must(mesh.Start(ctx, mesh.Config{Definition: def, State: folder.State, Version: cli.ProgramVersion()}))(t)
	defer func() {
		err := m.Stop(context.WithoutCancel(ctx))
		failIf(t, err != nil, "%v", err)
	}()
	reader := must(m.Issue(mailroom.ReaderAgent, bcp.RoleReader, time.Hour))(t)
	assistant := must(m.Issue(mailroom.AssistantAgent, bcp.RoleController, time.Hour))(t)
	if err := mailroom.Run(ctx, mailroom.Options{URL: m.URL(), Reader: agents.CredsText(reader.Text()), Assistant: agents.CredsText(assistant.Text()), Mail: files,
		Said: func(mailroom.Said) {}, Did: func(string) {}, After: func(mailroom.Done) error { return nil }}); err != nil {
		t.Fatal(err)
	}
}

// The mailroom gets its mail again and again, a part of it hostile. What tighten proposes fits what is not hostile, for two
// thirds of the capacity; that what fits a history fits what comes is proven beside it.
//
// covers P4.1, P11.3, P12.4
func TestTightenMailroom(t *testing.T) {
	t.Parallel()
	const rounds = 7
	dir := t.TempDir()
	noError(t, os.CopyFS(dir, examples.Mailroom()))
	for _, name := range []string{"agents/assistant.md", "agents/mail-reader.md", "mesh.yaml"} {
		file := filepath.Join(dir, name)
		text := readFile(t, file)
		wider := strings.NewReplacer("budget_bits: 12000", "budget_bits: 1000000", "max_refusals: 200/m", "max_refusals: 6000/m").Replace(string(text))
		noError(t, os.WriteFile(file, []byte(wider), 0o600))
	}
	box := fstest.MapFS{}
	noError(t, fs.WalkDir(examples.Mail(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(examples.Mail(), name)
		for round := range rounds {
			box[fmt.Sprintf("%s/%d-%s", filepath.Dir(name), round, filepath.Base(name))] = &fstest.MapFile{Data: content}
		}
		return err
	}))
	playMailroom(t, dir, box)
	shown := succeed(t, "audit", "tighten", "--dir", dir)
	for _, want := range []string{"\n  + budget_bits: ", "alphabet: latin", "min: 2025, max: 2028", "for them and their like no room is made"} {
		failIf(t, !strings.Contains(shown, want), "no %q in %s", want, shown)
	}
	var proposals []tighten.Proposal
	noError(t, json.Unmarshal([]byte(succeed(t, "audit", "tighten", "--dir", dir, "--json")), &proposals))
	failIf(t, len(proposals) != 1 || proposals[0].Refused*20 > proposals[0].Messages || proposals[0].Capacity == 0 || 3*proposals[0].Capacity > 2*proposals[0].CapacityWas,
		"%+v", proposals)
}
