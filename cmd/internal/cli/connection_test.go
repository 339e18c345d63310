package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command gets the connection flags that it understands, and refuses the others; the environment says nothing of a flag that
// only the command line sets, and a CA is that of the URL beside it.
func TestConnectionFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, env, want string }{
		{"here", "", ""},
		{"here --dir a --url b --wait 2s", "", "dir=a url=b wait=2s"},
		{"--dir a here", "", "dir=a"},
		{"here", "BCPMESH_DIR=e BCPMESH_CA=c", "dir=e ca=c"},
		{"here --dir a", "BCPMESH_DIR=e", "dir=a"},
		{"here --url b", "BCPMESH_CA=c", "url=b"},
		{"here --creds k", "", "creds=k"},
		{"here", "BCPMESH_CREDS=k BCPMESH_WAIT=2s", ""},
		{"here --state s", "", "bcpmesh: here: --state does nothing here"},
		{"here", "BCPMESH_STATE=s", ""},
		{"here --wait 9ms", "", "bcpmesh: here: --wait: expected a duration of at least 10ms"},
		{"here --encoding morse", "", "bcpmesh: here: --encoding: expected json or msgpack"},
		{"here", "BCPMESH_ENCODING=morse", "bcpmesh: BCPMESH_ENCODING: --encoding does not take"},
		{"there --dir a", "", "bcpmesh: there: --dir does nothing here"},
		{"there --state own", "BCPMESH_STATE=s", "own=own"},
	} {
		t.Run(c.line+" "+c.env, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			for _, set := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(set, "=")
				env[name] = value
			}
			var out bytes.Buffer
			Run(context.Background(), connectionCommands, strings.Fields(c.line), strings.NewReader(""), &out, &out, func(name string) string { return env[name] })
			if got := strings.TrimSpace(out.String()); got != c.want && (!strings.HasPrefix(c.want, "bcpmesh: ") || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// here is a command that understands connection flags.
type here struct {
	Dir, URL, CA, Encoding string
	Creds                  string `how:"given"`
	Wait                   DurationFlag
}

func say(name, value string) string {
	if value == "" {
		return ""
	}
	return name + "=" + value
}

// Run says what it was told.
func (o *here) Run(_ context.Context, p *Program, _ []string) error {
	p.Out.Printf("%s\n", strings.Join(Compact(say("dir", o.Dir), say("url", o.URL), say("ca", o.CA), say("creds", o.Creds), say("encoding", o.Encoding), say("wait", o.Wait.String())), " "))
	return nil
}

// connectionCommands are a program with a command that understands connection flags and one that has a flag of its own.
func connectionCommands(p *Program) *cobra.Command {
	var own string
	there := &cobra.Command{Use: "there", RunE: func(*cobra.Command, []string) error {
		p.Out.Printf("%s\n", say("own", own))
		return nil
	}}
	there.Flags().StringVar(&own, "state", "", "a state of its own")
	return Root(p, "", WriteUsage, nil, New(p, "here", &here{}), there)
}
