package define

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// examples holds one folder for each example mesh, ready to be copied.
//
//go:embed all:meshes
var examples embed.FS

const (
	examplesFolder = "meshes"
	// ignoreFile keeps private keys out of version control.
	ignoreFile = ".gitignore"
)

func exampleNames() []string {
	entries, err := fs.ReadDir(examples, examplesFolder)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func exampleFiles(name string) (fs.FS, error) {
	return fs.Sub(examples, path.Join(examplesFolder, name))
}

// InitCommand returns the command init.
func InitCommand(p *cli.Program) *cobra.Command {
	example := cli.WordFlag{Value: "research", Words: exampleNames()}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Make a commented mesh to start from",
		Long: `Make a commented mesh to start from in DIR, or in the current folder: mesh.yaml
and agents/*.md. DIR is made where there is none. Nothing is overwritten, and
either all files are written or none.

The examples are: research, a researcher on the web that tells its controller
of findings; mailroom, a reader of hostile mail whose controller learns who
wants what by when. Beside the mesh, .gitignore keeps private keys out of
version control.`,
		Example: `  bcpmesh init ./office
  bcpmesh init ./post --example mailroom`,
		Args:              cli.Arguments(0, "DIR"),
		ValidArgsFunction: cli.CompleteFolders,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			if dir == "" {
				return cli.Usagef("init: expected a folder, got an empty name")
			}
			files, err := writeExample(dir, example.Value)
			if err != nil {
				return err
			}
			if p.Out.JSON {
				return p.Out.Value(struct {
					Dir     string   `json:"dir"`
					Example string   `json:"example"`
					Files   []string `json:"files"`
				}{dir, example.Value, files})
			}
			if !slices.Contains(files, ignoreFile) {
				p.Out.Talkf("%s is there already: let it name %s/ and *.creds, which hold private keys", filepath.Join(dir, ignoreFile), home.Folder)
			}
			for _, name := range files {
				p.Out.Printf("%s\n", cli.Plain(filepath.Join(dir, filepath.FromSlash(name))))
			}
			p.Out.Talkf("look at the files, then: bcpmesh check %s", dir)
			return nil
		},
	}
	example.AddTo(cmd, "example", "which mesh to write")
	return cmd
}

// writeExample copies an example into dir and returns the names of its files.
func writeExample(dir, name string) ([]string, error) {
	from, err := exampleFiles(name)
	if err != nil {
		return nil, cli.Failf("the example %s: %s", name, err)
	}
	top, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, cli.Failf("the example %s: %s", name, err)
	}
	var parts []fs.DirEntry
	for _, e := range top {
		if _, err := os.Lstat(filepath.Join(dir, e.Name())); err == nil {
			if e.Name() == ignoreFile {
				continue // the operator's own
			}
			return nil, cli.Failf("%s exists", cli.Quoted(filepath.Join(dir, e.Name()))).WithHint("init writes into a folder without a mesh: name another one")
		}
		parts = append(parts, e)
	}
	if meshdir.HasAgentFile(dir) {
		return nil, cli.Failf("there are agents in %s already", cli.Quoted(dir)).WithHint("init writes into a folder without a mesh: name another one")
	}
	files, err := placeWhole(dir, from, parts)
	if err != nil {
		return nil, cli.Failf("a mesh cannot be made in %s: %s", cli.Quoted(dir), cli.ReasonOf(err))
	}
	return files, nil
}

// placeWhole writes a draft beside the place and moves its parts there; what
// it moved it takes back when a later part fails.
func placeWhole(dir string, from fs.FS, parts []fs.DirEntry) (files []string, err error) {
	made, err := makeFolders(dir)
	undo := made
	defer func() {
		if err != nil {
			for _, name := range slices.Backward(undo) {
				err = errors.Join(err, os.RemoveAll(name))
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	draft, err := os.MkdirTemp(dir, ".bcpmesh-init-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	err = fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		to := filepath.Join(draft, filepath.FromSlash(name))
		switch {
		case err != nil || name == ".":
			return err
		case path.Dir(name) == "." && !slices.ContainsFunc(parts, func(p fs.DirEntry) bool { return p.Name() == name }):
			return nil
		case e.IsDir():
			return os.Mkdir(to, 0o755)
		}
		files = append(files, name)
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o644)
	})
	if err != nil {
		return nil, err
	}
	for _, e := range parts {
		to := filepath.Join(dir, e.Name())
		if err := moveNew(filepath.Join(draft, e.Name()), to, e.IsDir()); err != nil {
			return nil, err
		}
		undo = append(undo, to)
	}
	return files, nil
}

// moveNew moves a file or a folder to a name that must be free: renaming
// replaces a file, but never a folder that holds something.
func moveNew(from, to string, isFolder bool) error {
	if isFolder {
		if _, err := os.Lstat(to); err == nil {
			return &os.PathError{Op: "make", Path: to, Err: fs.ErrExist}
		}
		return durable.Move(from, to)
	}
	return os.Link(from, to)
}

// makeFolders makes a folder and those above it, and returns what it made.
func makeFolders(dir string) ([]string, error) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("it is not a folder")
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	var made []string
	if parent := filepath.Dir(dir); parent != dir {
		if made, err = makeFolders(parent); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, err
	}
	return append(made, dir), nil
}
