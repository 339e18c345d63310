package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// sdk connects with the Go client, which comes back where it is disconnected.
func sdk(t *testing.T, m *meshtest.Mesh, name bcp.AgentName) *agents.Connection {
	t.Helper()
	c, err := agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, name, 0)), agents.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Each edit changes what both agents may do, so that the server disconnects them
// in the middle of what they say. Their clients come back and try again under the
// same ids: everything that they were told was accepted is charged and delivered
// once, and nothing else is.
//
// covers P1.5, P2.6, P4.5, P9.1, P9.5, A-RECONN
func TestReloadDisconnectsInTheMiddle(t *testing.T) {
	t.Parallel()
	definitions := []map[string]string{pair(1_000_000), pair(1_000_000)}
	definitions[1]["main.md"] = strings.Replace(definitions[1]["main.md"], "id: digest", "id: summary", 1)
	definitions[1]["main.md"] = strings.Replace(definitions[1]["main.md"], "bcp_channels:\n", "bcp_channels:\n  - {peer: clerk, role: controller, max_category: 1, budget_bits: 10}\n", 1)
	definitions[1]["clerk.md"] = agentFile("clerk", "", reads("main"))
	for _, files := range definitions {
		files["mesh.yaml"] = "max_refusals: 6000/m\n"
	}
	m := startEdited(t, definitions[0])
	ctx, cancel := context.WithTimeout(t.Context(), 2*meshtest.Patience)
	defer cancel()
	controller, reader := agents.NewController(sdk(t, m.Mesh, "main")), agents.NewReader(sdk(t, m.Mesh, "mailer"))
	var mu sync.Mutex
	delivered := map[string]int{}
	controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		delivered[string(d.QueryID)+string(d.SubscriptionID)]++
		return nil
	})
	reader.OnQuery(func(context.Context, agents.Query) (any, error) { return map[string]bool{"urgent": true}, nil })
	if err := errors.Join(controller.Start(ctx), reader.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	var end atomic.Bool
	var traffic sync.WaitGroup
	asked, pushed := map[bcp.QueryID]bool{}, 0
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}
	for i := range 2 {
		traffic.Go(func() {
			for n := 0; !end.Load(); n++ {
				accepted, err := controller.Ask(ctx, "mailer", spec, agents.AskOptions{RequestID: bcp.ClientID(fmt.Sprintf("r%d-%d", i, n))})
				if err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				mu.Lock()
				asked[accepted.QueryID] = true
				mu.Unlock()
			}
		})
		traffic.Go(func() {
			for n := 0; !end.Load(); n++ {
				_, err := reader.Push(ctx, "main", "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: bcp.ClientID(fmt.Sprintf("p%d-%d", i, n))})
				if err != nil {
					t.Errorf("push: %v", err)
					return
				}
				mu.Lock()
				pushed++
				mu.Unlock()
			}
		})
	}
	for i := range 6 { // more of them, and clients come back later and later
		if r := m.edit(t, definitions[(i+1)%2]); len(r.Errors) > 0 || r.Error != "" || len(r.Changes) == 0 {
			t.Errorf("%+v", r)
		}
		// Both are back before the next one.
		for _, name := range []bcp.AgentName{"main", "mailer"} {
			m.WaitCount(t, i+2, by(bcp.KindConnect, name))
		}
	}
	end.Store(true)
	traffic.Wait()
	m.WaitCount(t, len(asked)+pushed, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAcknowledge && d.Delivery != "" })
	mu.Lock()
	for id := range asked {
		if delivered[string(id)] != 1 {
			t.Errorf("%s came %d times", id, delivered[string(id)])
		}
	}
	if delivered["alerts"] != pushed || len(delivered) != len(asked)+1 {
		t.Errorf("%d of %d pushes, %d of %d queries", delivered["alerts"], pushed, len(delivered)-1, len(asked))
	}
	mu.Unlock()
	if n := m.Count(by(bcp.KindDisconnect, "mailer")); n < 6 {
		t.Errorf("the mailer was disconnected %d times", n)
	}
	if err := errors.Join(controller.Stop(ctx), reader.Stop(ctx)); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
	j := checkStreams(t, m.Mesh)
	var settled int64
	for _, b := range j.Balances {
		settled += b.Settled
	}
	if settled != int64(len(asked)+pushed)*int64(bcp.Bit) || len(j.Asks) != len(asked) || len(j.Pushes) != pushed {
		t.Errorf("charged %d for %d queries and %d pushes", settled, len(asked), pushed)
	}
	t.Logf("%d queries, %d pushes, %d disconnects", len(asked), pushed, m.Count(meshtest.Of(bcp.KindDisconnect)))
}
