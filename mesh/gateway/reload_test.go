package gateway_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Definitions that the journal does not have hold for nobody: a reload whose
// record is not acknowledged, or that fails before, leaves those of before, and
// the gateway goes on. One that is recorded reads nothing: the state goes on under
// the definitions to come, and a start makes the same of the journal.
//
// covers P1.5, P11.1, P4.5
func TestReloadWithoutRecord(t *testing.T) {
	t.Parallel()
	var reloading atomic.Bool
	b, g, main, mailer := served(t, func(c *gateway.Config) {
		connect := c.Connect
		c.Connect = func() (*nats.Conn, error) {
			failIf(t, reloading.Load(), "it opens the journal once more")
			return connect()
		}
	})
	next := state.Config{Constraints: constraint.Compile, Version: "test", Definitions: bcp.Digest{1}, Mesh: meshtest.Parse(t, map[string]string{
		"main.md": strings.Replace(mainFile, "{id: alerts,", "{id: alarms,", 1), "mailer.md": mailerFile,
	})}
	switched := 0
	reload := func(ctx context.Context, result error) error {
		ctx, cancel := context.WithTimeout(ctx, meshtest.Patience)
		defer cancel()
		return g.Reload(ctx, next, []string{"- something"}, func() error { switched++; return result })
	}
	push := func(client string) (r meshtest.Message) {
		t.Helper()
		eventually(t, "an answer", func() bool {
			r = mailer.Request(t, pushAlert, alert(`,"push_id":"`+client+`"`))
			return r.Text("code") != "unavailable"
		})
		return r
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reload(ended, nil); !errors.Is(err, context.Canceled) || switched > 0 {
		t.Errorf("%v, switched over %d times", err, switched)
	}
	refused := errors.New("the server does not like it")
	if err := reload(t.Context(), refused); !errors.Is(err, refused) {
		t.Error(err)
	}
	// One that has begun is waited for.
	begun, cancel := context.WithCancel(t.Context())
	if err := g.Reload(begun, next, nil, func() error { cancel(); return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	succeeded(t, push("p1"))
	b.full(t, jetstream.CommitStream, true)
	err := reload(t.Context(), nil)
	failIf(t, !errors.Is(err, jetstream.ErrUncertain) || switched != 2, "%v, switched over %d times", err, switched)
	b.full(t, jetstream.CommitStream, false)
	succeeded(t, push("p2"))
	main.Accepted(t, "mailer", askUrgent)
	reloading.Store(true)
	noError(t, reload(t.Context(), nil))
	reloading.Store(false)
	succeeded(t, push("p2")) // it knows the first
	// SUB-113: what was there is not, while the server has not heard of it.
	if r := push("p3"); r.Text("code") != "subscription_not_found" || r.Text("detail") != "No active subscription 'alerts' from controller 'main'" {
		t.Errorf("result %s", r.JSON)
	}
	main.Accepted(t, "mailer", askUrgent)
	noError(t, g.Stop())
	j := b.journal(t)
	failIf(t, j.Kinds[bcp.KindReload] != 1 || len(j.Pushes) != 2, "%+v", j)
}
