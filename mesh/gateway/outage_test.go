package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// However much the server tells while nothing can be recorded, it is recorded then, and
// whoever waits for a call behind it gets it.
//
// covers P11.1, P4.7, P1.5
func TestNothingIsLostInALongOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := b.start(t)
	main := b.agent(t, "main")
	g.wait(t, 1, of(bcp.KindConnect))
	b.full(t, jetstream.CommitStream, true)
	g.Denied("mailer", bcp.RoleReader, "publish", "a", 1)
	time.Sleep(1100 * time.Millisecond) // then it is due: recording it fails, too
	coded(t, main.Ask(t, "mailer", askUrgent), "unavailable")
	const kept, lane, told = 4096, 256, 8192
	var telling atomic.Int32
	reloaded := make(chan error, 1)
	go func() {
		for range told {
			telling.Add(1)
			g.Denied("mailer", bcp.RoleReader, "publish", "a", 1)
		}
		next := state.Config{Mesh: b.definition, Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{1}}
		ctx, cancel := context.WithTimeout(context.Background(), meshtest.Patience)
		defer cancel()
		reloaded <- g.Reload(ctx, next, nil, func() error { return nil })
	}()
	eventually(t, "all are told", func() bool { return telling.Load() > kept+lane })
	b.full(t, jetstream.CommitStream, false)
	select {
	case err := <-reloaded:
		noError(t, err)
	case <-time.After(2 * meshtest.Patience):
		t.Error("the reload waits for ever")
	}
	// What comes behind all others tells that they are recorded.
	g.Denied("mailer", bcp.RoleReader, "subscribe", "b", 1)
	g.wait(t, 1, func(d *bcp.Decision) bool { return d.Kind == bcp.KindViolation && d.Event == "subscribe" })
	main.Accepted(t, "mailer", askUrgent)
	g.mu.Lock()
	defer g.mu.Unlock()
	recorded := 0
	for _, d := range g.decisions {
		if d.Kind == bcp.KindViolation && d.Event == "publish" {
			recorded += d.Count
		}
	}
	expect(t, recorded, 1+told, "violations are recorded")
}
