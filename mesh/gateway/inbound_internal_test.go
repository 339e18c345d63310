package gateway

import (
	"bytes"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func named(id string) input { return input{reply: id} }

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
	got := ""
	for _, in := range b.take()[:6] {
		got += in.reply + " "
	}
	if got != "f o1 t f o2 f " {
		t.Errorf("taken in the order %s", got)
	}
	for len(b.take()) > 0 {
	}
	if len(flooder.waiting) != 0 || flooder.bytes != 0 {
		t.Errorf("%d remain", len(flooder.waiting))
	}
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
					l.put(input{body: tt.body})
				}
				var put atomic.Int64
				for range 2 {
					go func() { l.put(input{body: []byte("x")}); put.Add(1) }()
					synctest.Wait()
				}
				if put.Load() != 0 {
					t.Fatal("it takes more")
				}
				b.lane().put(named("another"))
				for put.Load() < 2 && len(b.take()) > 0 {
					synctest.Wait()
				}
				if put.Load() != 2 {
					t.Errorf("%d went on when there was room", put.Load())
				}
			})
		})
	}
	// A closed inbox keeps nobody waiting.
	synctest.Test(t, func(t *testing.T) {
		b := newInbox()
		l := b.lane()
		for range laneMessages {
			l.put(input{})
		}
		put := false
		go func() { l.put(input{}); put = true }()
		synctest.Wait()
		b.close()
		synctest.Wait()
		l.put(input{})
		if !put || len(l.waiting) != laneMessages {
			t.Errorf("freed %v, %d wait", put, len(l.waiting))
		}
	})
}

// covers A-RECONN, A-LOGFILL
func TestConnectionEventsOfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{config: Config{Now: time.Now}, flaps: map[agentRole]flaps{}}
		mailer := agentRole{"mailer", bcp.RoleReader}
		for minute := range 2 {
			for i := range maxConnectionEvents + 2 {
				kind := []bcp.DecisionKind{bcp.KindConnect, bcp.KindDisconnect}[i%2]
				if got := g.onlyCounted(&event{kind: kind, agent: mailer}); got != (i >= maxConnectionEvents) {
					t.Errorf("minute %d, event %d: only counted: %v", minute, i+1, got)
				}
			}
			if g.onlyCounted(&event{kind: bcp.KindConnect, agent: agentRole{"mailer", bcp.RoleController}}) {
				t.Error("another role pays for it")
			}
			time.Sleep(time.Minute)
		}
	})
}

// covers A-FLOODRESP, P4.7
func TestFlooderIsKickedAtTheLimit(t *testing.T) {
	t.Parallel()
	kicked := 0
	g := &Gateway{log: hclog.NewNullLogger(), config: Config{Now: time.Now, Kick: func(agent bcp.AgentName, role bcp.Role) {
		if agent == "mailer" && role == bcp.RoleReader {
			kicked++
		}
	}}}
	for count, want := range map[int]int{1: 0, floodRefusals - 1: 0, floodRefusals: 1, 1 << 30: 1} {
		kicked = 0
		g.kickFlooder(&bcp.Decision{Kind: bcp.KindRefusals, Agent: "mailer", Role: bcp.RoleReader, Count: count})
		if kicked != want {
			t.Errorf("%d refusals: kicked %d times", count, kicked)
		}
	}
}
