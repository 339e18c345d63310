package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// How the agents are, in words. Whoever owns the state folder may see it, and nobody
// else: what becomes of a Reader's process is the Reader's choice.

// AgentSays tells how an agent is and, where it is not connected, why.
func AgentSays(a *bcp.AgentStatus, now time.Time) string {
	var parts []string
	switch {
	case a.State == bcp.AgentConnected:
		if missing := missingRoles(a); missing != "" {
			parts = append(parts, "not as "+missing)
		}
	case a.Command == nil:
		parts = append(parts, "not connected: "+a.NotStarted)
	}
	if c := a.Command; c != nil {
		parts = append(parts, commandSays(a.State, c, now))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func missingRoles(a *bcp.AgentStatus) string {
	var missing []string
	for _, r := range a.Roles {
		if r.Connections == 0 {
			missing = append(missing, r.Role.String())
		}
	}
	return strings.Join(missing, " and ")
}

// commandSays tells what became of an agent's command.
func commandSays(state bcp.AgentState, c *bcp.CommandStatus, now time.Time) string {
	switch {
	case c.PID != 0 && state == bcp.AgentConnected:
		if c.Failures > 0 {
			return "its command runs, after it " + failures(c)
		}
		return ""
	case state == bcp.AgentRunning:
		says := "its command runs since " + spell(now.Sub(c.Since)) + ", and has not connected"
		if c.Failures > 0 {
			says += "; before, it " + failures(c)
		}
		return says
	case state == bcp.AgentResting:
		return "its command ended well, and is started when something waits for it"
	case state == bcp.AgentStopping:
		return "its command was told to end"
	case c.Failures == 0:
		if c.Exit == "" || state == bcp.AgentConnected {
			return ""
		}
		return "its command is started " + when(c.Next, now)
	case state == bcp.AgentUnavailable:
		return "its command " + failures(c) + ", and is given up: what waits for it has it started again " + when(c.Next, now) + ", a reload at once"
	}
	return "its command " + failures(c) + ", and is started again " + when(c.Next, now)
}

// failures tells how often a command failed, and how the last time.
func failures(c *bcp.CommandStatus) string {
	did := "crashed"
	if !strings.HasPrefix(c.Exit, "exit ") && !strings.HasPrefix(c.Exit, "signal:") {
		did = "could not be started" // nothing came to be that could crash
	}
	if c.Failures == 1 {
		return fmt.Sprintf("%s (%s)", did, c.Exit)
	}
	return fmt.Sprintf("%s %d times in a row (the last: %s)", did, c.Failures, c.Exit)
}

// when tells when something is to happen.
func when(at, now time.Time) string {
	if d := at.Sub(now); d > 0 {
		return "in " + spell(d)
	}
	return "now"
}

// spell writes how long something lasts, from a second on.
func spell(d time.Duration) string {
	if d < 2*time.Minute {
		return cli.Count(int(max(d, time.Second).Round(time.Second)/time.Second), "second")
	}
	return Within(d)
}

// waitsSay tells what waits for an agent, and what it waits for.
func waitsSay(a *bcp.AgentStatus) string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(a.Waits.Queries, "query to answer", "queries to answer")
	add(a.Waits.Deliveries, "delivery to take", "deliveries to take")
	add(a.Waits.Answers, "answer to come", "answers to come")
	add(a.Waits.Held, "item held for a person", "items held for a person")
	return strings.Join(parts, ", ")
}

// lastLine shows what a command printed before it failed. It is an attacker's text.
func lastLine(a *bcp.AgentStatus) string {
	if a.Command == nil || a.Command.LastLine == "" || a.Command.Failures == 0 {
		return ""
	}
	return fmt.Sprintf("%s printed last, and is not to be trusted: │%s│", a.Agent, a.Command.LastLine)
}

// inTrouble reports whether an agent's command fails.
func inTrouble(a *bcp.AgentStatus) bool {
	return a.State == bcp.AgentCrashed || a.State == bcp.AgentUnavailable
}

// AgentTable shows each agent, and what those printed last whose commands fail. creds
// says whom of those that somebody else starts nothing can be started with.
func AgentTable(o *cli.Output, list []Sharded[bcp.AgentStatus], creds map[bcp.AgentName]string) {
	now := time.Now()
	var rows [][]string
	for i := range list {
		a := &list[i].Of
		says := AgentSays(a, now)
		if problem := creds[a.Agent]; a.State == bcp.AgentAway && problem != "" {
			says += "\n" + problem
		}
		rows = append(rows, []string{list[i].Cell(), string(a.Agent), string(a.State), waitsSay(a), says})
	}
	TableOfShards(o, []string{"agent", "state", "waits", "details"}, rows)
	for i := range list {
		if line := lastLine(&list[i].Of); line != "" {
			o.Printf("%s\n", cli.Plain(line))
		}
	}
}

// StatusesOf asks the shards of a mesh how their agents are.
func StatusesOf(ctx context.Context, o *Client) ([]Sharded[bcp.AgentStatus], error) {
	return ListOfShards(ctx, o.Shards, func(ctx context.Context, shard int) ([]bcp.AgentStatus, error) { return o.Operator(shard).Agents(ctx) })
}

// TalkOfTroubles tells whose commands fail: it is seldom what somebody asked for, and
// explains what they see.
func TalkOfTroubles(p *cli.Program, ctx context.Context, o *Client) {
	if p.Out.JSON {
		return
	}
	list, _ := StatusesOf(ctx, o) // of the shards that answer
	for i := range list {
		if a := &list[i].Of; inTrouble(a) {
			p.Out.Talkf("%s%s: %s; bcpmesh status shows more", list[i].Label(), a.Agent, AgentSays(a, time.Now()))
		}
	}
}

const (
	// silence is how long an asker waits without a word.
	silence = 2 * time.Second
	// whyTime bounds the look at who does not answer.
	whyTime = 5 * time.Second
)

// WhyNobody tells the owner of the mesh why a reader does not answer; nothing where it
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
	for _, shard := range o.On(reader) {
		a, ok, err := o.Operator(shard).Agent(ctx, reader)
		if err != nil || !ok {
			continue
		}
		now := time.Now()
		switch says := AgentSays(&a, now); {
		case a.Connected(bcp.RoleReader):
			return ""
		case a.State == bcp.AgentConnected:
			return string(reader) + " is not connected as a reader"
		case a.State == bcp.AgentAway:
			return string(reader) + " is " + says
		default:
			return string(reader) + " is not connected: " + says
		}
	}
	return ""
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
