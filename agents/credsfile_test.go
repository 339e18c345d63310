package agents_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Both agents' files are replaced twice while questions, answers and pushes go
// through: nothing is lost and nothing comes twice. What was replaced is revoked
// then, and nobody notices.
//
// covers A-REVOKED, A-RECONN, P9.2
func TestCredentialsAreSwappedUnderTraffic(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "state")
	m := must(startMesh(t.Context(), folder, ""))
	t.Cleanup(func() { _ = m.Stop(context.Background()) })
	store := must(accounts.Open(folder))
	files, held := map[bcp.AgentName]string{}, map[bcp.AgentName]accounts.Creds{}
	connect := func(name bcp.AgentName) *agents.Connection {
		files[name] = filepath.Join(t.TempDir(), string(name)+".creds")
		creds := must(store.Issue(name, 0, time.Hour))
		noError(t, creds.WriteFile(files[name]))
		held[name] = creds
		c := must(agents.Connect(t.Context(), m.URL(), agents.CredsFile(files[name]), agents.Options{Name: name}))
		t.Cleanup(c.Close)
		return c
	}
	r := agents.NewReader(connect(researcher))
	r.OnQuery(func(context.Context, agents.Query) (any, error) { return urgent, nil })
	noError(t, r.Start(t.Context()))
	controller := agents.NewController(connect(main))
	seen := map[bcp.DeliveryID]int{}
	deliveries := make(chan bcp.DeliveryID, 100_000)
	controller.OnDelivery(func(ctx context.Context, d bcp.Delivery) error {
		select {
		case deliveries <- d.DeliveryID:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	noError(t, controller.Start(t.Context()))
	pushed := 0
	pace := time.NewTicker(10 * time.Millisecond) // the budget is to last
	defer pace.Stop()
	exchange := func() {
		<-pace.C
		d, err := controller.AskAndWait(within(t), researcher, boolean, agents.AskOptions{})
		stopIf(t, err != nil || string(d.Response) != `{"urgent":true}`, "got %v, %v", d, err)
		result, err := r.Push(within(t), main, "mail", urgent, agents.PushOptions{})
		stopIf(t, err != nil || !result.Success, "got %v, %v", result, err)
		pushed++
	}
	key := func(name bcp.AgentName) (connected string) {
		noError(t, m.Inspect(within(t), func(*state.State) {}))
		for _, c := range m.Connections() {
			if c.Agent == name {
				connected = c.Key
			}
		}
		return connected
	}
	for range 2 {
		for name, file := range files {
			next := must(store.Issue(name, 0, time.Hour))
			noError(t, next.ReplaceFile(file))
			for end := time.Now().Add(patience); key(name) != next.PublicKey; exchange() {
				stopIf(t, time.Now().After(end), "%s does not go over to its new credentials", name)
			}
			noError(t, store.Revoke(held[name].PublicKey))
			held[name] = next
		}
	}
	exchange()
	for range pushed {
		seen[next(t, deliveries, "a push")]++
	}
	none(t, deliveries, "a delivery too many")
	failIf(t, len(seen) != pushed, "%d deliveries of %d pushes", len(seen), pushed)
}
