package gateway_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Before a day begins its sealing keys are made for whoever spoke on the day before, also
// after a restart: the first message of the day needs no key that is not there.
//
// covers P4.5, P11.5
func TestTomorrowsKeysAreMadeAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var clock atomic.Int64
	clocked := func(c *gateway.Config) { c.Now = func() time.Time { return time.Unix(0, clock.Load()) } }
	late := time.Date(2026, 3, 10, 23, 30, 0, 0, time.UTC)

	clock.Store(late.Add(-2 * time.Hour).UnixNano())
	g := b.start(t, clocked)
	mailer := b.agent(t, "mailer")
	g.wait(t, 1, of(bcp.KindConnect))
	push := func() {
		t.Helper()
		if r := mailer.Request(t, pushAlert, alert("")); r.Fields["success"] != true {
			t.Fatal(r.JSON)
		}
	}
	push()
	today := len(meshtest.ReadKeys(t, b.js))
	noError(t, g.Stop())

	clock.Store(late.UnixNano())
	b.start(t, clocked)
	for deadline := time.Now().Add(meshtest.Patience); len(meshtest.ReadKeys(t, b.js)) < 2*today; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys, and %d the day before", len(meshtest.ReadKeys(t, b.js)), today)
		}
	}
	b.full(t, jetstream.KeyStream, true)
	clock.Store(late.Add(time.Hour).UnixNano())
	push()
}
