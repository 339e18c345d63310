package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// maxSmallFile bounds files of a few lines, such as mesh.json and creds.
const maxSmallFile = 64 << 10

// meshFolder is where a mesh lives: the folder of its definitions and that of
// its state.
type meshFolder struct {
	dir   string
	state string
}

func meshIn(dir string) meshFolder {
	return meshFolder{dir: dir, state: filepath.Join(dir, stateFolder)}
}

// findMesh finds the mesh of a folder: the folder itself, or the nearest one
// above it, that has mesh.yaml, agents or .bcpmesh. Agent files alone make a
// mesh of from, but of no folder above it.
func findMesh(from string) (meshFolder, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return meshFolder{}, failf("the current folder is unknown: %s", reasonOf(err))
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isMesh(dir) || dir == start && hasAgentFile(dir) {
			if relative, err := filepath.Rel(start, dir); err == nil && from == "." {
				dir = relative
			}
			return meshIn(dir), nil
		}
		if filepath.Dir(dir) == dir {
			return meshFolder{}, failf("there is no mesh in %s or above", quoted(start)).
				withHint("go to the folder of a mesh, or make one: bcpmesh init")
		}
	}
}

func isMesh(dir string) bool {
	for _, name := range []string{"mesh.yaml", "agents", stateFolder} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.IsDir() == (name != "mesh.yaml") {
			return true
		}
	}
	return false
}

func hasAgentFile(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".md") {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		var start [4]byte
		_, err = io.ReadFull(f, start[:])
		_ = f.Close() // it was only read
		if err == nil && (string(start[:]) == "---\n" || string(start[:]) == "---\r") {
			return true
		}
	}
	return false
}

// meshArgument returns the folder that an optional argument DIR names, or the
// mesh of the current folder.
func meshArgument(args []string) (meshFolder, error) {
	if len(args) == 0 {
		return findMesh(".")
	}
	if args[0] == "" {
		return meshFolder{}, usagef("expected a folder, got an empty name")
	}
	info, err := os.Stat(args[0])
	switch {
	case err != nil:
		return meshFolder{}, failf("%s cannot be read: %s", quoted(args[0]), reasonOf(err))
	case !info.IsDir():
		return meshFolder{}, failf("%s is not a folder", quoted(args[0]))
	}
	return meshIn(args[0]), nil
}

// load reads the definitions. A mesh with errors is a failure.
func (m meshFolder) load() (*bcp.Mesh, error) {
	mesh, report := definition.Load(os.DirFS(m.dir))
	if mesh == nil {
		return nil, m.wrong(report)
	}
	return mesh, nil
}

// wrong is the failure of definitions with errors.
func (m meshFolder) wrong(report definition.Report) error {
	if len(report.Errors) == 0 {
		return failf("the definitions in %s cannot be loaded", quoted(m.dir))
	}
	first := report.Errors[0]
	first.File = filepath.Join(m.dir, first.File)
	return failf("%s", first).withHint("bcpmesh check %s shows %s", m.dir, count(len(report.Errors), "error"))
}

// running reads where the mesh serves. The file may be of a mesh that was
// killed: whoever dials finds out.
func (m meshFolder) running() (ready, error) {
	content, err := readSmall(filepath.Join(m.state, readyName))
	if errors.Is(err, fs.ErrNotExist) {
		return ready{}, failf("the mesh in %s is not running", quoted(m.dir)).withHint("start it: bcpmesh up %s", m.dir)
	}
	if err != nil {
		return ready{}, failf("%s cannot be read: %s", quoted(filepath.Join(m.state, readyName)), reasonOf(err))
	}
	var about ready
	if err := json.Unmarshal(content, &about, json.RejectUnknownMembers(true)); err != nil || about.URL == "" {
		return ready{}, failf("%s is damaged", quoted(filepath.Join(m.state, readyName))).withHint("start the mesh again: bcpmesh up %s", m.dir)
	}
	return about, nil
}

// serves reports whether a mesh runs on the folder.
func (m meshFolder) serves() bool {
	about, err := m.running()
	return err == nil && about.alive()
}

// definition is what the journal is read with: where the definitions are wrong, it
// is read all the same.
func (m meshFolder) definition() *bcp.Mesh {
	if m.dir == "" {
		return nil
	}
	def, _ := m.load()
	return def
}

var errTooLarge = errors.New("it is too large")

// readSmall reads a regular file of at most maxSmallFile bytes.
func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxSmallFile:
		return nil, errTooLarge
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(f, maxSmallFile+1)); err != nil {
		return nil, err
	}
	if b.Len() > maxSmallFile {
		return nil, errTooLarge
	}
	return b.Bytes(), nil
}

// completeAgents completes the names of the agents, and with people those of
// approvers and auditors too, of the mesh that a command line is about.
func completeAgents(people bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		folder, err := findMesh(".")
		if flag := cmd.Flags().Lookup("dir"); flag != nil && flag.Value.String() != "" {
			folder, err = meshIn(flag.Value.String()), nil
		} else if len(args) > 0 && strings.Contains(cmd.Use, "[DIR]") {
			folder, err = meshIn(args[0]), nil
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		mesh, err := folder.load()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return agentNames(mesh, people), cobra.ShellCompDirectiveNoFileComp
	}
}

func agentNames(mesh *bcp.Mesh, people bool) []string {
	var names []string
	for _, a := range mesh.Agents {
		names = append(names, string(a.Name))
	}
	if people {
		for _, name := range append(mesh.Approvers[:len(mesh.Approvers):len(mesh.Approvers)], mesh.Auditors...) {
			names = append(names, string(name))
		}
	}
	return names
}

// completeFolders completes a DIR argument.
func completeFolders(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
