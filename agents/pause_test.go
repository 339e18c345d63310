package agents

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A pause grows, is never longer than its bound and never nothing.
//
// covers P2.6
func TestPauseBefore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 1<<40).Draw(t, "n"), time.Duration(rapid.Int64Range(int64(firstWait), int64(time.Hour)).Draw(t, "most"))
		d := pauseBefore(n, firstWait, most)
		stopIf(t, d < firstWait/2 || d > most, "pause %d is %v of at most %v", n, d, most)
	})
}

// A connection that lasted is dialled again at once; ones that do not last are
// dialled less and less often.
//
// covers P1.5
func TestReconnectPause(t *testing.T) {
	t.Parallel()
	p := &reconnectPause{most: time.Second}
	p.connected()
	p.since = p.since.Add(-settled)
	d := p.next(1)
	failIf(t, d >= firstWait, "after a connection that lasted: %v", d)
	for n := range 7 {
		p.connected()
		d, least := p.next(1), firstWait<<n/2
		failIf(t, d < least, "connection %d that did not last: %v, want at least %v", n, d, least)
	}
	for round := 2; round < 100; round++ {
		d := p.next(round)
		failIf(t, d < time.Second/2 || d > time.Second, "round %d: %v", round, d)
	}
}

// A server that refuses the credentials is asked less often, and what it says is told once, until it takes them.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	refused := false
	p := &reconnectPause{most: 20 * time.Millisecond, refused: func() bool { return refused }}
	d := p.next(2)
	failIf(t, d > 20*time.Millisecond, "a server that is away: %v", d)
	refused = true
	for round := 2; round < 20; round++ {
		d := p.next(round)
		failIf(t, d < 250*time.Millisecond || d > refusedWait, "round %d: %v", round, d)
	}
	var log bytes.Buffer
	c := newConnection(Options{Name: "main", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	var o nats.Options
	c.callbacks(&o, p)
	for want := 1; want <= 2; want++ {
		for range 9 {
			o.AsyncErrorCB(nil, nil, fmt.Errorf("x: %w", nats.ErrAuthorization))
		}
		if n := strings.Count(log.String(), "\n"); n != want {
			t.Errorf("%d lines, want %d:\n%s", n, want, log.String())
		}
		o.ConnectedCB(nil)
	}
}

// covers P9.1
func TestRecentRemembersTheNewest(t *testing.T) {
	t.Parallel()
	r := newRecent[int](maxKnown)
	for i := range maxKnown {
		r.add(i)
		r.add(i)
	}
	failIf(t, !r.has(0), "forgot one within its size")
	r.add(maxKnown)
	failIf(t, r.has(0) || !r.has(1) || !r.has(maxKnown) || len(r.known) != maxKnown || len(r.order) != maxKnown,
		"one past its size: %d known, oldest %v, newest %v", len(r.known), r.has(1), r.has(maxKnown))
}

// What a Reader remembers stays within both its limits, whatever happens, and
// the newest is never forgotten.
//
// covers P9.5
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var a answers
	for i := range maxAnswers + 1 {
		a.findOrAdd(bcp.QueryID(fmt.Sprint(i)))
	}
	failIf(t, len(a.byQuery) != maxAnswers || a.byQuery["0"] != nil || a.byQuery["1"] == nil, "%d remembered", len(a.byQuery))
	rapid.Check(t, func(t *rapid.T) {
		var a answers
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := bcp.QueryID(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "query")))
			entry := a.findOrAdd(id)
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				a.setMessage(id, entry, make([]byte, rapid.IntRange(1, maxAnswerBytes/3).Draw(t, "bytes")))
			case 1:
				a.setMessage(id, entry, nil)
			default:
				a.rejected(id, "no", false)
			}
			sum := 0
			for _, e := range a.byQuery {
				sum += len(e.message)
			}
			stopIf(t, sum != a.bytes || sum > maxAnswerBytes || len(a.order) != len(a.byQuery),
				"%d bytes counted, %d there, %d in order, %d known", a.bytes, sum, len(a.order), len(a.byQuery))
		}
	})
}

// A lane holds maxQueued jobs behind the one at work, in order, and drops what
// is waiting when the run ends.
//
// covers P9.1
func TestLanesAreBounded(t *testing.T) {
	t.Parallel()
	r := &run{stopping: make(chan struct{}), handlers: make(chan struct{}, 1)}
	r.begin = func(f func(context.Context)) { r.work.Go(func() { f(context.Background()) }) }
	var l lanes[string]
	failIf(t, l.add("a", nil), "added before there is a run")
	l.begin(r)
	entered, release := make(chan struct{}), make(chan struct{})
	l.add("a", func(context.Context, *run) { close(entered); <-release })
	<-entered
	var got []int
	for i := range maxQueued {
		stopIf(t, !l.add("a", func(context.Context, *run) { got = append(got, i) }), "full at %d", i)
	}
	failIf(t, l.add("a", func(context.Context, *run) {}), "one past the limit was taken")
	done := make(chan struct{})
	failIf(t, !l.add("b", func(context.Context, *run) { close(done) }), "another lane is full")
	<-done
	close(release)
	for {
		l.mu.Lock()
		_, busy := l.jobs["a"]
		l.mu.Unlock()
		if !busy {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for i, n := range got {
		stopIf(t, i != n, "job %d came at place %d", n, i)
	}
	failIf(t, len(got) != maxQueued, "%d jobs were done", len(got))
	r.end()
	r.end()
	failIf(t, l.add("a", func(context.Context, *run) {}), "added to a run that has ended")
	r.work.Wait()
}
