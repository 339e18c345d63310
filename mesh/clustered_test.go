package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// clustered is a cluster that enforces the claims of a mesh, and the operator's keys.
type clustered struct {
	*clustertest.Cluster
	store   *accounts.Store
	state   string // the operator's folder
	folder  string // of gateways' folders
	bundle  accounts.Bundle
	environ []string
}

// meshOf loads definitions, for a cluster of three.
func meshOf(t *testing.T, files map[string]string) *bcp.Mesh {
	t.Helper()
	folder := fstest.MapFS{"mesh.yaml": &fstest.MapFile{Data: []byte("replicas: 3\nmax_disk_mb: 256\n")}}
	for name, text := range files {
		if !strings.Contains(name, "/") {
			name = "agents/" + name
		}
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	def, report := definition.Load(folder)
	stopIf(t, def == nil, "%v", report.Errors)
	return def
}

// startCluster runs three servers with the claims that definitions need.
func startCluster(t *testing.T, def *bcp.Mesh, gateways ...bcp.AgentName) *clustered {
	t.Helper()
	state := filepath.Join(t.TempDir(), "keys")
	store := must(accounts.Create(state))
	c := &clustered{store: store, state: state, folder: t.TempDir()}
	logins := map[bcp.AgentName][]accounts.Creds{}
	for _, name := range gateways {
		core, system, err := store.Gateway(name)
		noError(t, err)
		logins[name] = []accounts.Creds{core, system}
	}
	c.bundle = must(accounts.CompileCluster(store, subjects.Permissions(def), time.Now()))
	for name, files := range logins {
		calls := must(store.Dispatchers(name, subjects.Permissions(def)))
		for dispatcher, creds := range calls {
			c.write(t, name, server.DispatcherCreds(dispatcher), creds.Text())
		}
		c.write(t, name, server.CoreCreds, files[0].Text())
		c.write(t, name, server.SystemCreds, files[1].Text())
		c.write(t, name, server.OperatorFile, []byte(c.bundle.Operator))
	}
	c.Cluster = clustertest.Start(t, clustertest.Config{Text: func(_ int, folder string) string {
		text, preload := fmt.Sprintf("operator: %q\n", filepath.Join(c.folder, string(gateways[0]), server.OperatorFile)), ""
		for _, a := range c.bundle.Accounts {
			if a.Name == accounts.System {
				text += "system_account: " + a.PublicKey + "\n"
			}
			preload += a.PublicKey + ": " + a.JWT + "\n"
		}
		return text + fmt.Sprintf("resolver: {type: full, dir: %q, allow_delete: false, interval: \"2m\"}\nresolver_preload: {\n%s}\n", filepath.Join(folder, "claims"), preload)
	}})
	return c
}

func (c *clustered) write(t *testing.T, gateway bcp.AgentName, name string, content []byte) {
	t.Helper()
	folder := filepath.Join(c.folder, string(gateway))
	noError(t, errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, name), content, 0o600)))
}

func (c *clustered) config(t *testing.T, def *bcp.Mesh, name string) mesh.GatewayConfig {
	return mesh.GatewayConfig{
		Cluster: server.ClusterConfig{URL: c.URL(), Creds: filepath.Join(c.folder, name), Name: name},
		Config: mesh.Config{
			Load: func() (*bcp.Mesh, error) { return def, nil }, Environ: c.environ,
			State: filepath.Join(t.TempDir(), name), Logger: hclog.New(&hclog.LoggerOptions{Name: name, Output: t.Output()}),
		},
	}
}

func (c *clustered) gateway(t *testing.T, def *bcp.Mesh, name string) *mesh.Gateway {
	t.Helper()
	g := must(mesh.StartGateway(t.Context(), c.config(t, def, name)))
	t.Cleanup(func() { c.stop(t, g) })
	return g
}

func (c *clustered) stop(t *testing.T, g *mesh.Gateway) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	noError(t, g.Stop(ctx))
}

// connect connects an agent to one of the nodes.
func (c *clustered) connect(t *testing.T, name bcp.AgentName, role bcp.Role, node int, options ...nats.Option) *agents.Connection {
	t.Helper()
	creds := must(c.store.Issue(name, role, time.Hour))
	conn, err := agents.Connect(t.Context(), c.NodeURL(node), agents.CredsText(creds.Text()), agents.Options{Name: name, NATS: options})
	noError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// patience is how long something on a cluster may take that takes seconds.
const patience = 2 * time.Minute

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		stopIf(t, time.Now().After(deadline), "it does not come to %s", what)
	}
}

// One gateway serves and the other stands by. When the first ends, the other goes on
// where it was: budgets, who is connected, what was pushed. What an agent may have of
// connections holds over all servers, what the operator did is recorded, and people are told
// what nobody took.
//
// covers P1.3, P4.3, P4.6, P11.1
func TestGatewaysTakeTurns(t *testing.T) {
	t.Parallel()
	files, _ := notified("  - {name: desk, webhook: env:DESK}\n")
	def := meshOf(t, files)
	def.Notify = meshtest.Parse(t, files).Notify
	c := startCluster(t, def, "one", "two")
	h := newHook(t)
	h.refuse, c.environ = true, []string{"DESK=" + h.URL}
	one := c.gateway(t, def, "one")
	until(t, "a gateway that serves", one.Active)
	two := c.gateway(t, def, "two")

	deliveries := make(chan bcp.Delivery, 16)
	controller := agents.NewController(c.connect(t, "main", bcp.RoleController, 0))
	controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		deliveries <- d
		return nil
	})
	noError(t, controller.Start(t.Context()))
	conn := c.connect(t, "mailer", bcp.RoleReader, 1)
	push := func(id bcp.ClientID) {
		t.Helper()
		ctx := within(t, patience)
		must(agents.NewReader(conn).Push(ctx, "main", "alerts", map[string]bool{"urgent": true}, agents.PushOptions{PushID: id}))
	}
	push("first")
	must(agents.NewReader(conn).Push(within(t, patience), "main", "digest", map[string]string{"summary": "nothing is new"}, agents.PushOptions{}))
	<-h.tries
	spent := func(g *mesh.Gateway) (sum bcp.Bits) {
		noError(t, g.Inspect(t.Context(), func(s *state.State) {
			for _, p := range s.Pools() {
				sum += p.Balance.Settled + p.Balance.Reserved
			}
		}))
		return sum
	}
	before := spent(one)
	if err := two.Inspect(t.Context(), func(*state.State) {}); !errors.Is(err, mesh.ErrStandby) || two.Active() {
		t.Errorf("both serve: %v", err)
	}

	c.stop(t, one)
	h.mu.Lock()
	h.refuse = false
	h.mu.Unlock()
	push("first") // the same, again
	push("second")
	until(t, "a gateway that took over", two.Active) // it answers a moment before it says so
	holds(t, !one.Active(), "both serve")
	h.next(t, map[string]bool{})
	seen := map[bcp.DeliveryID]bool{}
	until(t, "two deliveries", func() bool {
		select {
		case d := <-deliveries:
			seen[d.DeliveryID] = true
		default:
		}
		return len(seen) == 2
	})
	until(t, "one bit more spent, and both agents connected", func() bool {
		connected := two.Connected()
		return spent(two) == before+bcp.Bit && connected[bcp.RoleReader] == 1 && connected[bcp.RoleController] == 1
	})

	until(t, "how full the nodes are", func() bool {
		s := two.Storage()
		return s.DiskSize == clustertest.MaxStore && s.DiskFree > 0 && s.DiskFree < s.DiskSize && s.Journal > 0
	})

	operator := c.connect(t, bcp.Operator, bcp.RoleOperator, 0)
	applied, err := agents.NewOperator(operator).ApplyCredentials(t.Context())
	failIf(t, err != nil || !slices.ContainsFunc(applied.Connections, func(o status.ClientConnection) bool { return o.Agent == "mailer" }),
		"who is connected: %+v, %v", applied, err)

	kicked := c.connect(t, "mailer", bcp.RoleReader, 0, nats.NoReconnect()).NATS().StatusChanged(nats.CLOSED)
	third := c.connect(t, "mailer", bcp.RoleReader, 2, nats.NoReconnect())
	select {
	case <-kicked:
	case <-time.After(patience):
		t.Error("two connections of one agent to two servers stay")
	}
	third.Close()

	revoke := must(json.Marshal(bcp.CredentialRecords{Changes: []bcp.CredentialRecord{{
		Act: bcp.CredentialRevoked, Agent: "mailer", Key: "UABC", CredentialChange: bcp.CredentialChange{Number: 1, Time: time.Now().UnixNano()},
	}}}))
	reply, err := operator.NATS().Request(subjects.Control(bcp.ControlCredentials), revoke, patience)
	stopIf(t, err != nil || !strings.Contains(string(reply.Data), `"recorded":1`),
		"the operator's changes: %s, %v", reply.Data, err)
	var last bcp.Decision
	for d := range c.decisions(t, "two") {
		if d.Kind == bcp.KindCredential {
			last = d
		}
	}
	failIf(t, last.Target != "mailer" || last.Event != string(bcp.CredentialRevoked) || last.Key != "UABC",
		"the journal says %s %s %s", last.Event, last.Target, last.Key)
}

// A stock client on one node names what peers of its role on the others listen to as
// where its answers go: they hear nothing, and the journal counts it. Its own requests
// are answered, whichever node it is on.
//
// covers A-REPLYPEER, A-REPLY, P4.7
func TestRepliesOfPeersOnACluster(t *testing.T) {
	t.Parallel()
	files := pair(100)
	files["boss.md"] = agentFile("boss", "", controls("clerk", 100, alerts))
	files["clerk.md"] = agentFile("clerk", "", reads("boss"))
	def := meshOf(t, files)
	c := startCluster(t, def, "one")
	seat := c.gateway(t, def, "one")
	until(t, "a gateway that serves", seat.Active)

	stock := func(name bcp.AgentName, role bcp.Role, node int) *nats.Conn {
		t.Helper()
		creds := must(c.store.Issue(name, role, time.Hour))
		nc, err := nats.Connect(c.NodeURL(node), nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(name)), nats.Timeout(patience))
		noError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	stolen := map[string]bool{}
	var victims []*nats.Subscription
	victim := func(nc *nats.Conn, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			sub := must(nc.SubscribeSync(p))
			victims = append(victims, sub)
			stolen[strings.TrimSuffix(p, ">")+"stolen"] = true
		}
		noError(t, nc.Flush())
	}
	boss, clerk := stock("boss", bcp.RoleController, 1), stock("clerk", bcp.RoleReader, 2)
	victim(boss, subjects.InboxesOf("boss"), subjects.DeliveriesOf(bcp.RoleController, "boss"))
	victim(clerk, subjects.InboxesOf("clerk"), subjects.QueriesOf("clerk"), subjects.DeliveriesOf(bcp.RoleReader, "clerk"))

	main, mailer := stock("main", bcp.RoleController, 0), stock("mailer", bcp.RoleReader, 0)
	own := func(nc *nats.Conn, subject, text, want string) {
		t.Helper()
		until(t, "an answer of one's own", func() bool {
			m, err := nc.Request(subject, []byte(text), time.Second)
			return err == nil && strings.Contains(string(m.Data), want)
		})
	}
	const list = `{"type":"bcp_session","verb":"channels"}`
	push := subjects.Push("mailer", "main", "alerts")
	for range 2 { // before and after
		own(main, subjects.Session("main"), list, "channels")
		own(boss, subjects.Session("boss"), list, "channels")
		own(mailer, push, `{"type":"bcp_response"}`, "malformed")
		for reply := range stolen {
			for nc, subject := range map[*nats.Conn]string{main: subjects.Session("main"), mailer: push} {
				noError(t, nc.PublishRequest(subject, reply, []byte(list)))
			}
		}
	}
	until(t, "refusals that are counted", func() bool {
		counted := map[bcp.AgentName]int{}
		for d := range c.decisions(t, "one") {
			if d.Kind == bcp.KindRefusals {
				counted[d.Agent] += d.Count
			}
		}
		return counted["main"] >= len(stolen) && counted["mailer"] >= len(stolen)
	})
	own(clerk, subjects.Push("clerk", "boss", "alerts"), `{"type":"bcp_response"}`, "malformed") // behind all that was sent
	for _, sub := range victims {
		for {
			m, err := sub.NextMsg(10 * time.Millisecond)
			if err != nil {
				break
			}
			failIf(t, stolen[m.Subject], "a peer got %q on %s", m.Data, m.Subject)
		}
	}
}

// core connects with a gateway's creds.
func (c *clustered) core(t *testing.T, gateway string) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(c.URL(), nats.UserCredentials(filepath.Join(c.folder, gateway, server.CoreCreds)), nats.CustomInboxPrefix(subjects.GatewayInbox),
		nats.Timeout(patience))
	noError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// decisions reads the journal with a gateway's creds.
func (c *clustered) decisions(t *testing.T, gateway string) func(func(bcp.Decision) bool) {
	t.Helper()
	js := must(natsjs.New(c.core(t, gateway)))
	journal := must(jetstream.OpenJournal(t.Context(), js))
	var all []bcp.Decision
	noError(t, journal.Replay(t.Context(), func(record []byte) error {
		d, err := bcp.DecodeDecision(record)
		all = append(all, d)
		return err
	}))
	return slices.Values(all)
}

// hearsNewLeader checks that whoever waits for the journal is told of its new leader over the connection that waits,
// and needs none of those that the gateway stands by with, which end.
func hearsNewLeader(t *testing.T, c *clustered, seat *mesh.Gateway) {
	t.Helper()
	seat.Disconnect()
	core := c.core(t, "one")
	const rounds = 6 // of which the first may find the node that leads it already
	for n := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		asking, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- seat.Interrupter().Do(ctx, func(ctx context.Context) error {
				close(asking)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		<-asking
		c.Lead(t, core, jetstream.CommitStream, n%c.Size())
		err := <-ended
		cancel()
		if errors.Is(err, jetstream.ErrUnanswered) && strings.Contains(err.Error(), "a new leader") {
			return
		}
	}
	t.Error("nobody hears of a new leader")
}

// A gateway serves nothing that the cluster does not enforce, at a start and at a
// reload, and shares its folder with no other. An operator who asks for a reload as soon as it hears
// that, before the mesh knows that it has started, is answered like any other. In the end it hears
// of new leaders.
// covers P1.5, P4.5, P11.1, BCP-7, A-RECONN
func TestGatewayOnACluster(t *testing.T) {
	t.Parallel()
	files := pair(100)
	def := meshOf(t, files)
	c := startCluster(t, def, "one")
	files["clerk.md"] = agentFile("clerk", "", reads("main"))
	files["main.md"] = agentFile("main", "", controls("mailer", 100, alerts), controls("clerk", 10))
	more := meshOf(t, files)
	fewer := meshOf(t, map[string]string{"main.md": agentFile("main", "", controls("mailer", 100)), "mailer.md": agentFile("mailer", "", reads("main"))})
	for name, other := range map[string]*bcp.Mesh{"more": more, "fewer": fewer} {
		if g, err := mesh.StartGateway(t.Context(), c.config(t, other, "one")); !errors.Is(err, server.ErrClaims) {
			t.Errorf("%s: a gateway serves what the cluster does not enforce: %v", name, err)
			if err == nil {
				c.stop(t, g)
			}
		}
	}

	loaded := def
	config := c.config(t, def, "one")
	config.Load = func() (*bcp.Mesh, error) { return loaded, nil }
	conn := c.connect(t, bcp.Operator, bcp.RoleOperator, 0)
	var early string
	var asked sync.WaitGroup
	asked.Go(func() {
		err := nats.ErrNoResponders
		for deadline := time.Now().Add(patience); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(deadline); {
			var reply *nats.Msg
			if reply, err = conn.NATS().Request(subjects.Control(bcp.ControlReload), []byte("{}"), patience); err == nil {
				early = string(reply.Data)
			}
		}
	})
	g := must(mesh.StartGateway(t.Context(), config))
	defer c.stop(t, g)
	asked.Wait()
	failIf(t, early == "" || strings.Contains(early, "error"), "an early operator hears %q", early)
	until(t, "a gateway that serves", g.Active)
	if again, err := mesh.StartGateway(t.Context(), config); !errors.Is(err, server.ErrInUse) {
		t.Errorf("two gateways in one folder: %v", err)
		if err == nil {
			c.stop(t, again)
		}
	}
	loaded = more
	operator := agents.NewOperator(conn)
	result, err := operator.Reload(t.Context())
	failIf(t, err != nil || len(result.Errors) != 1 || !strings.Contains(result.Errors[0], server.ErrClaims.Error()),
		"definitions hold that the cluster does not enforce: %+v, %v", result, err)
	expect(t, len(g.Definition().Channels), 1, "a reload that was refused changed something")
	loaded = meshOf(t, pair(200))
	result, err = operator.Reload(t.Context())
	failIf(t, err != nil || len(result.Errors) > 0, "another budget: %+v, %v", result, err)
	until(t, "the new budget", func() bool { return g.Definition().Channels[0].Budget == 200*bcp.Bit })
	hearsNewLeader(t, c, g)
}
