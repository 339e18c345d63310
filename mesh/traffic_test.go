package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// traffic is what main asks and mailer pushes without a pause, over Go clients,
// each question and push under an id of its own.
type traffic struct {
	controller *agents.Controller
	reader     *agents.Reader
	end        atomic.Bool
	senders    sync.WaitGroup

	mu        sync.Mutex
	delivered map[string]int
	asked     map[bcp.QueryID]bool
	pushed    int
}

func startTraffic(ctx context.Context, t *testing.T, m *meshtest.Mesh, main, mailer *agents.Connection) *traffic {
	t.Helper()
	a := &traffic{controller: agents.NewController(main), reader: agents.NewReader(mailer), delivered: map[string]int{}, asked: map[bcp.QueryID]bool{}}
	a.controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.delivered[string(d.QueryID)+string(d.SubscriptionID)]++
		return nil
	})
	a.reader.OnQuery(func(context.Context, agents.Query) (any, error) { return map[string]bool{"urgent": true}, nil })
	noError(t, errors.Join(a.controller.Start(ctx), a.reader.Start(ctx)))
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}
	for i := range 2 {
		a.senders.Go(func() {
			for n := 0; !a.end.Load(); n++ {
				accepted, err := a.controller.Ask(ctx, "mailer", spec, agents.AskOptions{RequestID: bcp.ClientID(fmt.Sprintf("r%d-%d", i, n))})
				if err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				a.mu.Lock()
				a.asked[accepted.QueryID] = true
				a.mu.Unlock()
			}
		})
		a.senders.Go(func() {
			for n := 0; !a.end.Load(); n++ {
				_, err := a.reader.Push(ctx, "main", "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: bcp.ClientID(fmt.Sprintf("p%d-%d", i, n))})
				if err != nil {
					t.Errorf("push: %v", err)
					return
				}
				a.mu.Lock()
				a.pushed++
				a.mu.Unlock()
			}
		})
	}
	return a
}

// check ends the traffic: everything that was accepted is charged and delivered
// once, and nothing else is.
func (a *traffic) check(ctx context.Context, t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	a.end.Store(true)
	a.senders.Wait()
	m.WaitCount(t, len(a.asked)+a.pushed, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAcknowledge && d.Delivery != "" })
	a.mu.Lock()
	for id := range a.asked {
		failIf(t, a.delivered[string(id)] != 1, "%s came %d times", id, a.delivered[string(id)])
	}
	failIf(t, a.delivered["alerts"] != a.pushed || len(a.delivered) != len(a.asked)+1,
		"%d of %d pushes, %d of %d queries", a.delivered["alerts"], a.pushed, len(a.delivered)-1, len(a.asked))
	a.mu.Unlock()
	err := errors.Join(a.controller.Stop(ctx), a.reader.Stop(ctx))
	failIf(t, err != nil && !errors.Is(err, nats.ErrConnectionClosed), "%v", err)
	j := checkStreams(t, m)
	var settled int64
	for _, b := range j.Balances {
		settled += int64(b.Settled)
	}
	failIf(t, settled != int64(len(a.asked)+a.pushed)*int64(bcp.Bit) || len(j.Asks) != len(a.asked) || len(j.Pushes) != a.pushed,
		"charged %d for %d queries and %d pushes", settled, len(a.asked), a.pushed)
	t.Logf("%d queries, %d pushes, %d disconnects", len(a.asked), a.pushed, m.Count(meshtest.Of(bcp.KindDisconnect)))
}
