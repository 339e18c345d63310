package cli

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A saved context is a set of connection flags by name: addresses and paths, and no secret. What the command line or the
// environment says of which mesh is meant takes the place of all of it.
type savedContext map[string]string

// contextFlags are those that a context has; the first ones say which mesh is meant.
var contextFlags = []string{"dir", "state", "creds", "url", "ca", "as", "encoding"}

const namesMesh = 4 // of them

// noContext is selected in place of one.
const noContext = "none"

var contextName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// contextFile is where the context of a name is, and for none where the name of the selected one is. It is empty without a
// home folder.
func (p *Program) contextFile(name string) string {
	config := p.Env("XDG_CONFIG_HOME")
	if home := p.Env("HOME"); config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	switch {
	case config == "":
		return ""
	case name == "":
		return filepath.Join(config, "bcpmesh", "context")
	}
	return filepath.Join(config, "bcpmesh", "contexts", name+".json")
}

// selected is the name of the selected context, empty for none.
func (p *Program) selected() string {
	name, err := ReadSmall(p.contextFile(""))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

func (p *Program) readContext(name string) (c savedContext, err error) {
	if !contextName.MatchString(name) {
		return nil, Failf("%s is no name of a context", Quoted(name)).WithHint("letters, digits, - and _, such as office")
	}
	content, err := ReadSmall(p.contextFile(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Failf("there is no context %s", Quoted(name)).WithHint("bcpmesh context lists them, bcpmesh context none selects none")
	case err == nil:
		err = json.Unmarshal(content, &c)
	}
	for flag := range c {
		if !slices.Contains(contextFlags, flag) {
			err = errors.New("it has a key that is no connection flag")
		}
	}
	if err != nil {
		return nil, Failf("the context %s cannot be read: %s", Quoted(name), FileReason(err)).WithHint("save it again: bcpmesh context %s, with flags", name)
	}
	return c, nil
}

// useContext sets the flags of the selected context that cmd understands.
func (p *Program) useContext(cmd *cobra.Command, flags *pflag.FlagSet) error {
	for _, name := range contextFlags[:namesMesh] {
		if cmd.Annotations[connection+name] == ambient && flags.Lookup(name).Value.String() != "" {
			return nil // another mesh is meant
		}
	}
	if !slices.ContainsFunc(contextFlags, func(flag string) bool { return cmd.Annotations[connection+flag] == ambient }) {
		return nil // it has no connection flags
	}
	name := p.selected()
	if name == "" {
		return nil
	}
	c, err := p.readContext(name)
	if err != nil {
		return err
	}
	for flag, value := range c {
		if of := flags.Lookup(flag); cmd.Annotations[connection+flag] == ambient && of.Value.String() == "" && of.Value.Set(value) != nil {
			return Failf("the context %s: --%s does not take %s", name, flag, Quoted(value))
		}
	}
	return nil
}

// ContextCommand returns the command context.
func ContextCommand(p *Program) *cobra.Command {
	c := savedContext{}
	cmd := &cobra.Command{Use: "context [CONTEXT]", RunE: func(_ *cobra.Command, args []string) error {
		name := strings.Join(args, "")
		switch {
		case p.contextFile("") == "":
			return Failf("there is no home folder: neither HOME nor XDG_CONFIG_HOME is set")
		case len(c) > 0:
			return p.saveContext(name, c)
		case name == "":
			return p.listContexts()
		case name == noContext:
			name = ""
		default:
			if _, err := p.readContext(name); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(p.contextFile("")), 0o700); err != nil {
			return NotWritten(p.contextFile(""), err)
		}
		return WriteOver(p.contextFile(""), []byte(name+"\n"), 0o600)
	}}
	take(cmd, given, contextFlags, func(name, value string) { c[name] = value })
	return cmd
}

// saveContext writes a context, with whole paths: it is used from anywhere.
func (p *Program) saveContext(name string, c savedContext) error {
	if name == noContext || !contextName.MatchString(name) {
		return Usagef("context: %s is no name of a context", Quoted(name)).WithHint("letters, digits, - and _, such as office")
	}
	for of := range strings.SplitSeq(c["url"], ",") {
		if u, err := url.Parse(of); err != nil || u.User != nil {
			return Usagef("context: --url: expected an address without a user or password, got %s", Quoted(of))
		}
	}
	for _, flag := range []string{"dir", "state", "creds", "ca"} {
		if c[flag] != "" {
			c[flag] = Absolute(c[flag])
		}
	}
	content, err := json.Marshal(c, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.contextFile(name)), 0o700); err != nil {
		return NotWritten(p.contextFile(name), err)
	}
	return WriteOver(p.contextFile(name), append(content, '\n'), 0o600)
}

// listContexts shows the contexts.
func (p *Program) listContexts() error {
	type listed struct {
		Name     string       `json:"name"`
		Selected bool         `json:"selected"`
		Flags    savedContext `json:"flags"`
	}
	var list []listed
	for _, name := range p.contexts() {
		c, err := p.readContext(name)
		if err != nil {
			return err
		}
		list = append(list, listed{name, name == p.selected(), c})
	}
	return ShowRows(p.Out, list, "no context is saved", []string{"context", "selected", "flags"}, func(l *listed) []string {
		var flags []string
		for _, flag := range contextFlags {
			if l.Flags[flag] != "" {
				flags = append(flags, "--"+flag+" "+l.Flags[flag])
			}
		}
		return []string{l.Name, map[bool]string{true: "yes"}[l.Selected], strings.Join(flags, "\n")}
	})
}

// contexts are the names of the contexts, sorted.
func (p *Program) contexts() []string {
	files, _ := os.ReadDir(filepath.Dir(p.contextFile("x"))) // no folder, no contexts
	return Map(files, func(file os.DirEntry) string { return strings.TrimSuffix(file.Name(), ".json") })
}
