package gateway

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// A panic of this program is caused by a message, an event or time, and ends only the
// work on its cause. Nothing of the batch is recorded, the state is read from the journal
// again, since it may be half changed, and the cause is set aside: a message goes into
// quarantine, an event is dropped, and a due decision waits. People are alerted, the
// message is sealed with that record, and the log has the stack. It never has a value that
// an agent chose.

// ErrPanic says that this program made a mistake.
var ErrPanic = errors.New("this program made a mistake")

const (
	// firstAside is how long an agent's messages are not read after one caused a panic,
	// and how long a due decision waits after it did; it doubles each time in a row, up
	// to maxAside.
	firstAside = time.Second
	maxAside   = time.Minute
	// ownMistakePause is the minimum time between two alerts without a message.
	ownMistakePause = time.Minute
	// maxFrames bounds the stack in the log.
	maxFrames = 24
	// maxQuarantined bounds the messages in quarantine; beyond it the oldest is let out.
	maxQuarantined = 1000
)

// panicError is a panic without its value, which may contain what an agent said.
type panicError struct {
	kind  string   // type of the value
	stack []string // innermost first
}

func (e *panicError) Error() string {
	if len(e.stack) == 0 {
		return fmt.Sprintf("%v (%s)", ErrPanic, e.kind)
	}
	return fmt.Sprintf("%v (%s in %s)", ErrPanic, e.kind, e.stack[0])
}

func (e *panicError) Unwrap() error { return ErrPanic }

// safely calls f. Its panic is a panicError.
func safely(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newPanicError(value)
		}
	}()
	return f()
}

// caught calls f, and returns its panic, or nil.
func caught(f func()) *panicError {
	return mistakeIn(safely(func() error { f(); return nil }))
}

// newPanicError must be called by the deferred function that recovers a value.
func newPanicError(value any) *panicError {
	var counters [4 * maxFrames]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	mistake := &panicError{kind: fmt.Sprintf("%T", value)}
	panicked := false
	for more := true; more && len(mistake.stack) < maxFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		switch own := strings.HasPrefix(frame.Function, "runtime."); {
		case !panicked:
			panicked = frame.Function == "runtime.gopanic" // the panicking functions follow it
		case !own:
			mistake.stack = append(mistake.stack, fmt.Sprintf("%s %s:%d", path.Base(frame.Function), path.Base(frame.File), frame.Line))
		}
	}
	return mistake
}

// mistakeIn returns the panic in an error, or nil.
func mistakeIn(err error) *panicError {
	if err == nil {
		return nil
	}
	var mistake *panicError
	errors.As(err, &mistake)
	return mistake
}

// work is what the gateway is deciding or applying.
type work struct {
	in     *input     // a message or an event
	due    *state.Due // a due decision
	counts bool       // counts
	runs   bool       // consequences of runs
}

// aside is the cause of a panic, which is not tried for a while.
type aside struct {
	until time.Time
	wait  time.Duration
}

// lengthen sets the end of the next wait, which is longer than the previous one.
func (a *aside) lengthen(now time.Time) {
	a.wait = min(max(firstAside, 2*a.wait), maxAside)
	a.until = now.Add(a.wait)
}

// guard calls f, which must not change state. Its panic only causes an alert.
func (g *Gateway) guard(doing string, f func()) {
	if mistake := caught(f); mistake != nil {
		g.logMistake(doing, mistake)
		g.tellOwnMistake()
	}
}

func (g *Gateway) logMistake(doing string, mistake *panicError) {
	g.log.Error("this program made a mistake; tell its authors", "doing", doing, "panic", mistake.kind, "stack", strings.Join(mistake.stack, " < "))
}

// tellMistake has an alert recorded with the next batch, unless there are many.
func (g *Gateway) tellMistake(alert event) {
	if len(g.mistakes) < maxBatch {
		g.mistakes = append(g.mistakes, &input{event: alert})
	}
}

// tellOwnMistake is tellMistake for a panic without a message, limited in rate, since the
// alert itself may cause the next one.
func (g *Gateway) tellOwnMistake() {
	if now := g.clock(); now.Sub(g.ownMistake).Abs() >= ownMistakePause {
		g.ownMistake = now
		g.tellMistake(panicked{})
	}
}

// setAside sets aside what the gateway was working on.
func (g *Gateway) setAside(mistake *panicError) {
	w := g.working
	g.working = work{}
	switch {
	case w.in != nil && w.in.message != nil:
		g.quarantine(w.in, mistake)
	case w.in != nil:
		g.logMistake("an event", mistake)
		w.in.dropped = true
		if e, again := w.in.event.(panicked); !again {
			g.tellOwnMistake()
		} else if len(e.body) > 0 { // without the message, which may be the reason
			e.body = nil
			g.tellMistake(e)
		}
	case w.due != nil:
		g.logMistake("what is due", mistake)
		if len(g.dueAside) >= maxBatch {
			clear(g.dueAside)
		}
		a := g.dueAside[*w.due]
		a.lengthen(g.clock())
		g.dueAside[*w.due] = a
		g.tellOwnMistake()
	case w.counts:
		g.logMistake("what was counted", mistake)
		clear(g.counts)
		clear(g.counting)
		g.tellOwnMistake()
	case w.runs:
		g.logMistake("a run", mistake)
		g.runs.stuck = g.clock().Add(overduePause)
		g.tellOwnMistake()
	default:
		g.logMistake("a step", mistake)
		g.tellOwnMistake()
	}
}

// quarantine has the digests of messages that made the gateway panic, oldest first: such a
// message is refused unread until the gateway ends.
type quarantine struct{ held [][sha256.Size]byte }

// messageDigest is that of a message, the same each time that it is sent.
func messageDigest(m *message) [sha256.Size]byte {
	subject := m.subject
	subject.Attempt = 0
	return sha256.Sum256(append([]byte(subject.String()+"\n"), m.body...))
}

func (q *quarantine) holds(m *message) bool {
	return len(q.held) > 0 && slices.Contains(q.held, messageDigest(m))
}

func (q *quarantine) add(m *message) {
	if q.held = append(q.held, messageDigest(m)); len(q.held) > maxQuarantined {
		q.held = q.held[1:]
	}
}

// quarantine keeps a message from being tried again, and stops reading its sender for a
// while.
func (g *Gateway) quarantine(in *input, mistake *panicError) {
	m := in.message
	who, channel := g.sender(m), g.channelOf(m)
	g.logMistake(m.subject.Kind.String()+" of "+string(who.Agent), mistake)
	in.dropped = true
	g.quarantined.add(m)
	g.tellMistake(panicked{agent: who, channel: channel, body: m.body})
	if l := in.lane; l != nil {
		l.aside.lengthen(g.clock())
		l.hold(true)
		g.runAt(l.aside.until, func() {
			if !g.clock().Before(l.aside.until) { // not set aside again meanwhile
				l.hold(false)
			}
		})
	}
}

// channelOf returns the channel of a message, or zero.
func (g *Gateway) channelOf(m *message) bcp.ChannelKey {
	s := m.subject
	if s.Controller != "" && s.Reader != "" {
		return bcp.ChannelKey{Controller: s.Controller, Reader: s.Reader}
	}
	var channel bcp.ChannelKey
	caught(func() { // the state may be inconsistent
		if q, reader, _, open := g.state.Open(bcp.QueryID(s.ID)); open {
			channel = bcp.ChannelKey{Controller: q.Controller, Reader: reader}
		}
	})
	return channel
}

// passOver reports whether a due decision must wait: it caused a panic, or its
// channel is closed since the journal was set back.
func (g *Gateway) passOver(due state.Due) bool {
	if a, waits := g.dueAside[due]; waits && g.clock().Before(a.until) {
		return true
	}
	if g.setBack() && g.config.Marks.closed(g.state.ChannelDue(due)) { // until the operator opens the channel
		return true
	}
	g.working = work{due: &due}
	return false
}
