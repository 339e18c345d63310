package define

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// meshes holds one folder for each example mesh, ready to be copied.
//
//go:embed all:meshes
var meshes embed.FS

const (
	examplesFolder = "meshes"
	// ignoreFile keeps private keys out of version control.
	ignoreFile = ".gitignore"
)

func exampleNames() []string {
	entries, err := fs.ReadDir(meshes, examplesFolder)
	if err != nil {
		return nil
	}
	names := []string{kernelExample}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// kernelExample is the mesh that bcpmesh demo --kernel plays.
const kernelExample = "assistant"

func exampleFiles(name string) (fs.FS, error) {
	if name == kernelExample {
		return examples.Assistant(), nil
	}
	return fs.Sub(meshes, path.Join(examplesFolder, name))
}

// Init writes an example mesh.
type Init struct {
	Example cli.WordFlag
	modelSeat
}

// Adjust says which examples there are.
func (o *Init) Adjust(*cobra.Command) {
	o.Example = cli.WordFlag{Value: "research", Words: exampleNames()}
}

// Run writes it.
func (o *Init) Run(_ context.Context, p *cli.Program, args []string) error {
	dir := "."
	if len(args) > 0 {
		dir = args[0]
	}
	if dir == "" {
		return cli.Usagef("init: expected a folder, got an empty name")
	}
	if err := o.check(o.Example.Value); err != nil {
		return err
	}
	files, err := writeExample(dir, o.Example.Value, o.edit)
	if err != nil {
		return err
	}
	return p.Out.Show(struct {
		Dir     string   `json:"dir"`
		Example string   `json:"example"`
		Files   []string `json:"files"`
	}{dir, o.Example.Value, files}, func() {
		if !slices.Contains(files, ignoreFile) {
			p.Out.Talkf("%s already exists: let it name %s/ and *.creds, which hold private keys", filepath.Join(dir, ignoreFile), server.StateFolder)
		}
		for _, name := range files {
			p.Out.Printf("%s\n", cli.Plain(filepath.Join(dir, filepath.FromSlash(name))))
		}
		p.Out.Talkf("look at the files, then: bcpmesh check %s", dir)
		if o.Model != "" {
			p.Out.Talkf("is the model there? bcpmesh doctor --model --dir %s calls it, for at most 16 tokens", dir)
		}
	})
}

// modelSeat has a model run the Reader of the example research. The zero value changes
// nothing.
type modelSeat struct{ Model, Endpoint string }

func (s *modelSeat) check(example string) error {
	switch {
	case s.Model == "" && s.Endpoint != "":
		return cli.Usagef("init: --endpoint needs --model")
	case s.Model == "":
		return nil
	case example != "research":
		return cli.Usagef("init: --model is for the example research")
	}
	if _, known := (&bcp.Mesh{}).ModelOf(s.Model); !known || strings.ContainsFunc(s.Model, func(r rune) bool { return r <= ' ' || strings.ContainsRune("#,{}[]'\"", r) }) {
		return cli.Usagef("init: --model: expected PROVIDER/MODEL, got %s", cli.Quoted(s.Model)).WithHint("the providers are %s", cli.JoinOr(bcp.Providers()))
	}
	if s.Endpoint == "" {
		return nil
	}
	if u, err := url.Parse(s.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(s.Endpoint, " ,{}[]#") {
		return cli.Usagef("init: --endpoint: expected a URL such as http://127.0.0.1:8000/v1, got %s", cli.Quoted(s.Endpoint))
	}
	return nil
}

// What the model's seat takes in the example's files.
const (
	programOfResearcher = "tools: [WebSearch, WebFetch, BCPRespond, BCPPublish]\nnetwork: outbound\n"
	seatOfResearcher    = `# The mesh starts a model in its place, confined. With tools: [web_fetch] and the hosts
# that it may reach as network, it reads the web: docs/agents.md.
command: builtin
model: %s
tools: []
`
	modelsOfMesh = `
# Where the models of agents are. A key is named by its place, key: env:NAME, file:PATH or command:WORDS.
models:
  - {name: own, provider: %s, model: %s, base_url: %s}
`
)

// edit returns what is written in place of a file of the example.
func (s *modelSeat) edit(name string, content []byte) []byte {
	if s.Model == "" {
		return content
	}
	provider, model, _ := strings.Cut(s.Model, "/")
	switch name {
	case "agents/researcher.md":
		named := s.Model
		if s.Endpoint != "" {
			named = "own"
		}
		return bytes.Replace(content, []byte(programOfResearcher), fmt.Appendf(nil, seatOfResearcher, named), 1)
	case "mesh.yaml":
		if s.Endpoint != "" {
			return fmt.Appendf(content, modelsOfMesh, provider, model, s.Endpoint)
		}
	}
	return content
}

// writeExample copies an example into dir, with what edit makes of its files, and returns
// their names.
func writeExample(dir, name string, edit func(name string, content []byte) []byte) ([]string, error) {
	from, err := exampleFiles(name)
	if err != nil {
		return nil, cli.Failf("the example %s: %s", name, err)
	}
	top, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, cli.Failf("the example %s: %s", name, err)
	}
	keep := "" // the operator's own
	for _, e := range top {
		switch _, err := os.Lstat(filepath.Join(dir, e.Name())); {
		case err != nil:
		case e.Name() == ignoreFile:
			keep = ignoreFile
		default:
			return nil, cli.Failf("%s exists", cli.Quoted(filepath.Join(dir, e.Name()))).WithHint("init writes into a folder without a mesh: name another one")
		}
	}
	if meshdir.HasAgentFile(dir) {
		return nil, cli.Failf("there are agents in %s already", cli.Quoted(dir)).WithHint("init writes into a folder without a mesh: name another one")
	}
	files, err := place(dir, from, keep, edit)
	if err != nil {
		return nil, cli.Failf("a mesh cannot be made in %s: %s", cli.Quoted(dir), cli.FileReason(err))
	}
	return files, nil
}

// place writes files where none are, but for one.
func place(dir string, from fs.FS, but string, edit func(name string, content []byte) []byte) (files []string, err error) {
	return files, fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		switch {
		case err != nil || name == but:
			return err
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		files = append(files, name)
		_, err = f.Write(edit(name, content))
		return errors.Join(err, f.Close())
	})
}
