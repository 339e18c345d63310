package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// reaction is how soon a Controller of this test acts on a delivery, at the
// latest: the least idle_timeout of its definitions.
const reaction = 10 * time.Minute

// renewalMesh varies with n what a reload may change; the budgets of the window
// and the agents stay.
func renewalMesh(n int) *bcp.Mesh {
	mesh := testMesh()
	channelIn(mesh, bcp.ChannelKey{Controller: "relay", Reader: "mail"}).Subscriptions = channelIn(mesh, plannerMail).Subscriptions
	mesh.MaxRefusals, mesh.IdleTimeout = 1<<30, reaction*time.Duration(1+n%3)
	mesh.Agents[slices.IndexFunc(mesh.Agents, func(a bcp.Agent) bool { return a.Name == "clerk" })].CronSchedules = []bcp.CronSchedule{{Schedule: "7h", Message: "Work"}}
	for i := range mesh.Channels {
		c := &mesh.Channels[i]
		c.MaxEscalations, c.MaxRetries, c.ApprovalTTL, c.WindowBudget, c.BudgetWindow = 1<<30, 1, 5*time.Hour, 150*bcp.Bit, 8*time.Hour
		c.Budget += bcp.Bits(n) * bcp.Bit
		if c.Reader == "web" {
			c.ReleaseInterval = 3 * time.Hour
		}
		if c.Controller == "relay" {
			c.BudgetRenew = 20 * time.Hour
		}
	}
	switch mail := channelIn(mesh, plannerMail); n {
	case 1:
		mail.Subscriptions, mail.MaxCategory = nil, 2
	case 2:
		mail.OnAnomaly, mail.ReleaseInterval = bcp.AnomalyFlag, 5*time.Hour
	case 3:
		mesh.Channels = slices.DeleteFunc(mesh.Channels, func(c bcp.Channel) bool { return c.Reader == "web" })
	}
	return mesh
}

// renewals watches a world for what BUDGETS.md promises.
type renewals struct {
	*world
	begin   time.Time
	heard   map[bcp.AgentName][]int64 // when a Controller got something
	allowed map[bcp.AgentName]uint64  // epochs that somebody else than a Reader opened
	spent   map[bcp.ChannelKey][]windowPart
	asked   asked
}

// asked is a second account of what asks took, by query: every ask of the journal
// and its end.
type asked map[bcp.QueryID]askedFor

type askedFor struct {
	channel  bcp.ChannelKey
	epoch    uint64
	reserved bcp.Bits
	settled  bcp.Bits
	over     bool  // settled is what counts, but in this slot
	slot     int64 // of the end, or of an unfunded ask
	unfunded bool
}

func (a asked) note(d *bcp.Decision) {
	key, _ := d.Channel()
	switch {
	case d.Kind == bcp.KindAsk && d.Accepted() && !d.Repeat:
		a[d.Query] = askedFor{channel: key, epoch: d.Epoch, reserved: d.Nominal, unfunded: d.Unfunded, slot: d.Slot, over: d.Unfunded}
	case d.Query != "" && !d.Prepaid && (d.Delivery != "" || d.Verdict == bcp.Hold) && d.Kind != bcp.KindAcknowledge:
		q := a[d.Query]
		q.settled, q.over, q.slot = d.Nominal, true, d.Slot
		a[d.Query] = q
	}
}

// differs compares the account with what a total budget of each Controller counts.
func (a asked) differs(s *State, now int64) string {
	for name, agent := range s.agents {
		d := &bcp.Decision{Time: now, Controller: name}
		var want bcp.Bits
		for _, q := range a {
			ch := s.channels[q.channel]
			if q.channel.Controller != name || ch == nil || ch.decisionEpoch(d) != q.epoch {
				continue
			}
			if over := q.over && (q.slot == 0 || q.slot != ch.slotted(now)); over {
				want += q.settled
			} else {
				want += q.reserved
			}
		}
		if got := s.askedBy(d, agent); got != want {
			return fmt.Sprintf("of %s's total budget %s count, want %s", name, got, want)
		}
	}
	return ""
}

// watch looks at the newest decision, and returns what is wrong with it.
func (r *renewals) watch() string {
	d := &r.last
	r.asked.note(d)
	if wrong := r.asked.differs(r.state, d.Time); wrong != "" {
		return wrong
	}
	if d.Delivery != "" && d.Kind != bcp.KindAcknowledge {
		r.heard[d.Controller] = append(r.heard[d.Controller], max(d.Time, d.Release))
	}
	if d.SessionRenews {
		r.allowed[d.Controller]++
		if own := d.Kind == bcp.KindSession || d.Kind == bcp.KindPrompt; !own {
			return "a Controller that only reacted has renewed its budgets"
		}
	}
	key, _ := d.Channel()
	ch := r.state.channels[key]
	if ch == nil {
		return ""
	}
	opened := 1 + r.allowed[key.Controller]
	if renew := ch.definition.BudgetRenew; renew > 0 {
		opened += uint64(r.now.Sub(r.begin) / renew)
	}
	if ch.newest() > opened {
		return fmt.Sprintf("epoch %d, and %d were opened", ch.newest(), opened)
	}
	if d.Kind == bcp.KindPush && !d.Accepted() || d.Kind == bcp.KindAsk || d.Prepaid || d.Repeat {
		return ""
	}
	r.spent[key] = append(r.spent[key], windowPart{d.Time, d.Nominal})
	var window, all bcp.Bits
	for _, s := range r.spent[key] {
		all += s.sum
		if s.begin > d.Time-int64(ch.definition.BudgetWindow) {
			window += s.sum
		}
	}
	if window > ch.definition.WindowBudget || all > bcp.Bits(opened)*103*bcp.Bit {
		return fmt.Sprintf("%s in one window, %s in %d epochs", window, all, opened)
	}
	return ""
}

// reacts reports whether the Controller has got something just now.
func (r *renewals) reacts(controller bcp.AgentName) bool {
	now := r.now.UnixNano()
	return slices.ContainsFunc(r.heard[controller], func(at int64) bool { return at <= now && now < at+int64(reaction) })
}

// A Reader cannot renew its own budget. The adversary chooses every act of all
// Readers, what approvers decide, the time, restarts and reloads; Controllers
// ask because they were told something, soon after, and close nothing. Then each
// epoch was opened by a Controller's own beginning, an operator, a schedule or
// budget_renew, and what is settled stays within the budgets of those epochs and
// of every window. The argument stands in BUDGETS.md.
//
// covers SUB-133, C-7, SUB-99, SUB-100, P1.5, P4.4, P4.5, P9.4, A-RDRRESET, A-EXHAUST, A-FREE
func TestReadersCannotRenew(t *testing.T) {
	t.Parallel()
	readers := []string{"push mail planner alarm {\"ok\":true}", "push mail planner zero {\"x\":\"x\"}", "push mail planner memo {\"summary\":\"a_b\"}",
		"push mail planner note " + answerWord(heldAnswer), "push mail clerk alarm {\"n\":5}", "push mail relay alarm {\"ok\":false}", "push mail relay zero {\"x\":\"x\"}",
		"push relay planner alarm {\"ok\":true}", "push mail planner alarm junk", "event connect mail 1", "event violation mail 3"}
	answers := []string{`{"ok":true}`, `{"n":7}`, `{"q":"ada"}`, `{"x":"x"}`, answerWord(heldAnswer), `{"summary":"a_b"}`, "nei", "junk"}
	asks := []string{"yes", "num", "one", "name", "text", "three"}
	waits := []string{"1s", "9m59s", "10m", "20m", "30m", "59m", "3h", "5h", "8h", "21h"}
	rapid.Check(t, func(rt *rapid.T) {
		r := renewals{world: newWorld(t, renewalMesh(0)), heard: map[bcp.AgentName][]int64{}, allowed: map[bcp.AgentName]uint64{}, spent: map[bcp.ChannelKey][]windowPart{}, asked: asked{}}
		r.begin = r.now
		var history []string
		do := func(line string) {
			history = append(history, line)
			before := r.last.Seq
			r.act(line)
			if r.last.Seq == before {
				return
			}
			history = append(history, "    => "+strings.Join(describe(&r.last), " "))
			wrong := r.watch()
			stopIf(rt, wrong != "", "%s\n%s", strings.Join(history, "\n"), wrong)
		}
		do("start")
		for _, controller := range []string{"planner", "clerk"} {
			if rapid.Bool().Draw(rt, controller+" begins") {
				do("open " + controller)
				do("ask " + controller + " mail num")
			}
		}
		for range rapid.IntRange(10, 120).Draw(rt, "steps") {
			switch act := rapid.SampledFrom([]string{"reader", "reader", "answer", "answer", "react", "react", "react", "decide", "wait", "wait", "rare"}).Draw(rt, "act"); act {
			case "reader":
				do(rapid.SampledFrom(readers).Draw(rt, "message"))
			case "answer":
				if n := len(r.queries); n > 0 {
					q := rapid.IntRange(max(1, n-5), n).Draw(rt, "query")
					reader := "mail"
					if state := r.state.queries[r.queries[q-1]]; state != nil {
						reader = string(state.channel.Reader)
					}
					do(fmt.Sprintf("answer %s %d %s try=1", reader, q, rapid.SampledFrom(answers).Draw(rt, "answer")))
				}
			case "react":
				c := rapid.SampledFrom(r.config.Mesh.Channels).Draw(rt, "channel")
				if r.reacts(c.Controller) {
					do(fmt.Sprintf("ask %s %s %s why=so", c.Controller, c.Reader, rapid.SampledFrom(asks).Draw(rt, "spec")))
				}
			case "decide":
				if n := len(r.items); n > 0 {
					do(fmt.Sprintf("%s %d", rapid.SampledFrom([]string{"approve", "approve", "reject"}).Draw(rt, "decision"), rapid.IntRange(max(1, n-3), n).Draw(rt, "item")))
				}
			case "wait":
				do("wait " + rapid.SampledFrom(waits).Draw(rt, "time"))
			case "rare":
				switch rare := rapid.SampledFrom([]string{"start", "reload", "reload", "renew planner", "ack planner", "process planner unavailable", "process planner started"}).Draw(rt, "rare"); rare {
				case "reload":
					n := rapid.IntRange(0, 3).Draw(rt, "definitions")
					history = append(history, fmt.Sprintf("reload %d", n))
					r.reload(renewalMesh(n))
				default:
					do(rare)
				}
			}
			for due := true; due; {
				before := r.last.Seq
				do("due")
				due = r.last.Seq > before
			}
		}
		diff := cmp.Diff(dump(r.state), dump(r.replay()))
		stopIf(rt, diff != "", "%s\nthe journal replays to another state:\n%s", strings.Join(history, "\n"), diff)
	})
}

// What the random histories found: deliveries whose session had ended before
// their Controller got them.
//
// covers P1.5, P4.4
func TestDeliveriesKeepTheirSession(t *testing.T) {
	t.Parallel()
	for _, second := range []string{
		"push web planner alarm {\"ok\":true} => delivers", // at once, when the other waits
		"wait 1s",
	} {
		mesh := testMesh()
		channelIn(mesh, plannerMail).ReleaseInterval = 5 * time.Hour
		channelIn(mesh, bcp.ChannelKey{Controller: "planner", Reader: "web"}).Subscriptions = channelIn(mesh, plannerMail).Subscriptions
		newWorld(t, mesh).play(`
			ask planner mail num                => accept renews
			answer mail 1 nei                   => accept
			wait 1m
			` + second + `
			wait 4h59m
			ask planner mail num                => accept !begins epoch:1`)
	}

	// A query that other definitions cancel is told in a session, as everything
	// is but what its Controller closed.
	mesh := testMesh()
	mesh.IdleTimeout = 10 * time.Minute
	w := newWorld(t, mesh).play(`
		ask planner mail num                 => accept renews
		wait 10m
		push relay planner alarm {"ok":true} => begins by-delivery`)
	mesh = edited(func(c *bcp.Channel) { c.ReleaseInterval = 5 * time.Hour })
	mesh.IdleTimeout = 10 * time.Minute
	w.reload(mesh)
	w.play(`
		due                                  => out:cancelled
		wait 4h50m
		ask planner mail num                 => !renews epoch:1`)

	// Nor does a channel that is removed renew what its Controller asks next on others.
	w = newWorld(t, renewalMesh(0)).play(`
		ask planner web num                  => accept renews
		wait 11m`)
	w.reload(renewalMesh(3))
	w.play(`
		due                                  => out:cancelled begins by-delivery
		ask planner relay yes                => accept !begins !renews`)

	// A shorter idle_timeout does not part deliveries from the session in which they
	// were made, whether that began at once or with a slot.
	for _, begin := range []string{"push web planner alarm {\"ok\":true} => begins by-delivery",
		"push mail planner alarm {\"ok\":true} => begins by-delivery\nwait 1h"} {
		mesh := testMesh()
		mesh.IdleTimeout = 30 * time.Minute
		channelIn(mesh, plannerMail).ReleaseInterval = time.Hour
		channelIn(mesh, bcp.ChannelKey{Controller: "planner", Reader: "web"}).Subscriptions = channelIn(mesh, plannerMail).Subscriptions
		w := newWorld(t, mesh).play(begin + `
			wait 20m
			push web planner alarm {"ok":true} => delivers !begins`)
		shorter := *mesh
		shorter.IdleTimeout = 10 * time.Minute
		w.reload(&shorter)
		w.play(`ask planner web num            => accept !begins epoch:1`)
	}
}
