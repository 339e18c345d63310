package attach

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// entryName names the mesh's server in the file of a host.
const entryName = "bcpmesh"

// Adopt makes a host an agent of the mesh.
type Adopt struct {
	Creds, As string `how:"given"`
	Undo      bool
}

// Adjust says which hosts there are.
func (o *Adopt) Adjust(cmd *cobra.Command) {
	names := cli.Map(mcp.Hosts(), func(h mcp.Host) string { return h.Name + "\t" + h.Title })
	cmd.ValidArgsFunction = cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}

// Run adds an entry to the file of a host, or takes it out.
func (o *Adopt) Run(_ context.Context, p *cli.Program, args []string) error {
	h, ok := mcp.FindHost(args[0])
	if !ok {
		return cli.Usagef("adopt: no host %s is known", cli.Quoted(args[0])).WithHint("bcpmesh adopt --help lists those that are; docs/bridges.md has the entry for others")
	}
	place, err := findHosts(p)
	if err != nil {
		return err
	}
	var server mcp.HostEntry
	if !o.Undo {
		if server, err = o.server(); err != nil {
			return err
		}
	}
	file := h.File(place)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // of a link what it leads to, since it is replaced
	}
	before, mode, err := hostFile(file)
	if err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	if o.Undo {
		return undoAdopt(p, h, file, before, mode)
	}
	return o.adopt(p, h, file, before, mode, server)
}

// findHosts says where the files of hosts are.
func findHosts(p *cli.Program) (mcp.HostPlace, error) {
	project, err := os.Getwd()
	if err != nil {
		return mcp.HostPlace{}, err
	}
	home := cmp.Or(p.Env("HOME"), p.Env("USERPROFILE"))
	if home == "" {
		return mcp.HostPlace{}, cli.Failf("there is no home folder: neither HOME nor USERPROFILE is set")
	}
	config := p.Env("XDG_CONFIG_HOME")
	if runtime.GOOS == "windows" {
		config = p.Env("APPDATA")
	}
	return mcp.HostPlace{OS: runtime.GOOS, Home: home, Config: cmp.Or(config, filepath.Join(home, ".config")), Project: project}, nil
}

// adopt adds the entry.
func (o *Adopt) adopt(p *cli.Program, h mcp.Host, file string, before []byte, mode fs.FileMode, server mcp.HostEntry) error {
	after, err := h.Add(before, server)
	if err != nil {
		return hostFailure(file, err)
	}
	if bytes.Equal(before, after) && before != nil {
		p.Out.Talkf("%s has it already: %s", h.Title, cli.Quoted(file))
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return cli.NotWritten(file, err)
	}
	// The first time alone: what is kept is from before the mesh.
	if err := disk.Create(keptName(file), before, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return cli.NotWritten(keptName(file), err)
	}
	if err := disk.Replace(file, after, mode); err != nil {
		return cli.NotWritten(file, err)
	}
	p.Out.Talkf("%s is %s now: %s", h.Title, o.As, cli.Quoted(file))
	p.Out.Talkf("restart it; to undo: bcpmesh adopt %s --undo", h.Name)
	return nil
}

// server says how the host starts the mesh's server, with whole paths: hosts start
// elsewhere.
func (o *Adopt) server() (mcp.HostEntry, error) {
	name, err := bcp.ParseAgentName(o.As)
	if err != nil {
		return mcp.HostEntry{}, cli.Usagef("adopt: expected --as AGENT").WithHint("for example bcpmesh adopt claude-code --as main")
	}
	creds, err := filepath.Abs(cmp.Or(o.Creds, string(name)+".creds"))
	if err != nil {
		return mcp.HostEntry{}, err
	}
	who, err := meshdir.ReadCreds(creds)
	if errors.Is(err, fs.ErrNotExist) || o.Creds == "" && err != nil {
		return mcp.HostEntry{}, cli.Failf("the creds of %s cannot be read: %s", name, cli.Quoted(creds)).WithHint("bcpmesh creds issue %s --out %s.creds makes them", name, name)
	}
	if err != nil {
		return mcp.HostEntry{}, err
	}
	if who.Agent != name {
		return mcp.HostEntry{}, cli.Failf("%s belongs to %s, not to %s", cli.Quoted(creds), who.Agent, name)
	}
	program, err := os.Executable()
	if err != nil {
		return mcp.HostEntry{}, err
	}
	return mcp.HostEntry{Name: entryName, Command: program, Args: []string{"mcp", "--creds", creds}}, nil
}

// undoAdopt takes the entry out: the file as it was, if nothing else has changed since.
func undoAdopt(p *cli.Program, h mcp.Host, file string, now []byte, mode fs.FileMode) error {
	rest, found, err := h.Remove(now, entryName)
	switch {
	case err != nil:
		return hostFailure(file, err)
	case !found:
		p.Out.Talkf("%s has no entry %s: %s", h.Title, entryName, cli.Quoted(file))
		return nil
	}
	kept, _, err := hostFile(keptName(file))
	if err != nil {
		kept = nil
	}
	if kept != nil && nothingElse(h, kept, rest) {
		rest = kept
	}
	if kept != nil && len(rest) == 0 {
		err = os.Remove(file)
	} else {
		err = disk.Replace(file, rest, mode)
	}
	if err != nil {
		return cli.NotWritten(file, err)
	}
	if kept != nil {
		_ = os.Remove(keptName(file)) // it may stay: the next adopt keeps what it finds
	}
	p.Out.Talkf("%s is no longer an agent of the mesh: %s", h.Title, cli.Quoted(file))
	return nil
}

// nothingElse reports whether a file without the entry is what becomes of the kept one when an entry is added and taken out.
func nothingElse(h mcp.Host, kept, rest []byte) bool {
	after, err := h.Add(kept, mcp.HostEntry{Name: entryName})
	if err != nil {
		return false
	}
	again, _, err := h.Remove(after, entryName)
	return err == nil && bytes.Equal(again, rest)
}

// keptName is where the file is kept as it was before the mesh. It is empty if there
// was none.
func keptName(file string) string { return file + ".before-bcpmesh" }

// hostFile returns the content of a host's file, nil if there is none, and the mode that
// it has or gets: it names a creds file and may have others' secrets.
func hostFile(file string) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0o600, nil
	case err != nil:
		return nil, 0, err
	}
	content, err := disk.ReadFile(file, mcp.MaxHostFile)
	return append([]byte{}, content...), info.Mode().Perm(), err
}

func hostFailure(file string, err error) error {
	if errors.Is(err, mcp.ErrHostSyntax) {
		return cli.Failf("%s cannot be read as its host's configuration", cli.Quoted(file)).WithHint("correct it first; nothing was changed")
	}
	return cli.Failf("%s: %s", cli.Quoted(file), cli.FileReason(err))
}
