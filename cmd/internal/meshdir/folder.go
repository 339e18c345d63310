package meshdir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Folder is where a mesh lives: the folder of its definitions and that of
// its state.
type Folder struct {
	Dir   string
	State string
}

// In is the mesh whose definitions are in dir.
func In(dir string) Folder {
	return Folder{Dir: dir, State: server.StateOf(dir)}
}

// Find finds the mesh of a folder: the folder itself, or the nearest one
// above it, that has mesh.yaml, agents or .bcpmesh. Agent files alone make a
// mesh of from, but of no folder above it.
func Find(from string) (Folder, error) {
	start, err := filepath.Abs(from)
	if err != nil {
		return Folder{}, cli.Failf("the current folder is unknown: %s", cli.FileReason(err))
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isMesh(dir) || dir == start && HasAgentFile(dir) {
			if relative, err := filepath.Rel(start, dir); err == nil && from == "." {
				dir = relative
			}
			return In(dir), nil
		}
		if filepath.Dir(dir) == dir {
			return Folder{}, cli.Failf("there is no mesh in %s or above", cli.Quoted(start)).
				WithHint("go to the folder of a mesh, or make one: bcpmesh init")
		}
	}
}

func isMesh(dir string) bool {
	for _, name := range []string{"mesh.yaml", "agents", server.StateFolder} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.IsDir() == (name != "mesh.yaml") {
			return true
		}
	}
	return false
}

// HasAgentFile reports whether dir has a file that defines an agent.
func HasAgentFile(dir string) bool {
	files, _ := fs.Glob(os.DirFS(dir), "*.md") // none in a folder that cannot be read
	return slices.ContainsFunc(files, func(name string) bool {
		content, err := cli.ReadSmall(filepath.Join(dir, name))
		return err == nil && (bytes.HasPrefix(content, []byte("---\n")) || bytes.HasPrefix(content, []byte("---\r")))
	})
}

// Argument returns the folder that an optional argument DIR names, or the
// mesh of the current folder.
func Argument(args []string) (Folder, error) {
	if len(args) == 0 {
		return Find(".")
	}
	if args[0] == "" {
		return Folder{}, cli.Usagef("expected a folder, got an empty name")
	}
	info, err := os.Stat(args[0])
	switch {
	case err != nil:
		return Folder{}, cli.Failf("%s cannot be read: %s", cli.Quoted(args[0]), cli.FileReason(err))
	case !info.IsDir():
		return Folder{}, cli.Failf("%s is not a folder", cli.Quoted(args[0]))
	}
	return In(args[0]), nil
}

// Load reads the definitions. A mesh with errors is a failure.
func (m Folder) Load() (*bcp.Mesh, error) {
	mesh, report := Elsewhere().Load(os.DirFS(m.Dir))
	if mesh == nil {
		return nil, m.Wrong(report)
	}
	return mesh, nil
}

// Wrong is the failure of definitions with errors.
func (m Folder) Wrong(report definition.Report) error {
	if len(report.Errors) == 0 {
		return cli.Failf("the definitions in %s cannot be loaded", cli.Quoted(m.Dir))
	}
	first := report.Errors[0]
	first.File = filepath.Join(m.Dir, first.File)
	return cli.Failf("%s", first).WithHint("bcpmesh check %s shows %s", m.Dir, cli.Count(len(report.Errors), "error"))
}

// Running reads where the mesh serves. The file may be of a mesh that was
// killed: whoever dials finds out.
func (m Folder) Running() (Ready, error) {
	about, err := readReady(server.ReadyOf(m.State))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Ready{}, cli.Failf("the mesh in %s is not running", cli.Quoted(m.Dir)).WithHint("start it: bcpmesh up %s", m.Dir)
	case errors.As(err, new(*fs.PathError)):
		return Ready{}, cli.Failf("%s cannot be read: %s", cli.Quoted(server.ReadyOf(m.State)), cli.FileReason(err))
	case err != nil || about.URL == "":
		return Ready{}, cli.Failf("%s is damaged", cli.Quoted(server.ReadyOf(m.State))).WithHint("start the mesh again: bcpmesh up %s", m.Dir)
	}
	return about, nil
}

// Serves reports whether a mesh runs on the folder.
func (m Folder) Serves() bool {
	about, err := m.Running()
	return err == nil && about.Alive()
}

// Definition is what the journal is read with: if the definitions are wrong, it
// is read all the same.
func (m Folder) Definition() *bcp.Mesh {
	if m.Dir == "" {
		return nil
	}
	def, _ := m.Load()
	return def
}

// CompleteDefined completes what the definitions have, of the mesh that a command line is about.
func CompleteDefined(names func(*bcp.Mesh) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (found []string, _ cobra.ShellCompDirective) {
		folder, err := Find(".")
		if flag := cmd.Flags().Lookup("dir"); flag != nil && flag.Value.String() != "" {
			folder, err = In(flag.Value.String()), nil
		} else if len(args) > 0 && strings.Contains(cmd.Use, "[DIR]") {
			folder, err = In(args[0]), nil
		}
		if err == nil {
			if mesh, err := folder.Load(); err == nil {
				found = names(mesh)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteAgents completes the names of the agents, and with people those of approvers and auditors too.
func CompleteAgents(people bool) cobra.CompletionFunc {
	return CompleteDefined(func(mesh *bcp.Mesh) []string {
		names := cli.Map(mesh.Agents, func(a bcp.Agent) string { return string(a.Name) })
		if people {
			for _, name := range slices.Concat(mesh.Approvers, mesh.Auditors) {
				names = append(names, string(name))
			}
		}
		return names
	})
}

// TalkProblem shows a problem that keeps nothing from running.
func TalkProblem(p *cli.Program, folder Folder, kind string, w definition.Problem) {
	if w.Key != "" {
		w.Message, w.Key = w.Key+": "+w.Message, ""
	}
	w.File, w.Message = filepath.Join(folder.Dir, w.File), kind+": "+w.Message
	p.Out.Talkf("%s", w)
}

// LoadRunning is LoadAll for a mesh that starts the commands of its agents.
func (m Folder) LoadRunning() (*bcp.Mesh, error) { return m.LoadAll(m.Here()) }

// ArchiveVariable is the environment variable that names a folder of saved pages, or says off for the network.
const ArchiveVariable = mesh.ArchiveVariable

// Archive opens the folder of saved pages that the environment names, nil for the network.
func (m Folder) Archive(name string) (*fetch.Archive, error) {
	if name == "" || name == "off" {
		return nil, nil
	}
	path, err := m.FindFile(name)
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		return nil, cli.Failf("the saved pages in %s cannot be read: %s", cli.Quoted(name), cli.FileReason(err)).WithHint("%s names a folder of responses, or is off", ArchiveVariable)
	}
	return fetch.NewArchive(os.DirFS(path)), nil
}

// Elsewhere looks for nothing on this machine. All agents with `command: builtin` use the model that
// [mesh.ModelVariable] names, if it is set.
func Elsewhere() definition.Site { return definition.Site{Model: os.Getenv(mesh.ModelVariable)} }

// Here has each command, each model, what tools read and keys looked for, as this machine would start it.
func (m Folder) Here() definition.Site {
	here := Elsewhere()
	here.Find, here.Read = mesh.FindCommand(m.Dir, os.Environ()), m.readable
	here.Open = func(model bcp.Model) error {
		_, err := wires.Open(model, m.lookedFor())
		return err
	}
	here.Key = func(place, of string) error {
		o := m.lookedFor()
		o.Token = true // if it is that of a mailbox
		_, err := wires.ReadKey(place, of, o)
		return err
	}
	return here
}

// Secrets returns the state of the mesh and the files with keys that an agent's keeper reads: nothing of either is for the agent.
func (m Folder) Secrets(def *bcp.Mesh, agent *bcp.Agent) ([]string, error) {
	secrets := []string{m.State}
	for _, place := range mesh.KeyPlaces(def, agent) {
		if file, ok := strings.CutPrefix(place, "file:"); ok {
			key, err := m.FindFile(file)
			if err != nil {
				return nil, err
			}
			secrets = append(secrets, key)
		}
	}
	return secrets, nil
}

// FindFile returns where a file of the definitions is.
func (m Folder) FindFile(name string) (string, error) {
	name = filepath.FromSlash(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.Dir, name)
	}
	return filepath.Abs(name)
}

// readable says why a tool cannot read what it is to read, in words for people.
func (m Folder) readable(tool, name string) error {
	path, err := m.FindFile(name)
	if err != nil {
		return err
	}
	if holder := Covers([]string{path}, m.State); holder != "" {
		return errors.New("it has the keys of the mesh below it: name the folders that the agent needs, one by one")
	}
	var opened io.Closer
	if tool == mailbox.Name {
		opened, err = mailbox.OpenBox(path)
	} else {
		opened, err = disk.OpenFolder(path)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(cli.FileReason(err), "mailbox "+path+": "))
	}
	return opened.Close()
}

// LoadAll is load with every error, a line each, for a mesh that runs.
func (m Folder) LoadAll(site definition.Site) (*bcp.Mesh, error) {
	def, report := site.Load(os.DirFS(m.Dir))
	if def != nil {
		return def, nil
	}
	lines := cli.Map(report.Errors, func(e definition.Problem) string { return e.String() })
	return nil, errors.New(strings.Join(lines, "\n"))
}

// Covers returns the first of some files and folders that is a file or has it below it, empty if none does.
func Covers(names []string, file string) string {
	file = resolved(file)
	for _, name := range names {
		below, err := filepath.Rel(resolved(name), file)
		if err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator)) {
			return name
		}
	}
	return ""
}

// resolved is a path without links, as far as it exists.
func resolved(name string) string {
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}
