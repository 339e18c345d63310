package mesh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A kernel runs on a cluster as on a mesh of one server, with its planner, its tools and
// its Reader at different servers. A gateway that takes over in the middle of a run goes on
// with it, and the tool is called once. What they call tools with can do nothing else.
//
// covers KER-1, KER-2, KER-14
func TestKernelOnACluster(t *testing.T) {
	t.Parallel()
	def := meshOf(t, kernelMesh())
	c := startCluster(t, def, "one", "two")
	dispatchersMayOnlyCall(t, c, def)
	one := c.gateway(t, def, "one")
	until(t, "a gateway that serves", one.Active)
	two := c.gateway(t, def, "two")

	const slow = "Tell kim slowly whether the writer is angry."
	asked, taken := make(chan struct{}, 16), make(chan struct{})
	node := 0
	sent := kernelSeatsBy(t, func(r agents.PlanRequest) string {
		if r.Task == slow {
			asked <- struct{}{}
			<-taken
		}
		return moodPlan
	}, func(name bcp.AgentName, role bcp.Role) *agents.Connection {
		node++
		return c.connect(t, name, role, node%c.Size())
	})
	requester := c.connect(t, "main", bcp.RoleController, 0)
	task := func(text string) {
		t.Helper()
		_, end := runTaskBy(t, requester, agents.RunTask{Task: text, NewSession: true})
		failIf(t, end.Status != "committed", "the run ended as %+v", end)
		if got := <-sent; got != `{"angry":true,"to":"kim@example.org"}` || len(sent) > 0 {
			t.Errorf("the tool was called with %s, and %d times more", got, len(sent))
		}
	}
	task("Tell kim whether the writer is angry.")

	go func() {
		defer close(taken)
		<-asked
		stop, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := one.Stop(stop)
		failIf(t, err != nil, "%v", err)
	}()
	task(slow)
	holds(t, two.Active(), "nobody has taken over")

	// What a gateway calls tools with is refused with it.
	noError(t, c.store.RevokeGateway("one"))
	next := must(accounts.CompileCluster(c.store, subjects.Permissions(def), time.Now()))
	account, _ := next.Account(accounts.Dispatchers)
	claims := must(jwt.DecodeAccountClaims(account.JWT))
	expect(t, len(claims.Revocations), 2, "logins of dispatchers are refused, and the gateway has two")
}

// dispatchersMayOnlyCall looks at what a gateway of a cluster, which does not run yet, calls tools with: that can call the
// one tool, as any gateway's. A gateway without it does not serve.
func dispatchersMayOnlyCall(t *testing.T, c *clustered, def *bcp.Mesh) {
	t.Helper()
	creds := func(gateway, tool string) string {
		return filepath.Join(c.folder, gateway, server.DispatcherCreds(subjects.Dispatcher("desk", "mail", tool)))
	}
	caller := must(nats.Connect(c.URL(), nats.UserCredentials(creds("one", "look")), nats.CustomInboxPrefix(subjects.GatewayInbox), nats.Timeout(patience)))
	defer caller.Close()
	refused := make(chan error, 8)
	caller.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })
	for _, subject := range []string{subjects.Call("mail", "send", "desk"), subjects.Commit(), subjects.Plan("ann", "desk")} {
		noError(t, errors.Join(caller.Publish(subject, nil), caller.FlushTimeout(patience)))
		fails(t, <-refused, nats.ErrPermissionViolation, "%s", subject)
	}
	err := errors.Join(caller.Publish(subjects.Call("mail", "look", "desk"), nil), caller.FlushTimeout(patience))
	failIf(t, err != nil || len(refused) > 0, "its own call is refused: %v, %d refusals", err, len(refused))

	away := filepath.Join(t.TempDir(), "away")
	noError(t, os.Rename(creds("two", "send"), away))
	fails(t, errorOf(mesh.StartGateway(t.Context(), c.config(t, def, "two"))), server.ErrCreds,
		"a gateway that cannot call a tool")
	noError(t, os.Rename(away, creds("two", "send")))
}
