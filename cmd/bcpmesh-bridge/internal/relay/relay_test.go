package relay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/relay"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fields = `fields: [{name: n, type: integer, min: 0, max: 9999}]`

func site() map[string]string {
	return map[string]string{
		"gate.md":   "---\nname: gate\nbcp_channels:\n- {peer: sensor, role: controller, max_category: 1, budget_bits: 100000, subscriptions: [{id: readings, category: 1, " + fields + "}]}\n---\n",
		"sensor.md": "---\nname: sensor\nbcp_channels:\n- {peer: gate, role: reader}\n---\n",
	}
}

func head(budget int) map[string]string {
	return map[string]string{
		"main.md":  fmt.Sprintf("---\nname: main\nbcp_channels:\n- {peer: site7, role: controller, max_category: 1, budget_bits: %d, subscriptions: [{id: readings, category: 1, %s}]}\n---\n", budget, fields),
		"site7.md": "---\nname: site7\nbcp_channels:\n- {peer: main, role: reader}\n---\n",
	}
}

// link is the way to a mesh, at one address also when the mesh is at another, which can be
// cut.
type link struct {
	listener net.Listener

	mu    sync.Mutex
	to    string
	cut   bool
	deaf  bool
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

func newLink(t *testing.T, m *meshtest.Mesh) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	l := &link{listener: listener, conns: map[net.Conn]bool{}}
	l.lead(t, m)
	l.all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			l.carry(in)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
		l.all.Wait()
	})
	return l
}

func (l *link) url() string { return "nats://" + l.listener.Addr().String() }

// lead leads to a mesh from now on.
func (l *link) lead(t *testing.T, m *meshtest.Mesh) {
	t.Helper()
	u, err := url.Parse(m.URL())
	noError(t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = u.Host
}

// set cuts the link, or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

// deafen has what the mesh says get lost from now on, or no more; the mesh hears all.
func (l *link) deafen(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
}

// answers is the way of what a mesh says.
type answers struct {
	net.Conn
	link *link
}

func (a answers) Write(b []byte) (int, error) {
	a.link.mu.Lock()
	deaf := a.link.deaf
	a.link.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return a.Conn.Write(b)
}

func (l *link) carry(in net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = in.Close()
		return
	}
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = in.Close()
		return
	}
	l.conns[in], l.conns[out] = true, true
	for _, way := range [][2]net.Conn{{answers{in, l}, out}, {out, in}} {
		l.all.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // it ends when one of them is closed
			_, _ = way[0].Close(), way[1].Close()
		})
	}
}

// connect connects an agent of a relay over a link.
func (l *link) connect(t *testing.T, m *meshtest.Mesh, name bcp.AgentName, role bcp.Role) *agents.Connection {
	t.Helper()
	c, err := agents.Connect(t.Context(), l.url(), agents.CredsText(m.Creds(t, name, role)),
		agents.Options{Name: name, Logger: hclog.NewNullLogger(), MaxWait: 100 * time.Millisecond, NATS: []nats.Option{nats.RetryOnFailedConnect(true)}})
	noError(t, err)
	return c
}

// carrying runs a relay until stop. What it says is thrown away.
func carrying(t *testing.T, below, above *meshtest.Mesh, up, down *link, folder string, report func(context.Context) error) (stop func()) {
	t.Helper()
	reader, controller := up.connect(t, above, "site7", bcp.RoleReader), down.connect(t, below, "gate", bcp.RoleController)
	r, err := relay.New(relay.Config{Routes: []relay.Route{{Reader: "sensor", From: "readings", Controller: "main", To: "readings"}}, Folder: folder,
		Push: agents.NewReader(reader).Push, Connected: reader.NATS().IsConnected, Report: report, Logger: hclog.NewNullLogger()})
	noError(t, err)
	c := agents.NewController(controller)
	c.OnDelivery(r.Deliver)
	noError(t, c.Start(t.Context()))
	var once sync.Once
	stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // what is carried meanwhile is carried again
			_ = c.Stop(ctx)
			controller.Close()
			reader.Close()
		})
	}
	t.Cleanup(stop)
	return stop
}

// heard is what a Controller above is told, in its order; each is acknowledged.
type heard struct {
	mu  sync.Mutex
	got []string
	ids map[bcp.DeliveryID]bool
}

func hear(t *testing.T, m *meshtest.Mesh, h *heard) {
	t.Helper()
	c, err := agents.Connect(t.Context(), m.URL(), agents.CredsText(m.Creds(t, "main", bcp.RoleController)), agents.Options{Name: "main", Logger: hclog.NewNullLogger()})
	noError(t, err)
	t.Cleanup(c.Close)
	main := agents.NewController(c)
	main.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.ids[d.DeliveryID] {
			h.ids[d.DeliveryID] = true
			h.got = append(h.got, string(d.Response)+" "+d.Taint.String())
		}
		return nil
	})
	noError(t, main.Start(t.Context()))
	t.Cleanup(func() { _ = main.Stop(context.Background()) })
}

func (h *heard) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(meshtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		h.mu.Lock()
		count := len(h.got)
		h.mu.Unlock()
		if count >= n {
			return
		}
		stopIf(t, time.Now().After(deadline), "%d of %d deliveries came", count, n)
	}
}

// inOrder fails the test unless the readings from 0 came once and in their order, tainted
// as they were below.
func (h *heard) inOrder(t *testing.T, n int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	stopIf(t, len(h.got) != n, "%d came, want %d: %q", len(h.got), n, h.got)
	for i, got := range h.got {
		want := fmt.Sprintf(`{"n":%d} medium`, i)
		stopIf(t, got != want, "the delivery %d is %s", i, got)
	}
}

// spent counts the bits that the accepted pushes of a mesh were charged.
func spent(t *testing.T, m *meshtest.Mesh, n int) (bits bcp.Bits) {
	t.Helper()
	pushes := m.WaitCount(t, n, accepted)
	failIf(t, len(pushes) != n, "%d pushes are accepted, want %d", len(pushes), n)
	for _, d := range pushes {
		bits += d.Nominal
	}
	return bits
}

func accepted(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Verdict == bcp.Accept }

// Through cuts of the link in both directions, ends of the relay and restarts of both
// meshes, each reading of a site comes up once, in order and as tainted as it was; both
// ledgers have the same bits.
//
// covers P2.6, P8.2
func TestCarriesOnce(t *testing.T) {
	t.Parallel()
	below, above := meshtest.Start(t, site()), meshtest.Start(t, head(100_000))
	up, down := newLink(t, above), newLink(t, below)
	folder := t.TempDir()
	h := &heard{ids: map[bcp.DeliveryID]bool{}}
	hear(t, above, h)
	sensor := below.Connect(t, "sensor", bcp.RoleReader)
	stop := carrying(t, below, above, up, down, folder, nil)
	n := 0
	push := func(count int) {
		t.Helper()
		for range count {
			got := sensor.Push(t, "gate", "readings", fmt.Sprintf(`{"n":%d}`, n), "")
			stopIf(t, got.Text("status") != "delivered", "a push below: %s", got.JSON)
			n++
		}
	}
	push(10)
	h.await(t, 5)
	up.set(true)
	push(100) // more than are on their way at a time
	stop()
	stop = carrying(t, below, above, up, down, folder, nil) // while the mesh above is away
	push(10)
	up.set(false)
	h.await(t, 60)
	stop() // in the middle
	stop = carrying(t, below, above, up, down, folder, nil)
	for range 2 { // the relay ends without having heard what became of a push
		h.await(t, n)
		up.deafen(true)
		push(1)
		above.WaitCount(t, n, accepted)
		stop()
		up.deafen(false)
		stop = carrying(t, below, above, up, down, folder, nil)
	}
	for range 5 {
		push(5)
		up.set(false) // connections end, and come again
		down.set(false)
	}
	h.await(t, n)
	up.set(true)
	push(5)
	above.Restart(t)
	up.lead(t, above)
	hear(t, above, h)
	up.set(false)
	h.await(t, n)
	below.Restart(t)
	down.lead(t, below)
	down.set(false)
	sensor = below.Connect(t, "sensor", bcp.RoleReader)
	push(5)
	h.await(t, n)
	stop()
	h.inOrder(t, n)
	a, b := spent(t, below, n), spent(t, above, n)
	failIf(t, a != b || a == 0, "below %d were spent, and above %d", a, b)
}

// A budget above that is spent stops the channel at the reading that found no room: those
// behind it wait below, in order, and come when there is room again. Nothing is charged
// above meanwhile, and the mesh below goes on.
func TestBudgetAbove(t *testing.T) {
	t.Parallel()
	below, above := meshtest.Start(t, site()), meshtest.Start(t, head(60))
	up, down := newLink(t, above), newLink(t, below)
	h := &heard{ids: map[bcp.DeliveryID]bool{}}
	hear(t, above, h)
	sensor := below.Connect(t, "sensor", bcp.RoleReader)
	stop := carrying(t, below, above, up, down, t.TempDir(), nil)
	const n = 8
	for i := range n {
		got := sensor.Push(t, "gate", "readings", fmt.Sprintf(`{"n":%d}`, i), "")
		stopIf(t, got.Text("status") != "delivered", "a push below: %s", got.JSON)
	}
	refused := func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Code == bcp.BudgetExhausted }
	above.WaitCount(t, 2, refused) // an attempt has an id of its own
	room := above.Count(accepted)
	h.await(t, room)
	h.inOrder(t, room)
	stopIf(t, room == 0 || room >= n, "%d of %d found room", room, n)
	above.Definition = meshtest.Parse(t, head(100_000))
	above.Restart(t)
	up.lead(t, above)
	hear(t, above, h)
	up.set(false)
	h.await(t, n)
	stop()
	h.inOrder(t, n)
	a, b := spent(t, below, n), spent(t, above, n)
	failIf(t, a != b, "below %d were spent, and above %d", a, b)
}

// Above, an agent with a lower base_taint says what is as tainted as it was below, since
// its Controller reports.
//
// covers P8.1, P8.2
func TestReportAbove(t *testing.T) {
	t.Parallel()
	files := head(100_000)
	files["site7.md"] = "---\nname: site7\nbase_taint: low\nbcp_channels:\n- {peer: main, role: reader}\n- {peer: clerk, role: controller, max_category: 1, budget_bits: 10}\n---\n"
	files["clerk.md"] = "---\nname: clerk\nbcp_channels:\n- {peer: site7, role: reader}\n---\n"
	below, above := meshtest.Start(t, site()), meshtest.Start(t, files)
	up, down := newLink(t, above), newLink(t, below)
	h := &heard{ids: map[bcp.DeliveryID]bool{}}
	hear(t, above, h)
	sensor := below.Connect(t, "sensor", bcp.RoleReader)
	side := up.connect(t, above, "site7", bcp.RoleController)
	t.Cleanup(side.Close)
	stop := carrying(t, below, above, up, down, t.TempDir(), func(ctx context.Context) error {
		return agents.NewController(side).ReportTaint(ctx, bcp.SourceAgent)
	})
	got := sensor.Push(t, "gate", "readings", `{"n":0}`, "")
	stopIf(t, got.Text("status") != "delivered", "a push below: %s", got.JSON)
	h.await(t, 1)
	stop()
	h.inOrder(t, 1)
}

// The longest answer of the longest spec comes up, and so does each kind of answer, as it
// was delivered. What the spec above has no room for waits, and those behind it, until it
// has; what there is no room for below never was a delivery.
//
// covers P2.2
func TestLongestAnswer(t *testing.T) {
	t.Parallel()
	files := func(controller, reader string, words int) map[string]string {
		return map[string]string{
			controller + ".md": fmt.Sprintf("---\nname: %s\nbcp_channels:\n- {peer: %s, role: controller, max_category: 2, budget_bits: 10000000, subscriptions: [{id: readings, category: 2, questions: [%s, %s, %s]}]}\n---\n",
				controller, reader, `{id: on, question: "?", expected_format: date, max_words: 1}`, `{id: from, question: "?", expected_format: email, max_words: 1}`,
				fmt.Sprintf(`{id: text, question: "?", expected_format: short_text, max_words: %d}`, words)),
			reader + ".md": fmt.Sprintf("---\nname: %s\nbcp_channels:\n- {peer: %s, role: reader}\n---\n", reader, controller),
		}
	}
	const most = bcp.MaxSpecWords - 2
	below, above := meshtest.Start(t, files("gate", "sensor", most)), meshtest.Start(t, files("main", "site7", most-1))
	up, down := newLink(t, above), newLink(t, below)
	h := &heard{ids: map[bcp.DeliveryID]bool{}}
	hear(t, above, h)
	sensor := below.Connect(t, "sensor", bcp.RoleReader)
	stop := carrying(t, below, above, up, down, t.TempDir(), nil)
	said := func(words int) string {
		text := strings.TrimSuffix(strings.Repeat(strings.Repeat("キ", 24)+" ", words), " ")
		return fmt.Sprintf(`{"on":"2026-11-26","from":"kim@example.org","text":"%s"}`, text)
	}
	got := sensor.Push(t, "gate", "readings", said(most-1), "")
	stopIf(t, got.Text("status") != "delivered", "a push below: %s", got.JSON)
	want := []string{said(most-1) + " medium"}
	h.await(t, 1)
	for _, c := range []struct {
		words  int
		status string
	}{{most + 1, "refused"}, {most, "delivered"}, {1, "delivered"}} {
		got := sensor.Push(t, "gate", "readings", said(c.words), "")
		stopIf(t, got.Text("status") != c.status, "a push of %d words below: %s", c.words, got.JSON)
		if c.status == "delivered" {
			want = append(want, said(c.words)+" medium")
		}
	}
	above.WaitCount(t, 2, func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Code == bcp.ValidationFailed })
	h.await(t, 1)
	above.Definition = meshtest.Parse(t, files("main", "site7", most))
	above.Restart(t)
	up.lead(t, above)
	hear(t, above, h)
	up.set(false)
	h.await(t, 3)
	stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.got, want) {
		t.Errorf("%d came, not all as they were said", len(h.got))
		for _, got := range h.got {
			t.Logf("%.200s", got)
		}
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
