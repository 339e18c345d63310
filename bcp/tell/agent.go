package tell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Agent tells how an agent is and, if it is not connected, why. It is for the operator
// alone: what becomes of a Reader's process is the Reader's choice.
func Agent(a *status.Agent, now time.Time) string {
	var parts []string
	switch {
	case a.State == status.Connected:
		if missing := missingRoles(a); missing != "" {
			parts = append(parts, "not as "+missing)
		}
	case a.Command == nil:
		parts = append(parts, "not connected: "+a.NotStarted)
	}
	if a.Suspended {
		parts = append(parts, "suspended, until bcpmesh taint "+string(a.Agent)+" --lift")
	}
	if a.Failing != nil {
		parts = append(parts, ModelFails(a.Failing))
	}
	if c := a.Command; c != nil {
		parts = append(parts, commandSays(a.State, c, now))
	}
	parts = append(parts, modelTook(a.Model))
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// ModelFails tells why an agent's model fails, since when, and what its provider says.
func ModelFails(f *status.ModelFailing) string {
	says := "its model fails since " + Moment(f.Since) + ": " + f.String()
	if f.Said != "" {
		says += ", which says │" + inert.Line(f.Said) + "│"
	}
	return says
}

// modelTook tells what an agent's model takes.
func modelTook(u *status.ModelUse) string {
	if u == nil {
		return ""
	}
	says := "its model takes " + Count(int(u.Tokens), "token")
	if u.TokenBudget > 0 {
		says += " of " + strconv.FormatInt(u.TokenBudget, 10)
	}
	if u.USD > 0 || u.CostBudget > 0 {
		says += ", " + u.USD.String() + " USD"
	}
	if u.CostBudget > 0 {
		says += " of " + u.CostBudget.String()
	}
	return says
}

func missingRoles(a *status.Agent) string {
	var missing []string
	for _, r := range a.Roles {
		if r.Connections == 0 {
			missing = append(missing, r.Role.String())
		}
	}
	return strings.Join(missing, " and ")
}

// commandSays tells what became of an agent's command.
func commandSays(state status.State, c *status.Command, now time.Time) string {
	switch {
	case c.PID != 0 && state == status.Connected:
		if c.Failures > 0 {
			return "its command runs, after it " + failures(c)
		}
		return ""
	case state == status.Running:
		says := "its command runs for " + Roughly(now.Sub(c.Since)) + ", and has not connected"
		if c.Failures > 0 {
			says += "; before, it " + failures(c)
		}
		return says
	case state == status.Resting:
		return "its command ended well, and is started when something waits for it"
	case state == status.Stopping:
		return "its command was told to end"
	case c.Failures == 0:
		if c.Exit == "" || state == status.Connected {
			return ""
		}
		return "its command is started " + describeTime(c.Next, now)
	case state == status.Unavailable:
		return "its command " + failures(c) + ", and is given up: what waits for it has it started again " + describeTime(c.Next, now) + ", a reload at once"
	}
	return "its command " + failures(c) + ", and is started again " + describeTime(c.Next, now)
}

// failures tells how often a command failed, and how the last time.
func failures(c *status.Command) string {
	did := "crashed"
	if !strings.HasPrefix(c.Exit, "exit ") && !strings.HasPrefix(c.Exit, "signal:") {
		did = "could not be started" // nothing came to be that could crash
	}
	if c.Failures == 1 {
		return fmt.Sprintf("%s (%s)", did, c.Exit)
	}
	return fmt.Sprintf("%s %d times in a row (the last: %s)", did, c.Failures, c.Exit)
}

// describeTime tells when something is to happen.
func describeTime(at, now time.Time) string {
	if d := at.Sub(now); d > 0 {
		return "in " + Roughly(d)
	}
	return "now"
}

// Waits tells what waits for an agent, and what it waits for.
func Waits(a *status.Agent) string {
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

// Within writes how long something lasts, roughly.
func Within(d time.Duration) string {
	switch {
	case d > 48*time.Hour:
		return Count(int(d/(24*time.Hour)), "day")
	case d > 2*time.Hour:
		return Count(int(d/time.Hour), "hour")
	}
	return Count(int(d/time.Minute), "minute")
}
