package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Serving says which agent a command serves: the creds file has its name and role.
type Serving struct {
	Creds, URL, CA, Encoding string `how:"given"`
	// Roles are those of which the creds must have one; without, a controller or a reader.
	Roles []bcp.Role `flag:"-"`
}

// CredsVariable is the environment variable with which a mesh names the creds of a role to the commands of its agents.
func CredsVariable(role bcp.Role) string {
	return "BCPMESH_" + strings.ToUpper(role.String()) + "_CREDS"
}

// FromEnvironment takes what a mesh gives to the commands of its agents, for the flags
// that were not given. roles are those whose creds are looked for.
func (f *Serving) FromEnvironment(env func(string) string, roles ...bcp.Role) {
	if f.Creds != "" {
		return
	}
	for _, role := range roles {
		if f.Creds = env(CredsVariable(role)); f.Creds != "" {
			break
		}
	}
	if f.Creds == "" {
		return
	}
	if f.URL == "" {
		f.URL, f.CA = env("BCPMESH_URL"), env("BCPMESH_CA")
	}
	f.Encoding = cmp.Or(env("BCPMESH_ENCODING"), f.Encoding)
}

// Await is Serve for a mesh that may not be up yet: it waits for a server at the
// address, says so once, and fails like Serve at everything else.
func (f *Serving) Await(ctx context.Context, p *cli.Program, command string, handlers int) (*Client, error) {
	for told := false; ; {
		agent, err := f.Serve(ctx, p, command, handlers)
		if err == nil || !errors.Is(err, nats.ErrNoServers) {
			return agent, err
		}
		if !told {
			told = true
			p.Out.Talkf("%s; waiting for it (bcpmesh up starts it)", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitPause):
		}
	}
}

// awaitPause is between two looks for a mesh that is not up.
const awaitPause = time.Second

// Who reads which agent the creds are of, and in which role.
func (f *Serving) Who() (bcp.AgentName, bcp.Role, error) {
	who, err := meshdir.ReadCreds(f.Creds)
	words := cli.Map(f.Roles, func(role bcp.Role) string { return role.String() })
	switch {
	case err != nil:
		return "", 0, err
	case len(f.Roles) > 0 && !slices.Contains(f.Roles, who.Role):
		return "", 0, cli.Failf("%s belongs to %s, %s: expected the creds of a %s", cli.Quoted(f.Creds), who.Agent, who.Role, cli.JoinOr(words))
	case len(f.Roles) == 0 && who.Role != bcp.RoleController && who.Role != bcp.RoleReader:
		return "", 0, cli.Failf("%s belongs to %s, %s: only controllers and readers are agents", cli.Quoted(f.Creds), who.Agent, who.Role)
	}
	return who.Agent, who.Role, nil
}

// Serve connects as the agent of the creds file, which this program serves.
func (f *Serving) Serve(ctx context.Context, p *cli.Program, command string, handlers int) (*Client, error) {
	name, role, err := f.Who()
	if err != nil {
		return nil, err
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	who := Flags{Creds: f.Creds, URL: f.URL, CA: f.CA, Encoding: f.Encoding}
	return who.dial(ctx, role, agents.Options{
		Name: name, Logger: log, Handlers: handlers, NATS: []nats.Option{nats.Name("bcpmesh " + command + " " + string(name))},
	})
}

// dial connects with a creds file, to a mesh that is named or that is near the file.
func (f *Flags) dial(ctx context.Context, role bcp.Role, o agents.Options) (*Client, error) {
	url, known, err := f.At()
	if err != nil {
		return nil, err
	}
	o.NATS = append(o.NATS, known.NATS...)
	if o.Encoding = bcp.JSON; f.Encoding == "msgpack" {
		o.Encoding = bcp.MessagePack
	}
	conn, err := agents.Connect(ctx, url, agents.CredsFile(f.Creds), o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, meshdir.NotTaken(url, f.Creds, err)
	}
	return &Client{Connection: conn, Name: o.Name, Role: role, Log: o.Logger, Encoding: o.Encoding}, nil
}

// At is where the mesh serves, and how it is known there: the one that is named, in whose folder the creds lie or that the
// flags mean, or where one serves that was told nothing.
func (f *Flags) At() (url string, o agents.Options, err error) {
	url, known := f.URL, meshdir.Trust{CA: f.CA}
	if url == "" {
		folder, err := f.Where.Folder()
		if f.Creds != "" {
			folder, err = meshdir.Find(filepath.Dir(f.Creds))
		}
		about := meshdir.Ready{URL: meshdir.StandardURL}
		if err == nil {
			if runs, err := folder.Running(); err == nil {
				about = runs
			}
		}
		url, known = about.URL, about.Trust
	}
	o.NATS, err = known.Options()
	return url, o, err
}

// How the agents are, in words. Whoever owns the state folder may see it, and nobody
// else: what becomes of a Reader's process is the Reader's choice.

// lastLine shows what a command printed before it failed. It is an attacker's text.
func lastLine(a *status.Agent) string {
	if a.Command == nil || a.Command.LastLine == "" || a.Command.Failures == 0 {
		return ""
	}
	return fmt.Sprintf("%s printed last, and is not to be trusted: │%s│", a.Agent, a.Command.LastLine)
}

// AgentTable shows each agent, and what those printed last whose commands fail. creds
// says whom of those that somebody else starts nothing can be started with.
func AgentTable(o *cli.Output, list []status.Agent, creds map[bcp.AgentName]string) {
	now := time.Now()
	o.Table([]string{"agent", "state", "waits", "details"}, cli.Rows(list, func(a *status.Agent) []string {
		says := tell.Agent(a, now)
		if problem := creds[a.Agent]; a.State == status.Away && problem != "" {
			says += "\n" + problem
		}
		return []string{string(a.Agent), string(a.State), tell.Waits(a), says}
	}))
	for i := range list {
		if line := lastLine(&list[i]); line != "" {
			o.Printf("%s\n", cli.Plain(line))
		}
	}
}

const (
	// silence is how long an asker waits without a word.
	silence = 2 * time.Second
	// whyTime bounds the look at who does not answer.
	whyTime = 5 * time.Second
)

// seen asks the running mesh how an agent is, as the owner of its folder.
func seen(ctx context.Context, asker Flags, patience time.Duration, agent bcp.AgentName) (a status.Agent, known bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := asker.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return a, false
	}
	defer o.Close()
	a, known, err = o.Operator().Agent(ctx, agent)
	return a, known && err == nil
}

// WhyNobody tells the owner of the mesh why a reader does not answer; nothing if it
// should, or where that is not known. An asker with a creds file alone is an agent: it
// hears nothing of this, since the reader chooses it.
func WhyNobody(ctx context.Context, who *Flags, reader bcp.AgentName) string {
	if who.Creds != "" {
		return ""
	}
	a, known := seen(context.WithoutCancel(ctx), Flags{Where: who.Where, URL: who.URL, CA: who.CA}, whyTime, reader)
	if !known {
		return ""
	}
	switch says := tell.Agent(&a, time.Now()); {
	case a.Connected(bcp.RoleReader) && a.Failing != nil:
		return string(reader) + " cannot answer: " + tell.ModelFails(a.Failing)
	case a.Connected(bcp.RoleReader):
		return ""
	case a.State == status.Connected:
		return string(reader) + " is not connected as a reader"
	case a.State == status.Away:
		return string(reader) + " is " + says
	default:
		return string(reader) + " is not connected: " + says
	}
}

// Away reports whether the reader of a channel is not connected, and is nobody whom the
// mesh starts. It knows only where the creds of the channel's controller lie in the folder
// of a mesh of one's own, and of no channel whose timing is counted: there a controller
// must not hear when its reader comes and goes.
func (f *Serving) Away(ctx context.Context, controller, reader bcp.AgentName) bool {
	folder, err := meshdir.Find(filepath.Dir(f.Creds))
	if err != nil {
		return false
	}
	def, err := folder.Load()
	if err != nil || !slices.ContainsFunc(def.Channels, func(c bcp.Channel) bool {
		return c.Controller == controller && c.Reader == reader && c.ReleaseInterval == 0
	}) {
		return false
	}
	a, known := seen(ctx, Flags{Where: meshdir.StateFlags(folder), URL: f.URL, CA: f.CA}, silence, reader)
	return known && a.State == status.Away
}

// WhileSilent tells a person at a terminal why nobody answers, if nothing has come for a
// while. The caller calls end when something has, or its patience has ended.
func WhileSilent(p *cli.Program, ctx context.Context, who *Flags, reader bcp.AgentName) (end func()) {
	if !cli.IsTerminal(p.Out.Stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(silence):
		}
		if why := WhyNobody(ctx, who, reader); why != "" && ctx.Err() == nil {
			p.Out.Talkf("%s; waiting", why)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
