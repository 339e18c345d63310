package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// scheduled is testMesh with schedules, of a Controller unless a line names
// another agent: "1h Plan" or "mail 1h Sweep".
func scheduled(lines ...string) *bcp.Mesh {
	mesh := testMesh()
	for _, line := range lines {
		words := strings.Fields(line)
		name := bcp.AgentName("planner")
		if len(words) == 3 {
			name, words = bcp.AgentName(words[0]), words[1:]
		}
		a := &mesh.Agents[slices.IndexFunc(mesh.Agents, func(a bcp.Agent) bool { return a.Name == name })]
		a.CronSchedules = append(a.CronSchedules, bcp.CronSchedule{Schedule: words[0], Message: words[1]})
	}
	return mesh
}

// prompts tells which prompts wait for an agent: the message and the hour.
func (w *world) prompts(agent bcp.AgentName, role bcp.Role) (prompts []string) {
	for _, n := range w.state.Notices(agent, role) {
		if p, ok := n.Message.(bcp.Prompt); ok {
			prompts = append(prompts, p.Message+" "+p.Time.Format("15:04:05"))
		}
	}
	return prompts
}

// A run is prompted at its time; of several that went by the newest, if it is
// at most a minute ago. The others are counted, each once, and none is made up.
// The world begins at 08:00, on a run.
//
// covers P9.4
func TestPrompts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, history string
		prompts       []string
	}{
		{"none before a gateway started", `
			wait 2h
			due => nothing`, nil},
		{"none for the moment of the start", `
			start
			due => nothing
			wait 59m59.999999999s
			due => nothing`, nil},
		{"at its time", `
			start
			wait 1h
			due => prompt event:1h notice !count:1
			due => nothing`, []string{"Plan 09:00:00"}},
		{"each time", `
			start
			wait 1h
			due => notice
			notice planner
			wait 1h
			due => notice
			due => nothing`, []string{"Plan 10:00:00"}},
		{"late, within the minute", `
			start
			wait 1h1m
			due => notice !count:1`, []string{"Plan 09:00:00"}},
		{"later", `
			start
			wait 1h1m0.000000001s
			due => prompt !notice count:1
			due => nothing
			wait 58m59.999999999s
			due => notice !count:1`, []string{"Plan 10:00:00"}},
		{"the newest of several", `
			start
			wait 5h30s
			due => notice count:4
			due => nothing`, []string{"Plan 13:00:00"}},
		{"all missed", `
			start
			wait 5h30m
			due => !notice count:5
			due => nothing
			wait 30m
			due => notice !count:1`, []string{"Plan 14:00:00"}},
		{"missed while no gateway ran", `
			start
			wait 4h30m
			start
			due => !notice count:4
			start
			due => nothing`, nil},
		{"due when a gateway starts", `
			start
			wait 4h
			start
			due => notice count:3
			due => nothing`, []string{"Plan 12:00:00"}},
		{"one that was away is prompted once", `
			start
			wait 1h
			due => notice
			wait 1h
			due => notice
			wait 1h
			due => notice`, []string{"Plan 11:00:00"}},
		{"a start between does not prompt twice", `
			start
			start
			wait 1h
			due => notice
			start
			due => nothing`, []string{"Plan 09:00:00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, scheduled("1h Plan")).play(tt.history)
			got := w.prompts("planner", bcp.RoleController)
			failIf(t, !slices.Equal(got, tt.prompts), "prompted is %v, want %v", got, tt.prompts)
			failIf(t, w.last.Kind == bcp.KindPrompt && (w.last.Agent != "planner" || w.last.Note != "Plan"),
				"recorded is %+v", w.last)
		})
	}
}

// Under other definitions nobody knows which runs there would have been: none
// is counted. Under the same, after a reload too, those since the last are.
//
// covers P1.5, P9.4
func TestPromptsUnderOtherDefinitions(t *testing.T) {
	t.Parallel()
	budgeted := scheduled("1h Plan")
	channelIn(budgeted, plannerMail).Budget = 7
	for _, tt := range []struct {
		name  string
		next  *bcp.Mesh
		after string
	}{
		{"another schedule", scheduled("30m Plan"), "due => nothing\nwait 30m\ndue => event:30m notice !count:1"},
		{"another text", scheduled("1h Think"), "due => nothing\nwait 30m\ndue => notice !count:1"},
		{"one more", scheduled("1h Plan", "30m Sweep"), "due => nothing\nwait 30m\ndue => notice !count:1\ndue => notice !count:1\ndue => nothing"},
		{"another agent's", scheduled("clerk 1h Plan"), "due => nothing\nwait 30m\ndue => notice !count:1"},
		{"none", testMesh(), "due => nothing\nwait 24h\ndue => nothing"},
		{"something else", budgeted, "due => nothing\nwait 30m\ndue => notice !count:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, scheduled("1h Plan")).play("start\nwait 1h\ndue => notice\nnotice planner\nwait 4h30m")
			w.reload(tt.next)
			w.play(tt.after)
		})
	}
	w := newWorld(t, scheduled("1h Plan")).play("start\nwait 5h30m\nreload\ndue => count:5 !notice\ndue => nothing")

	// What was prompted waits on, and is not prompted a second time.
	w.play("wait 30m\ndue => notice")
	w.reload(scheduled("1h Plan", "2h Think"))
	w.play("due => nothing")
	got := w.prompts("planner", bcp.RoleController)
	failIf(t, !slices.Equal(got, []string{"Plan 14:00:00"}), "prompted is %v", got)
}

// A Reader is prompted too, and that is no session; a Controller's own prompt
// begins one as its own act would, and renews as little after what a delivery
// began.
//
// covers P4.4, P9.4
func TestPromptsAndSessions(t *testing.T) {
	t.Parallel()
	alarm := `push mail planner alarm {"ok":true}` + "\n"
	plays(t, func() *bcp.Mesh { return scheduled("1h Plan") }, "", map[string]string{
		"a Controller without a session": `
			ask planner mail num  => epoch:1
			wait 1h
			due                   => out:expired by-delivery
			start
			wait 2h
			due                   => prompt notice begins renews !by-delivery
			ask planner mail num  => epoch:2 !begins`,
		"in a session": `
			start
			wait 50m
			ask planner mail num  => epoch:1
			wait 10m
			due                   => prompt !begins !renews
			wait 29m
			ask planner mail num  => epoch:1 !begins`,
		"after a provoked one": `
			start
			wait 20m
			` + alarm + `
			wait 40m
			due                   => prompt begins !renews
			ask planner mail num  => epoch:1`,
		"long after it": `
			start
			` + alarm + `
			wait 1h
			due                   => prompt begins renews
			ask planner mail num  => epoch:2`,
		"one that is missed": `
			` + alarm + `
			start
			wait 90m
			due                   => prompt count:1 !begins !renews
			` + alarm,
	})
	newWorld(t, scheduled("mail 1h Sweep")).play(`
		start
		wait 1h
		due                   => prompt notice !begins !renews
		due                   => nothing
		ask planner mail num  => begins`)
	w := newWorld(t, scheduled("mail 1h Sweep", "relay 1h Both")).play("start\nwait 1h\ndue => notice\ndue => notice")
	if reader, both := w.prompts("mail", bcp.RoleReader), w.prompts("relay", bcp.RoleController); len(reader) != 1 || len(both) != 1 || w.prompts("relay", bcp.RoleReader) != nil {
		t.Errorf("prompted are %v and %v", reader, both)
	}
}

// Schedules that are due together are prompted each, equal ones once; a
// prompt says when its run was in the mesh's time zone.
//
// covers P9.4
func TestSeveralSchedules(t *testing.T) {
	t.Parallel()
	mesh := scheduled("1h Plan", "1h Plan", "1h Think", "2h Plan", "mail 1h Sweep")
	mesh.TimeZone = time.FixedZone("", 3600)
	w := newWorld(t, mesh).play("start\nwait 2h\n" + strings.Repeat("due => prompt notice\n", 4) + "due => nothing")
	got := w.prompts("planner", bcp.RoleController)
	slices.Sort(got)
	want := []string{"Plan 11:00:00", "Plan 11:00:00", "Think 11:00:00"}
	failIf(t, !slices.Equal(got, want), "prompted are %v, want %v", got, want)
}

// However many runs were missed, counting them is done in steps of bounded work
// and loses none.
//
// covers P9.4
func TestMissedRunsAreCountedInSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scheduled("1ms Plan")).play("start")
	const runs = maxMissed + 1000
	w.now = w.now.Add(runs * time.Millisecond)
	counted, steps := 0, 0
	for w.act("due")[0] != "nothing" {
		counted, steps = counted+w.last.Count, steps+1
		if w.last.Notice != "" {
			counted++
		}
		stopIf(t, w.last.Count > maxMissed+1, "%d at once", w.last.Count)
	}
	failIf(t, counted != runs || steps != 2, "%d runs in %d steps, want %d", counted, steps, runs)
}

// A mesh whose schedule cannot be read does not load; one without a parser
// prompts nobody; a schedule may end.
//
// covers P9.4
func TestSchedulesThatCannotBe(t *testing.T) {
	t.Parallel()
	fails := func(string, *time.Location) (bcp.Schedule, error) { return nil, errors.New("no") }
	failIf(t, errorOf(New(Config{Mesh: scheduled("1h Plan"), Schedules: fails})) == nil, "a schedule that cannot be read loads")
	w := newWorld(t, scheduled("1h Plan"))
	w.config.Schedules = nil
	w.state = w.fresh()
	w.play("start\nwait 2h\ndue => nothing")

	end := w.now.Add(90 * time.Minute)
	w = newWorld(t, scheduled("1h Plan"))
	w.config.Schedules = func(schedule string, zone *time.Location) (bcp.Schedule, error) {
		next, err := testSchedule(schedule, zone)
		return func(t time.Time) time.Time {
			if at := next(t); at.Before(end) {
				return at
			}
			return time.Time{}
		}, err
	}
	w.state = w.fresh()
	w.play("start\nwait 1h\ndue => notice !count:1\nwait 24h\nstart\n" + strings.Repeat("due\n", 3))
	expect(t, w.act("due")[0], "nothing", "after its end: %+v", w.last)
}
