package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// The mesh of a folder is the nearest that has one of the three names; agent
// files make one of the folder itself alone.
//
// covers P1.2
func TestFindMesh(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"office/mesh.yaml": "", "office/deep/notes.md": "---\nname: a\n---\n", "agents-only/agents/a.md": "", "state-only/.bcpmesh/keys/x": "",
		"flat/a.md": "---\r\nname: a\r\n---\r\n", "flat/below/x": "", "prose/a.md": "# Title\n", "false/mesh.yaml/x": "", "false/agents": "",
	})
	for from, want := range map[string]string{
		"office": "office", "office/deep": "office/deep", "office/other": "office", "agents-only/agents": "agents-only",
		"state-only/.bcpmesh/keys": "state-only", "flat": "flat", "flat/below": "", "prose": "", "false": "", ".": "",
	} {
		folder, err := meshdir.Find(filepath.Join(root, from))
		if want == "" {
			failIf(t, err == nil, "%s: found %s", from, folder.Dir)
			continue
		}
		failIf(t, err != nil || folder != meshdir.In(filepath.Join(root, want)), "%s: got %+v, %v", from, folder, err)
	}
}

// What a running mesh left is taken as it should be, or not at all.
func TestRunning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		url     string
		wrong   string
	}{
		"right":    {`{"url":"nats://127.0.0.1:4222","state":"/s","pid":7}`, "nats://127.0.0.1:4222", ""},
		"missing":  {"", "", "is not running"},
		"empty":    {" ", "", "is damaged"},
		"no url":   {`{"state":"/s","pid":7}`, "", "is damaged"},
		"more":     {`{"url":"u","state":"/s","pid":7,"x":1}`, "", "is damaged"},
		"trailing": {`{"url":"u","state":"/s","pid":7}{}`, "", "is damaged"},
		"limit":    {`{"url":"u"}` + strings.Repeat(" ", cli.MaxSmallFile-11), "u", ""},
		"too long": {`{"url":"u"}` + strings.Repeat(" ", cli.MaxSmallFile-10), "", "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := meshdir.In(t.TempDir())
			if c.content != "" {
				writeFiles(t, folder.State, map[string]string{server.ReadyFile: c.content})
			}
			about, err := folder.Running()
			failIf(t, about.URL != c.url || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong),
				"got %+v, %v", about, err)
		})
	}
}
