package keys

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// natsContext is what the nats CLI keeps of a connection.
type natsContext struct {
	file string

	Description string `json:"description"`
	URL         string `json:"url"`
	Creds       string `json:"creds"`
	CA          string `json:"ca,omitempty"`
	InboxPrefix string `json:"inbox_prefix"`
	// APIPrefix is where people read streams.
	APIPrefix string `json:"jetstream_api_prefix,omitempty"`
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// contextFlags ask for a context.
type contextFlags struct{ name, url string }

func (f *contextFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "context", "", "also write a context of this `NAME` for the nats CLI")
	cli.TakeGiven(cmd, "--url: for --context (default: that of the running mesh)", cli.Into{"url": &f.url})
}

// plan finds where the context is to be and how the mesh is reached, nil if
// none is asked for. It refuses one that is there.
func (f *contextFlags) plan(p *cli.Program, folder meshdir.Folder) (*natsContext, error) {
	if f.name == "" {
		if f.url != "" {
			return nil, cli.Usagef("creds issue: --url needs --context")
		}
		return nil, nil
	}
	if !contextName.MatchString(f.name) {
		return nil, cli.Usagef("creds issue: --context: %s is not a valid name", cli.Quoted(f.name)).WithHint("letters, digits, - and _, such as --context office-main")
	}
	parent := p.Env("XDG_CONFIG_HOME")
	if parent == "" {
		home := p.Env("HOME")
		if home == "" {
			return nil, cli.Failf("--context: there is no home folder to put it in").WithHint("set HOME or XDG_CONFIG_HOME")
		}
		parent = filepath.Join(home, ".config")
	}
	c := &natsContext{file: filepath.Join(parent, "nats", "context", f.name+".json"), URL: f.url}
	if _, err := os.Lstat(c.file); err == nil {
		return nil, cli.Failf("--context: %s exists", cli.Quoted(c.file)).WithHint("name another one, or remove it: nats context rm %s", f.name)
	}
	if about, err := folder.Running(); err == nil && about.Alive() {
		c.CA = about.CA
		if c.URL == "" {
			c.URL = about.Known()
		}
	}
	if c.URL == "" {
		return nil, cli.Failf("--context: the mesh does not run, so its URL is not known").WithHint("name it: --url tls://HOST:4222; or start the mesh first")
	}
	u, err := meshdir.MeshURL(c.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "nats" || u.Scheme == "ws" {
		c.CA = ""
	} else if ca := accounts.AuthorityFile(folder.State); c.CA == "" {
		if _, err := os.Stat(ca); err == nil {
			c.CA = cli.Absolute(ca)
		}
	}
	return c, nil
}

// write writes the context of creds that are in a file.
func (c *natsContext) write(u accounts.User, creds string) error {
	c.Description = "bcpmesh: " + string(u.Agent) + " as " + u.Role.String()
	c.Creds, c.InboxPrefix = cli.Absolute(creds), subjects.InboxPrefix(u.Agent)
	if u.Role == bcp.RoleAuditor || u.Role == bcp.RoleOperator {
		c.APIPrefix = subjects.AuditPrefix
	}
	content, err := json.Marshal(c, jsontext.Multiline(true))
	if err != nil {
		return cli.Failf("--context: %s", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return cli.NotWritten(c.file, err)
	}
	draft, err := cli.CreateFile(c.file)
	if err != nil {
		return err
	}
	defer draft.Discard()
	if _, err := draft.Write(append(content, '\n')); err != nil {
		return cli.NotWritten(c.file, err)
	}
	_, _, err = draft.Keep()
	return err
}
