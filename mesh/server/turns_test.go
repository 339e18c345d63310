package server

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// takes stands in line, and says what became of it. Its turn does not end but by turnTime.
func takes(of *turns, host string) <-chan bool {
	got := make(chan bool, 1)
	go func() {
		_, ok := of.takeTurn(host)
		got <- ok
	}()
	synctest.Wait()
	return got
}

// is reports what has become of somebody: "in", "refused" or "waits".
func is(got <-chan bool) string {
	synctest.Wait()
	select {
	case ok := <-got:
		if ok {
			return "in"
		}
		return "refused"
	default:
		return "waits"
	}
}

// As many are let in as have turns. The next is when one of them is done.
//
// covers A-RECONN
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of turns
		of.open()
		var ends []func()
		for i := range maxTurns {
			end, ok := of.takeTurn("192.0.2.7")
			stopIf(t, !ok, "the turn %d is refused", i+1)
			ends = append(ends, end)
		}
		first, second := takes(&of, "192.0.2.7"), takes(&of, "192.0.2.7")
		got := is(first)
		stopIf(t, got != "waits", "past the limit it %s", got)
		ends[0]()
		ends[0]() // it has ended
		a, b := is(first), is(second)
		failIf(t, a != "in" || b != "waits", "after the end of one turn the first is %s, the second %s", a, b)
		time.Sleep(waitTime + turnTime) // who has a turn for longer than turnTime keeps nobody out
		failIf(t, is(second) == "waits", "it waits for longer than it may")
		for range maxTurns {
			got := is(takes(&of, "192.0.2.7"))
			stopIf(t, got != "in", "after turnTime one %s", got)
		}
		time.Sleep(turnTime)
	})
}

// Who waits in vain is refused in time, and its host has paid nothing.
//
// covers A-RECONN
func TestNobodyWaitsLongerThanClientsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of turns // shut
		for range 3 {
			var waiting []<-chan bool
			for range acceptBurst {
				waiting = append(waiting, takes(&of, "192.0.2.7"))
			}
			time.Sleep(waitTime - time.Nanosecond)
			got := is(waiting[0])
			stopIf(t, got != "waits", "before its time it is %s", got)
			time.Sleep(time.Nanosecond)
			for _, w := range waiting {
				got := is(w)
				stopIf(t, got != "refused", "after its time it is %s", got)
			}
		}
		failIf(t, of.waiting() != 0 || len(of.hostLimiter.paid) != 0,
			"%d wait, and %v is paid", of.waiting(), of.hostLimiter.paid)
		waits := takes(&of, "192.0.2.7")
		of.open()
		expect(t, is(waits), "in", "when it is opened one")
		time.Sleep(turnTime)
	})
}

// A host with many does not keep another one's from their turn, nor from the line.
//
// covers A-RECONN, A-SLOW
func TestHostsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of turns
		var many []<-chan bool
		few := takes(&of, "192.0.2.8")
		for range maxWaiting - 1 {
			many = append(many, takes(&of, "192.0.2.7"))
		}
		got := is(many[0])
		stopIf(t, got != "waits", "at the limit the oldest %s", got)
		many = append(many, takes(&of, "192.0.2.7"))
		a, b := is(many[0]), is(few)
		failIf(t, a != "refused" || b != "waits", "past the limit the oldest of the most is %s, the other one's %s", a, b)
		late := takes(&of, "192.0.2.9")
		expect(t, is(many[1]), "refused", "past the limit the oldest of the most")
		of.open()
		a, b = is(few), is(late)
		failIf(t, a != "in" || b != "in", "the others are %s and %s", a, b)
		expect(t, is(many[2+maxTurns-3]), "in", "the last with a turn")
		expect(t, is(many[2+maxTurns-2]), "waits", "the first without one")
		of.close()
		a, b = is(many[len(many)-1]), is(takes(&of, "192.0.2.9"))
		failIf(t, a != "refused" || b != "refused", "when it is closed one is %s, the next %s", a, b)
		time.Sleep(turnTime)
	})
}

// Agents of one host come back all at once, each with creds of its own. One that
// comes again and again pays.
//
// covers A-RECONN
func TestAgentsOfAHostComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEntrance(nil, nil, func(string) bool { return true })
		e.turns.open()
		comes := func(agent string) bool {
			end, ok := e.turns.takeTurn("192.0.2.7")
			if !ok {
				return false
			}
			e.passages[4222] = &passage{host: "192.0.2.7", turnEnds: end}
			e.known(at(4222), Party{Agent: bcp.AgentName(agent), Role: bcp.RoleReader}, "")
			return true
		}
		for i := range 3 * acceptBurst {
			stopIf(t, !comes(fmt.Sprintf("reader-%d", i)), "%d is too often", i+1)
		}
		for range 2 {
			for i := range acceptBurst {
				stopIf(t, !comes("reader-0"), "again %d is too often", i+1)
			}
			failIf(t, comes("reader-0"), "it comes in past the limit")
			time.Sleep(comeTime)
			if !comes("reader-0") { // free again
				t.Error("it does not come in after a while")
			}
		}
	})
}

// Who comes when the server is nowhere is closed, and nothing else happens.
//
// covers A-RECONN
func TestClientOfNoServerIsClosed(t *testing.T) {
	t.Parallel()
	outer := listenHere(t)
	e := newEntrance(nil, func() (net.Conn, error) { return nil, net.ErrClosed }, nil)
	e.turns.open()
	e.open(outer)
	client := dial(t, outer.Addr().String())
	_, err := client.Read(make([]byte, 1))
	failIf(t, err == nil || strings.Contains(err.Error(), "timeout"), "it is kept: %v", err)
	err = outer.Close()
	failIf(t, err != nil && !errors.Is(err, net.ErrClosed), "%v", err)
	e.close()
}

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	failIf(t, got != want, "%s: %+v, want %+v", fmt.Sprintf(what, args...), got, want)
}
