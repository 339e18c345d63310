package gateway

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A mistake of ours that one message finds refuses that message, and the log
// does not repeat it.
//
// covers A-CRASH, P2.5
func TestPanicIsARefusal(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := &Gateway{config: Config{Now: time.Now}, log: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})} // without a state, deciding panics
	for _, kind := range []subjects.Kind{subjects.KindAsk, subjects.KindPush, subjects.KindSession} {
		in := &input{subject: subjects.Subject{Kind: kind, Controller: "main", Reader: "mailer", Subscription: "alerts"}, body: []byte("canary")}
		d, recorded := g.decideSafely(in)
		if recorded || d.Code != bcp.Internal || !in.dropped {
			t.Errorf("%s: %v, recorded %v", kind, d.Code, recorded)
		}
	}
	if n := strings.Count(log.String(), "made a mistake"); n != 3 || strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "state.(*State).DecidePush decide.go:") {
		t.Errorf("the log says: %s", &log)
	}
	if len(g.mistakes) != 3 {
		t.Errorf("%d alerts", len(g.mistakes))
	}
}

// A mistake in a consequence of a run loses neither that nor its siblings, nor what was
// counted: it is tried again behind the others, after a pause.
//
// covers A-CRASH, P4.7
func TestPanicInARunsConsequence(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1_800_000_000, 0)
	own, err := state.New(state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC}, Runs: kernel.Open()})
	if err != nil {
		t.Fatal(err)
	}
	mailer := counted{kind: bcp.KindRefusals, agent: agentRole{"mailer", bcp.RoleReader}}
	g := &Gateway{config: Config{Now: func() time.Time { return now }}, log: hclog.New(&hclog.LoggerOptions{Output: &log}), state: own,
		counts: map[counted]count{mailer: {n: 7, since: now}}, counting: map[agentRole]countingRecord{}}
	var done []string
	tries := 0
	g.todo(func() (outcome, bool) {
		if tries++; tries < 3 {
			panic("canary")
		}
		done = append(done, "answer")
		return outcome{}, false
	})
	g.todo(func() (outcome, bool) { done = append(done, "sibling"); return outcome{}, false })
	for range 3 {
		g.nextRun()
		g.nextRun() // not before the pause is over
		if due, ok := g.runsDue(); len(g.runs.todo) > 0 && (!ok || !due.After(now)) {
			t.Errorf("due at %s, %v", due, ok)
		}
		now = now.Add(overduePause)
	}
	if strings.Join(done, " ") != "sibling answer" || tries != 3 || g.counts[mailer].n != 7 {
		t.Errorf("did %q in %d tries, counts %v", done, tries, g.counts)
	}
	if n := strings.Count(log.String(), `doing="a run"`); n != 2 || strings.Contains(log.String(), "canary") {
		t.Errorf("the log says: %s", &log)
	}
}
