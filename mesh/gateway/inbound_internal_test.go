package gateway

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func named(id string) *input { return &input{message: &message{reply: id, body: []byte(id)}} }

// taken are the names of what comes with the next batch.
func taken(b *inbox) (names string) {
	for _, in := range b.take(nil) {
		names += in.message.reply + " "
	}
	return names
}

// covers A-FLOODRESP, A-SLOW
func TestLanesTakeTurns(t *testing.T) {
	t.Parallel()
	b := newInbox()
	flooder, other, third := b.lane(), b.lane(), b.lane()
	for range laneMessages {
		flooder.put(named("f"))
	}
	other.put(named("o1"))
	other.put(named("o2"))
	third.put(named("t"))
	got := taken(b)
	failIf(t, !strings.HasPrefix(got, "f o1 t f o2 f "), "taken in the order %s", got)
	for len(b.take(nil)) > 0 {
	}
	failIf(t, len(flooder.waiting) != 0 || flooder.bytes != 0, "%d remain", len(flooder.waiting))
}

// What a batch had no time for waits again, in its order, and others have a turn before it. An
// input of no lane, such as an alert of the gateway's own, comes with the next batch.
//
// covers A-FLOODRESP
func TestRestOfABatchWaitsAgain(t *testing.T) {
	t.Parallel()
	b := newInbox()
	slow, held := b.lane(), b.lane()
	for _, name := range []string{"s1", "s2", "s3"} {
		slow.put(named(name))
	}
	held.put(named("h1"))
	batch := append(b.take(nil), named("alert"))
	slow.put(named("s4"))
	held.hold(true)
	b.lane().put(named("o1"))
	rest := b.putBack(batch[1:])
	failIf(t, len(rest) != 1 || rest[0].message.reply != "alert", "of no lane are %v", rest)
	failIf(t, slow.bytes != 6 || held.bytes != 2, "%d and %d bytes wait", slow.bytes, held.bytes)
	got := ""
	for len(b.turns) > 0 {
		got += taken(b)
	}
	held.hold(false)
	got += taken(b)
	expect(t, got, "s2 o1 s3 s4 h1 ", "taken in the order")
}

// covers A-FLOODRESP, A-SLOW
func TestLaneIsBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		n    int
		body []byte
	}{
		"messages": {laneMessages, nil},
		"bytes":    {4, bytes.Repeat([]byte("x"), laneBytes/4)},
		"large":    {1, make([]byte, laneBytes+1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newInbox()
				l := b.lane()
				for range tt.n {
					l.put(&input{message: &message{body: tt.body}})
				}
				var put atomic.Int64
				for range 2 {
					go func() { l.put(&input{message: &message{body: []byte("x")}}); put.Add(1) }()
					synctest.Wait()
				}
				stopIf(t, put.Load() != 0, "it takes more")
				b.lane().put(named("another"))
				for put.Load() < 2 && len(b.take(nil)) > 0 {
					synctest.Wait()
				}
				expect(t, put.Load(), 2, "went on when there was room")
			})
		})
	}
	// A closed inbox keeps nobody waiting.
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		l := b.lane()
		for range laneMessages {
			l.put(&input{})
		}
		put := false
		go func() { l.put(&input{}); put = true }()
		synctest.Wait()
		b.close()
		synctest.Wait()
		l.put(&input{})
		failIf(t, !put || len(l.waiting) != laneMessages, "freed %v, %d wait", put, len(l.waiting))
	})
}

// A lane that is held keeps what it has, and the others have their turns; then it goes on
// where it was.
//
// covers A-SLOW
func TestLaneIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		l, other := b.lane(), b.lane()
		l.put(named("a"))
		l.hold(true)
		l.hold(true)
		l.put(named("b"))
		other.put(named("c"))
		expect(t, taken(b), "c ", "took")
		for len(l.waiting) < laneMessages {
			l.put(named("d"))
		}
		go l.put(named("e"))
		synctest.Wait()
		names := taken(b)
		failIf(t, names != "" || len(l.waiting) != laneMessages, "took %s, and %d wait", names, len(l.waiting))
		l.hold(false)
		l.hold(false)
		all := ""
		for len(b.turns) > 0 {
			all += taken(b)
			synctest.Wait()
		}
		expect(t, all, "a b "+strings.Repeat("d ", laneMessages-2)+"e ", "took")
	})
}

// Who asks the gateway for something waits no longer than it wants to, whether its call
// found room or not; what it has given up is not done.
//
// covers P1.5
func TestNobodyWaitsTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{inbox: newInbox(), done: make(chan struct{})}
		g.events = g.inbox.lane()
		for name, ask := range map[string]func(context.Context) error{
			"inspect": func(ctx context.Context) error { return g.Inspect(ctx, func(*state.State) { t.Error("inspects") }) },
			"reload": func(ctx context.Context) error {
				return g.between(ctx, func(context.Context) error { t.Error("switches over"); return nil })
			},
		} {
			for len(g.events.waiting) < laneMessages-1 {
				g.tell(call(func() {}))
			}
			for range 2 { // the lane is full the second time
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				fails(t, ask(ctx), context.DeadlineExceeded, "%s", name)
				cancel()
			}
			for _, in := range g.events.waiting {
				if c, ok := in.event.(call); ok {
					c()
				}
			}
			g.events.waiting = nil
		}
	})
}

// covers A-RECONN, A-LOGFILL
func TestConnectionEventsOfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{config: Config{Now: time.Now}, flaps: map[agentRole]connectionEvents{}}
		mailer := agentRole{"mailer", bcp.RoleReader}
		for minute := range 2 {
			for i := range maxConnectionEvents + 2 {
				kind := []bcp.DecisionKind{bcp.KindConnect, bcp.KindDisconnect}[i%2]
				expect(t, g.onlyCounted(&connects{kind: kind, agent: mailer}), i >= maxConnectionEvents, "minute %d, event %d: only counted", minute, i+1)
			}
			again := &connects{kind: bcp.KindConnect, agent: agentRole{"mailer", bcp.RoleController}}
			for range maxConnectionEvents + 1 { // as often as no record of it is acknowledged
				stopIf(t, g.onlyCounted(again), "another role pays for it, or one event twice")
			}
			time.Sleep(time.Minute)
		}
	})
}

// What was counted stays due until it is recorded, also when a step begins just before
// it is and ends just after.
//
// covers P4.7
func TestCountedIsDueUntilItIsRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		empty := must(state.New(state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC}}))
		g := &Gateway{config: Config{Now: time.Now}, state: empty, counts: map[counted]count{}, counting: map[agentRole]countingRecord{}, countedAt: map[agentRole]time.Time{}}
		idle := g.untilDue()
		g.count(counted{kind: bcp.KindConnect, agent: agentRole{"mailer", bcp.RoleReader}}, 1)
		expect(t, g.untilDue(), countingInterval, "waits")
		time.Sleep(countingInterval - time.Nanosecond)
		if d, ok := g.nextCounted(); ok {
			t.Errorf("recorded early: %+v", d)
		}
		time.Sleep(time.Nanosecond)
		g.runTimers()
		expect(t, g.untilDue(), 0, "waits")
		d, ok := g.nextCounted()
		failIf(t, !ok || d.decision.Count != 1, "decided %v, %+v", ok, d)
		g.countsRecorded(1)
		expect(t, g.untilDue(), idle, "waits")
	})
}

// A delivery that waits for room in the window has not been sent by this connection:
// that nobody listened to it on the one before sends nothing.
//
// covers P9.1, A-RECONN
func TestNobodyListenedOnTheConnectionBefore(t *testing.T) {
	t.Parallel()
	main := agentRole{"main", bcp.RoleController}
	unheard := subjects.Subject{Kind: subjects.KindReply, Role: main.Role, Agent: main.Agent, ID: "d1", Attempt: 2}
	for _, parked := range []bool{true, false} {
		g := &Gateway{config: Config{Now: time.Now}, state: &state.State{}, agents: map[agentRole]*connection{main: {ready: true}},
			sending: map[bcp.DeliveryID]*sending{"d1": {to: main, count: unheard.Attempt + 1, parked: parked}}}
		g.noteUnheard(unheard)
		again := len(g.timers) > 0
		failIf(t, again == parked, "parked %v: it is sent again: %v", parked, again)
	}
}

// covers A-FLOODRESP, P4.7
func TestFlooderAtTheLimit(t *testing.T) {
	t.Parallel()
	mailer := agentRole{"mailer", bcp.RoleReader}
	for _, tt := range []struct {
		kind  bcp.DecisionKind
		agent agentRole
		count int
		want  int
	}{
		{bcp.KindRefusals, mailer, 1, 0},
		{bcp.KindRefusals, mailer, floodRefusals - 1, 0},
		{bcp.KindRefusals, mailer, floodRefusals, 1},
		{bcp.KindRefusals, mailer, 1 << 30, 1},
		{bcp.KindViolation, mailer, floodRefusals - 1, 0},
		{bcp.KindViolation, mailer, floodRefusals, 1},
		{bcp.KindViolation, agentRole{}, floodRefusals, 0}, // of nobody
		{bcp.KindConnect, mailer, floodRefusals, 0},
	} {
		kicked, slowed := 0, 0
		note := func(n *int) func(bcp.AgentName, bcp.Role) {
			return func(agent bcp.AgentName, role bcp.Role) {
				if (agentRole{agent, role}) == mailer {
					*n++
				}
			}
		}
		g := &Gateway{
			log: hclog.NewNullLogger(), counts: map[counted]count{},
			config: Config{Now: time.Now, Kick: note(&kicked), Slow: note(&slowed)},
		}
		counts{}.release(g, &outcome{decision: bcp.Decision{Kind: tt.kind, Agent: tt.agent.Agent, Role: tt.agent.Role, Count: tt.count}})
		c := counted{kind: tt.kind, agent: tt.agent}
		g.count(c, tt.count)
		if tt.want == 1 {
			g.count(c, 1) // it is slow already
		}
		failIf(t, kicked != tt.want || slowed != tt.want,
			"%d of kind %v: kicked %d times, slowed %d times", tt.count, tt.kind, kicked, slowed)
	}
}

// Whose creds a message was sent with is what the server says, once. Who is bound to a
// passkey that cannot be read is nobody, and never somebody without one.
//
// covers P7.3, A-SELFAPP
func TestSenderOf(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0a", 32)
	var passkey bcp.Digest
	for i := range passkey {
		passkey[i] = 0x0a
	}
	for _, c := range []struct {
		values []string
		want   bcp.Sender
	}{
		{[]string{`{"acc":"A","user":"U1"}`}, bcp.Sender{Key: "U1"}},
		{[]string{`{"user":"U1","tags":["office","passkey"]}`}, bcp.Sender{Key: "U1"}},
		{[]string{`{"user":"U1","tags":["office","passkey:` + hash + `"]}`}, bcp.Sender{Key: "U1", Passkey: passkey}},
		{[]string{`{"user":"U1","tags":["passkey:` + hash + `","passkey:` + hash + `"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":["passkey:` + hash[2:] + `"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":["passkey:` + hash + `0a"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":["passkey:` + strings.Repeat("00", 32) + `"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":["passkey:` + strings.Repeat("xx", 32) + `"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":["passkey:"]}`}, bcp.Sender{}},
		{[]string{`{"user":"U1","tags":"passkey:"}`}, bcp.Sender{}},
		{[]string{`{"user":"U1"}`, `{"user":"U1"}`}, bcp.Sender{}},
		{[]string{`{"user":`}, bcp.Sender{}},
		{nil, bcp.Sender{}},
	} {
		expect(t, readSender(&nats.Msg{Header: nats.Header{"Nats-Request-Info": c.values}}), c.want, "%q", c.values)
	}
}
