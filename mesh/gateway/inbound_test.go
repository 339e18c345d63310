package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// The gateway's connections are cut again and again, also while a record is
// being written.
//
// covers A-RECONN, P4.5, BCP-38
func TestLostConnectionsComeBack(t *testing.T) {
	t.Parallel()
	b, g, main, mailer := served(t)
	told, queries := main.Deliveries(t), mailer.Queries(t)
	const rounds = 10
	var pushed []string
	starts := func() (n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for i := range g.decisions {
			if g.decisions[i].Kind == bcp.KindStart {
				n++
			}
		}
		return n
	}
	// The gateway starts again if a cut comes while a record is being stored. From round to round it comes later within a later push.
	var took time.Duration // of the latest push
	enough := time.Now().Add(meshtest.Patience)
	for round := 0; round < rounds || starts() < 2 && time.Now().Before(enough); round++ {
		cut, begun := make(chan error, 1), make(chan time.Duration, 1)
		go func() {
			time.Sleep(<-begun * time.Duration(round%rounds) / rounds)
			for _, conn := range g.conns {
				id, err := conn.GetClientID()
				if err == nil {
					err = b.Kick(server.ClientID{Server: conn.ConnectedServerId(), Number: id})
				}
				if err != nil && !errors.Is(err, server.ErrNoClient) { // it is cut already
					cut <- err
					return
				}
			}
			cut <- nil
		}()
		for i := range 20 {
			id := fmt.Sprintf("p%d-%d", round, i)
			begin := time.Now()
			if i == (round+1)%20 {
				begun <- took
			}
			for deadline := time.Now().Add(meshtest.Patience); ; {
				stopIf(t, time.Now().After(deadline), "pushes are not answered any more")
				// Without an answer, the connection was cut before it.
				reply, err := mailer.Conn.Request(pushAlert, mailer.Encode(alert(`,"push_id":"`+id+`"`)), 200*time.Millisecond)
				if err == nil && strings.Contains(string(reply.Data), `"success":true`) {
					break
				}
			}
			pushed = append(pushed, id)
			took = time.Since(begin)
		}
		noError(t, <-cut)
	}
	for seen := map[string]bool{}; len(seen) < len(pushed); {
		d := told.Next(t)
		main.Acknowledge(t, d)
		seen[d.Text("delivery_id")] = true
	}
	id := main.Accepted(t, "mailer", askUrgent)
	mailer.Answer(t, queries.NextOf(t, meshtest.With("query_id", string(id))), `"response":{"urgent":true}`)
	told.NextOf(t, meshtest.With("query_id", string(id)))
	select {
	case <-g.Done():
		t.Fatal("the gateway ended")
	default:
	}
	noError(t, g.Stop())
	for _, conn := range g.conns[1:] {
		failIf(t, !conn.IsClosed(), "an agent's connection is open after Stop")
	}
	j := b.journal(t)
	for _, id := range pushed {
		expect(t, j.Pushes["main mailer "+id], 1, "push %s", id)
	}
	failIf(t, len(j.Pushes) != len(pushed) || j.Kinds[bcp.KindStart] < 2, "%d pushes, %v", len(j.Pushes), j.Kinds)
}
