package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func suspending() *bcp.Mesh {
	m := testMesh()
	m.SuspendSuspects = true
	return m
}

// Who is suspected is suspended if the mesh says so, and then nothing is taken from it
// until the operator lifts that. A query to a suspended Reader costs what it ever did, and
// ends when its time is over: its Controller cannot tell it from silence.
//
// covers P16.1, P16.2, P16.3, DUAL-94, DUAL-96
func TestSuspension(t *testing.T) {
	t.Parallel()
	w := newWorld(t, suspending()).play(`
		ask planner mail yes             => accept
		event violation mail 2           => violation
		due                              => nothing
		event violation mail 1           => violation
		due                              => alert event:role_suspect count:3
		due                              => nothing
		answer mail 1 {"ok":true}        => suspended silent
		push mail planner alarm {"ok":true} => suspended silent
		ask planner mail yes             => accept bits:1.0
		ask planner relay yes            => accept
		wait 15m
		due                              => out:expired bits:1.0
		due                              => out:expired bits:1.0
		due                              => out:expired bits:1.0
		event violation planner 3        => violation
		due                              => alert event:role_suspect
		ask planner relay yes            => suspended silent
		ask clerk mail yes               => accept`)
	failIf(t, !w.state.Suspended("mail") || !w.state.Suspended("planner") || w.state.Suspended("clerk") || !w.state.AnySuspended(),
		"suspended: mail %t, planner %t, clerk %t", w.state.Suspended("mail"), w.state.Suspended("planner"), w.state.Suspended("clerk"))
	lift := func(body string) bcp.Decision {
		return w.commit(w.state.DecideControl(w.moment(), bcp.ControlLift, []byte(body)))
	}
	for _, body := range []string{`{}`, `{"agent":"clerk"}`, `{"agent":"nobody"}`, `{"agent":"mail","run_id":"r"}`, `{"agent":"mail","taint":{"source":"web"}}`, `junk`} {
		d := lift(body)
		failIf(t, d.Verdict != bcp.Reject || !w.state.Suspended("mail"), "%s: %v", body, d.Verdict)
	}
	d := lift(`{"agent":"mail"}`)
	if alert, ok := d.Alert(); d.Verdict != bcp.Accept || !ok || alert.Alert != bcp.AlertLifted || alert.Agent != "mail" {
		t.Errorf("lifted: %v, %+v", d.Verdict, alert)
	}
	w.play(`push mail planner alarm {"ok":true} => accept`)
	failIf(t, w.state.Suspended("mail") || !w.state.Suspended("planner"), "what is lifted is another's")
}

// A mesh that only alerts suspends nobody; a rule is quiet for its time after an alert; a
// checkpoint and a replay keep what is due and who is suspended, and a journal whose
// definitions changed since keeps what was decided then.
//
// covers P16.2, P16.3
func TestSuspicionIsHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		event violation mail 5           => violation
		due                              => alert event:role_suspect count:5
		push mail planner alarm {"ok":true} => accept
		event violation mail 20          => violation
		due                              => nothing`)
	failIf(t, w.state.AnySuspended(), "a mesh that only alerts suspends")
	s := newWorld(t, suspending()).play(`
		event violation mail 3           => violation
		due                              => alert event:role_suspect
		event violation planner 3        => violation`)
	checkpoint := must(s.state.Checkpoint())
	config := s.config
	config.Mesh = testMesh() // which suspends nobody from now on
	restored := must(Restore(config, checkpoint))
	d, due := restored.DecideDue(s.moment())
	failIf(t, !restored.Suspended("mail") || !due || d.Agent != "planner" || d.Rule != bcp.SuspectSubject || d.Suspends,
		"mail %t, then %+v", restored.Suspended("mail"), d)
}

// A Controller cannot have its Reader suspected by what it asks or when it stops waiting, nor
// another Reader by its name: only what the Reader sent of itself counts, and of an answer
// that may be mended the last. After the operator lifted a suspension rules count as ever.
//
// covers P16.2, P16.3, DUAL-94
func TestNobodyHasAReaderSuspected(t *testing.T) {
	t.Parallel()
	each := func(line string) string {
		var lines strings.Builder
		for n := 1; n <= 12; n++ {
			fmt.Fprintf(&lines, line+"\n", n)
		}
		return lines.String()
	}
	asked := func(spec string) string { return strings.Repeat("ask planner mail "+spec+" => accept\n", 12) }
	full := edited(func(c *bcp.Channel) {
		c.MaxPendingApprovals, c.MaxRetries, c.MaxCat2Queries, c.Budget = 0, 0, 100, 10_000*bcp.Bit
	})
	once := edited(func(c *bcp.Channel) { c.MaxRetries = 0 })
	for name, c := range map[string]struct {
		mesh      *bcp.Mesh
		history   string
		suspected bool
	}{
		"a question without an answer": {once, asked("must") + each("answer mail %d nei"), false},
		"nobody who approves":          {full, asked("text") + each("answer mail %d "+strings.ReplaceAll(heldAnswer, " ", "_")), false},
		"who does not wait":            {once, asked("yes") + "wait 15m\n" + each(`answer mail %d {"ok":true}`), false},
		"who closes":                   {once, asked("yes") + "close planner\n" + each(`answer mail %d {"ok":true}`), false},
		"a third answer":               {testMesh(), "ask planner mail yes\nanswer mail 1 {\"ok\":1}\nanswer mail 1 {\"ok\":1}\nanswer mail 1 {\"ok\":true}", false},
		"nine that are rejected":       {once, asked("yes") + strings.Join(strings.SplitAfter(each(`answer mail %d {"ok":1}`), "\n")[:9], ""), false},
		"ten that are rejected":        {once, asked("yes") + strings.Join(strings.SplitAfter(each(`answer mail %d {"ok":1}`), "\n")[:10], ""), true},
	} {
		c.mesh.MaxRefusals = 100
		w := newWorld(t, c.mesh).play(c.history)
		d, due := w.state.DecideDue(w.moment())
		failIf(t, (due && d.Event == string(bcp.AlertSuspect)) != c.suspected, "%s: then %+v", name, d)
	}
	w := newWorld(t, suspending()).play(`
		ask planner mail yes         => accept
		answer web 1 {"ok":true}     => query_unknown silent
		due                          => alert event:role_suspect`)
	failIf(t, w.state.Suspended("mail") || !w.state.Suspended("web"), "who answers another's query has that one suspected")
	lift := func() bcp.Decision {
		return w.commit(w.state.DecideControl(w.moment(), bcp.ControlLift, []byte(`{"agent":"web"}`)))
	}
	for range 2 {
		if d := lift(); d.Verdict != bcp.Accept || d.Agent != bcp.Operator || d.Target != "web" || w.state.Suspended("web") {
			t.Errorf("lifted: %+v", d)
		}
		w.play(`
			answer web 1 {"ok":true} => query_unknown silent
			due                      => alert event:role_suspect`)
	}
}
