package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
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
	cmd.Flags().StringVar(&f.url, "url", "", "with --context: `URL` of the mesh (default: that of the running one)")
}

// plan finds where the context is to be and how the mesh is reached, nil where
// none is asked for. It refuses one that is there.
func (f *contextFlags) plan(p *program, folder meshFolder) (*natsContext, error) {
	if f.name == "" {
		if f.url != "" {
			return nil, usagef("creds issue: --url goes with --context")
		}
		return nil, nil
	}
	if !contextName.MatchString(f.name) {
		return nil, usagef("creds issue: --context: %s is no name", quoted(f.name)).withHint("letters, digits, - and _, such as --context office-main")
	}
	parent := p.env("XDG_CONFIG_HOME")
	if parent == "" {
		home := p.env("HOME")
		if home == "" {
			return nil, failf("--context: there is no home folder to put it in").withHint("set HOME or XDG_CONFIG_HOME")
		}
		parent = filepath.Join(home, ".config")
	}
	c := &natsContext{file: filepath.Join(parent, "nats", "context", f.name+".json"), URL: f.url}
	if _, err := os.Lstat(c.file); err == nil {
		return nil, failf("--context: %s exists", quoted(c.file)).withHint("name another one, or remove it: nats context rm %s", f.name)
	}
	if about, err := folder.running(); err == nil && about.alive() {
		c.CA = about.CA
		if c.URL == "" {
			c.URL = about.known()
		}
	}
	if c.URL == "" {
		return nil, failf("--context: the mesh does not run, and so says no URL").withHint("name it: --url tls://HOST:4222; or start the mesh first")
	}
	u, err := meshURL(c.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "nats" || u.Scheme == "ws" {
		c.CA = ""
	} else if ca := accounts.AuthorityFile(folder.state); c.CA == "" {
		if _, err := os.Stat(ca); err == nil {
			c.CA = absolute(ca)
		}
	}
	return c, nil
}

// known is the URL of a mesh under a name that its certificate is for.
func (r ready) known() string {
	u, err := url.Parse(r.URL)
	if err != nil || r.Name == "" {
		return r.URL
	}
	u.Host = net.JoinHostPort(r.Name, u.Port())
	return u.String()
}

// write writes the context of creds that are in a file.
func (c *natsContext) write(u accounts.User, creds string) error {
	c.Description = "bcpmesh: " + string(u.Agent) + " as " + u.Role.String()
	c.Creds, c.InboxPrefix = absolute(creds), subjects.InboxPrefix(u.Agent)
	if u.Role == bcp.RoleAuditor || u.Role == bcp.RoleOperator {
		c.APIPrefix = subjects.AuditPrefix
	}
	content, err := json.Marshal(c, jsontext.Multiline(true))
	if err != nil {
		return failf("--context: %s", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return notWritten(c.file, err)
	}
	draft, err := createFile(c.file)
	if err != nil {
		return err
	}
	defer draft.discard()
	if _, err := draft.Write(append(content, '\n')); err != nil {
		return notWritten(c.file, err)
	}
	_, _, err = draft.keep()
	return err
}
