package gateway

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
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
		in := &input{message: &message{kind: requests[kind], subject: subjects.Subject{Kind: kind, Controller: "main", Reader: "mailer", Subscription: "alerts"}, body: []byte("canary")}}
		o, recorded := g.decideSafely(in)
		failIf(t, recorded || o.decision.Code != bcp.Internal || !in.dropped,
			"%s: %v, recorded %v", kind, o.decision.Code, recorded)
	}
	if n := strings.Count(log.String(), "made a mistake"); n != 3 || strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "state.(*State).DecidePush decide.go:") {
		t.Errorf("the log says: %s", &log)
	}
	expect(t, len(g.mistakes), 3, "alerts")
}

// A mistake in a consequence of a run loses neither that nor its siblings, nor what was
// counted: it is tried again behind the others, after a pause.
//
// covers A-CRASH, P4.7
func TestPanicInARunsConsequence(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	now := time.Unix(1_800_000_000, 0)
	own := must(state.New(state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC}}))
	mailer := counted{kind: bcp.KindRefusals, agent: agentRole{"mailer", bcp.RoleReader}}
	g := &Gateway{config: Config{Now: func() time.Time { return now }}, log: hclog.New(&hclog.LoggerOptions{Output: &log}), state: own,
		counts: map[counted]count{mailer: {n: 7, since: now}}, counting: map[agentRole]countingRecord{}}
	var done []string
	tries := 0
	g.todo(doing(func() (outcome, bool) {
		if tries++; tries < 3 {
			panic("canary")
		}
		done = append(done, "answer")
		return outcome{}, false
	}))
	g.todo(doing(func() (outcome, bool) { done = append(done, "sibling"); return outcome{}, false }))
	for range 3 {
		g.nextRun()
		g.nextRun() // not before the pause is over
		due, ok := g.runsDue()
		failIf(t, len(g.runs.todo) > 0 && (!ok || !due.After(now)), "due at %s, %v", due, ok)
		now = now.Add(overduePause)
	}
	failIf(t, strings.Join(done, " ") != "sibling answer" || tries != 3 || g.counts[mailer].n != 7,
		"did %q in %d tries, counts %v", done, tries, g.counts)
	n := strings.Count(log.String(), `doing="a run"`)
	failIf(t, n != 2 || strings.Contains(log.String(), "canary"), "the log says: %s", &log)
}

type doing func() (outcome, bool)

func (f doing) decide(*Gateway) (outcome, bool) { return f() }

// A mistake of ours is an alert, whatever it was in, and keeps nothing else from being done.
//
// covers A-CRASH
func TestEveryPanicIsAnAlert(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]work{
		"an event":         {in: &input{event: call(nil)}},
		"what is due":      {due: &state.Due{}},
		"what was counted": {counts: true},
		"a run":            {runs: true},
		"a step":           {},
	} {
		var log bytes.Buffer
		g := &Gateway{config: Config{Now: time.Now}, log: hclog.New(&hclog.LoggerOptions{Output: &log}), working: w, dueAside: map[state.Due]aside{}}
		g.setAside(mistakeIn(safely(func() error { panic("canary") })))
		failIf(t, len(g.mistakes) != 1 || g.mistakes[0].event.(panicked).body != nil || !strings.Contains(log.String(), name),
			"%s: %d alerts, %s", name, len(g.mistakes), &log)
	}
	g := &Gateway{config: Config{Now: time.Now}, log: hclog.NewNullLogger()}
	g.guard("sending", func() { panic("canary") })
	expect(t, len(g.mistakes), 1, "alerts")
}

// A batch is decided about for 20 ms, and at least one message of it: what is left waits behind
// others, however long each message takes.
//
// covers A-STALL, P1.5
func TestBatchIsDecidedAboutForAWhile(t *testing.T) {
	t.Parallel()
	for each, want := range map[time.Duration]int{0: 5, 7 * time.Millisecond: 3, maxDeciding/2 - 1: 3, maxDeciding / 2: 2, maxDeciding: 1, time.Hour: 1} {
		now := time.Unix(1_800_000_000, 0)
		own := must(state.New(state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC}}))
		g := &Gateway{config: Config{Now: func() time.Time { now = now.Add(each); return now }}, log: hclog.NewNullLogger(), state: own}
		done := 0
		var batch []*input
		for range 5 {
			batch = append(batch, &input{event: call(func() { done++ })})
		}
		noError(t, g.step(t.Context(), batch))
		failIf(t, g.judged != want || done != want, "%s each: %d of 5 were decided about, %d done", each, g.judged, done)
	}
}

// A snapshot that could not be written is none: the next one is made as if nobody had tried.
//
// covers P4.5
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(file, nil, 0o600))
	own := must(state.New(state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC}}))
	var log bytes.Buffer
	g := &Gateway{config: Config{Snapshots: jetstream.NewSnapshots(filepath.Join(file, "below"))}, keys: jetstream.NewSealingKeys(nil), log: hclog.New(&hclog.LoggerOptions{Output: &log})}
	err := g.writeSnapshot(t.Context(), own, 1, time.Now())
	failIf(t, err == nil || strings.Contains(log.String(), "snapshot made"), "%v, and the log says: %s", err, &log)
}
