package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// How the agents are, in words. Whoever owns the state folder may see it, and nobody
// else: what becomes of a Reader's process is the Reader's choice.

// agentSays tells how an agent is and, where it is not connected, why.
func agentSays(a *bcp.AgentStatus, now time.Time) string {
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
		return count(int(max(d, time.Second).Round(time.Second)/time.Second), "second")
	}
	return within(d)
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

// agentTable shows each agent, and what those printed last whose commands fail. creds
// says whom of those that somebody else starts nothing can be started with.
func (o *output) agentTable(list []sharded[bcp.AgentStatus], creds map[bcp.AgentName]string) {
	now := time.Now()
	var rows [][]string
	for i := range list {
		a := &list[i].Of
		says := agentSays(a, now)
		if problem := creds[a.Agent]; a.State == bcp.AgentAway && problem != "" {
			says += "\n" + problem
		}
		rows = append(rows, []string{list[i].cell(), string(a.Agent), string(a.State), waitsSay(a), says})
	}
	o.tableOfShards([]string{"agent", "state", "waits", "details"}, rows)
	for i := range list {
		if line := lastLine(&list[i].Of); line != "" {
			o.printf("%s\n", plain(line))
		}
	}
}

// withoutCreds tells of each agent with which no program could connect, and what to do.
func withoutCreds(state string, def *bcp.Mesh) map[bcp.AgentName]string {
	store, err := accounts.Open(state)
	if err != nil {
		return nil
	}
	users, err := store.Users()
	if err != nil {
		return nil
	}
	now := time.Now()
	issued := map[bcp.AgentName]string{}
	for _, u := range users {
		if u.Own {
			continue
		}
		if status := statusOf(u, now); issued[u.Agent] != "valid" {
			issued[u.Agent] = status
		}
	}
	missing := map[bcp.AgentName]string{}
	for _, a := range def.Agents {
		issue := "bcpmesh creds issue " + string(a.Name) + " --out " + string(a.Name) + ".creds"
		switch status := issued[a.Name]; status {
		case "valid", "replaced", "invited":
		case "":
			missing[a.Name] = "it was issued no creds: " + issue
		default:
			missing[a.Name] = "its last creds are " + status + ": " + issue
		}
	}
	return missing
}

// statusesOf asks the shards of a mesh how their agents are.
func statusesOf(ctx context.Context, o *client) ([]sharded[bcp.AgentStatus], error) {
	return listOfShards(ctx, o.shards, func(ctx context.Context, shard int) ([]bcp.AgentStatus, error) { return o.operator(shard).Agents(ctx) })
}

// talkOfTroubles tells whose commands fail: it is seldom what somebody asked for, and
// explains what they see.
func (p *program) talkOfTroubles(ctx context.Context, o *client) {
	if p.out.json {
		return
	}
	list, _ := statusesOf(ctx, o) // of the shards that answer
	for i := range list {
		if a := &list[i].Of; inTrouble(a) {
			p.out.talkf("%s%s: %s; bcpmesh status shows more", list[i].label(), a.Agent, agentSays(a, time.Now()))
		}
	}
}

const (
	// silence is how long an asker waits without a word.
	silence = 2 * time.Second
	// whyTime bounds the look at who does not answer.
	whyTime = 5 * time.Second
)

// whyNobody tells the owner of the mesh why a reader does not answer; nothing where it
// should, or where that is not known. An asker with a creds file alone is an agent: it
// hears nothing of this, since the reader chooses it.
func whyNobody(ctx context.Context, who *clientFlags, reader bcp.AgentName) string {
	if who.creds != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), whyTime)
	defer cancel()
	asker := clientFlags{where: who.where, url: who.url, ca: who.ca}
	o, err := asker.connect(ctx, bcp.RoleOperator)
	if err != nil {
		return ""
	}
	defer o.Close()
	for _, shard := range o.on(reader) {
		a, ok, err := o.operator(shard).Agent(ctx, reader)
		if err != nil || !ok {
			continue
		}
		now := time.Now()
		switch says := agentSays(&a, now); {
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

// whileSilent tells a person at a terminal why nobody answers, if nothing has come for a
// while. The caller calls end when something has, or its patience has ended.
func (p *program) whileSilent(ctx context.Context, who *clientFlags, reader bcp.AgentName) (end func()) {
	if !isTerminal(p.out.stderr) {
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
		if why := whyNobody(ctx, who, reader); why != "" && ctx.Err() == nil {
			p.out.talkf("%s; waiting", why)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
