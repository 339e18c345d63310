package mesh_test

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// breakAsks has the next ask that is accepted panic when it has changed half of the state:
// it is charged, and cannot be noted.
func breakAsks(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	err := m.Mesh.Inspect(t.Context(), func(s *state.State) {
		queries := reflect.ValueOf(s).Elem().FieldByName("queries")
		*(*map[bcp.QueryID]struct{})(unsafe.Pointer(queries.UnsafeAddr())) = nil //nolint:gosec // a nil map of any type
	})
	noError(t, err)
}

// A message over which the gateway panics is refused, and again when it is repeated, until the
// gateway ends. Nothing of it is charged, others go on, people hear of it, and it can be read
// where it is sealed.
//
// covers A-CRASH, P2.5, P4.3, P4.5, P4.6, P11.4
func TestQuarantine(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100))
	main, mailer := connect(t, m)
	alerts := m.Connect(t, bcp.Operator, bcp.RoleOperator).Listen(t, subjects.Alerts())
	main.Accepted(t, "mailer", askUrgent)
	breakAsks(t, m)

	const canary = "kanarienvogel"
	poison := `{"request_id":"` + canary + `","category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	ask := func() string {
		t.Helper()
		return main.Ask(t, "mailer", poison).Text("error")
	}
	code := ask()
	stopIf(t, code != string(bcp.Internal), "the ask that panics: %s", code)
	succeeded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, `,"push_id":"p1"`), "a push")
	if alert := alerts.NextOf(t, meshtest.With("alert", bcp.AlertPanic)); alert.Text("agent") != "main" || alert.Text("reader") != "mailer" || strings.Contains(alert.JSON, canary) {
		t.Errorf("people hear %s", alert.JSON)
	}
	expect(t, ask(), string(bcp.Internal), "the same again")
	main.Accepted(t, "mailer", askUrgent)
	m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindAlert && d.Event == string(bcp.AlertPanic) })
	counts(t, m, 1, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertPanic) })
	if log := m.Log(); strings.Contains(log, canary) || !strings.Contains(log, "state.(*State).applyAsk") {
		t.Error("the log has no stack, or what was said")
	}

	booksAgree(t, m)
	m.Restart(t) // with a gateway that does not panic over it
	main, _ = connect(t, m)
	coded(t, main.Ask(t, "mailer", poison), "", "once it is let out")
	m.Stop(t)

	js, end := m.Streams(t)
	defer end()
	sealed := ""
	eachDecision(t, js, func(d *bcp.Decision, raw []byte, err error) {
		if d.Event == string(bcp.AlertPanic) {
			noError(t, err)
			sealed = string(raw)
		}
	})
	expect(t, sealed, poison, "sealed is")
}

// Whoever sent a message over which the gateway panicked is not read for a while, each time
// longer, and everybody else is.
//
// covers A-CRASH, A-SLOW
func TestQuarantineHoldsItsSender(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64 // 0: it goes
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", "max_refusals: 1000/m\n"), func(c *mesh.Config) {
		c.Now = func() time.Time {
			if stands := clock.Load(); stands != 0 {
				return time.Unix(0, stands)
			}
			return time.Now()
		}
	})
	main, mailer := connect(t, m)
	clock.Store(time.Now().UnixNano())
	asked := func(d *bcp.Decision) bool { return d.Kind == bcp.KindAsk && d.Verdict == bcp.Accept }
	for n, held := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		breakAsks(t, m)
		code := main.Ask(t, "mailer", withID(askUrgent, "request_id", fmt.Sprint("poison", n))).Text("error")
		stopIf(t, code != string(bcp.Internal), "the ask that panics: %s", code)
		noError(t, main.Conn.Publish(subjects.Ask("main", "mailer"), main.Encode(askUrgent)))
		for _, passed := range []time.Duration{held - 1, 1} {
			for range 3 {
				succeeded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""), "a push")
			}
			expect(t, m.Count(asked), n, "asks are accepted while their sender is held for the %dth time", n+1)
			clock.Add(int64(passed))
		}
		m.WaitCount(t, n+1, asked)
	}
}
