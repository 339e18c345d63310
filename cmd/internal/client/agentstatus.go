package client

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// How the agents are, in words. Whoever owns the state folder may see it, and nobody
// else: what becomes of a Reader's process is the Reader's choice.

// lastLine shows what a command printed before it failed. It is an attacker's text.
func lastLine(a *status.Agent) string {
	if a.Command == nil || a.Command.LastLine == "" || a.Command.Failures == 0 {
		return ""
	}
	return fmt.Sprintf("%s printed last, and is not to be trusted: │%s│", a.Agent, a.Command.LastLine)
}

// inTrouble reports whether an agent's command or model fails.
func inTrouble(a *status.Agent) bool {
	return a.Failing != nil || a.State == status.Crashed || a.State == status.Unavailable
}

// AgentTable shows each agent, and what those printed last whose commands fail. creds
// says whom of those that somebody else starts nothing can be started with.
func AgentTable(o *cli.Output, list []status.Agent, creds map[bcp.AgentName]string) {
	now := time.Now()
	var rows [][]string
	for i := range list {
		a := &list[i]
		says := tell.Agent(a, now)
		if problem := creds[a.Agent]; a.State == status.Away && problem != "" {
			says += "\n" + problem
		}
		rows = append(rows, []string{string(a.Agent), string(a.State), tell.Waits(a), says})
	}
	o.Table([]string{"agent", "state", "waits", "details"}, rows)
	for i := range list {
		if line := lastLine(&list[i]); line != "" {
			o.Printf("%s\n", cli.Plain(line))
		}
	}
}

// TalkOfTroubles tells whose commands fail: it is seldom what somebody asked for, and
// explains what they see.
func TalkOfTroubles(p *cli.Program, ctx context.Context, o *Client) {
	if p.Out.JSON {
		return
	}
	list, _ := o.Operator().Agents(ctx) // without an answer there is nothing to add
	for i := range list {
		if a := &list[i]; inTrouble(a) {
			p.Out.Talkf("%s: %s; bcpmesh status shows more", a.Agent, tell.Agent(a, time.Now()))
		}
	}
}

const (
	// silence is how long an asker waits without a word.
	silence = 2 * time.Second
	// whyTime bounds the look at who does not answer.
	whyTime = 5 * time.Second
)

// WhyNobody tells the owner of the mesh why a reader does not answer; nothing if it
// should, or where that is not known. An asker with a creds file alone is an agent: it
// hears nothing of this, since the reader chooses it.
func WhyNobody(ctx context.Context, who *Flags, reader bcp.AgentName) string {
	if who.Creds != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTime)
	defer cancel()
	asker := Flags{Where: who.Where, URL: who.URL, CA: who.CA}
	o, err := asker.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return ""
	}
	defer o.Close()
	a, ok, err := o.Operator().Agent(ctx, reader)
	if err != nil || !ok {
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
func (f *AgentFlags) Away(ctx context.Context, controller, reader bcp.AgentName) bool {
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
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	asker := Flags{Where: meshdir.StateFlags(folder), URL: f.url, CA: f.ca}
	o, err := asker.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return false
	}
	defer o.Close()
	a, ok, err := o.Operator().Agent(ctx, reader)
	return err == nil && ok && a.State == status.Away
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
