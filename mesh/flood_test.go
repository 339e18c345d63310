package mesh_test

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// beside is a second pair, boss and clerk, next to main and mailer, who may
// have many connections.
func beside() map[string]string {
	files := pair(1_000_000)
	files["mailer.md"] = agentFile("mailer", "max_connections: 64\n", reads("main"))
	files["boss.md"] = agentFile("boss", "", controls("clerk", 1_000_000, alerts))
	files["clerk.md"] = agentFile("clerk", "", reads("boss"))
	// The gateway has sixteen connections for all, in turns, in the order of the names:
	// clerk and mailer share one.
	main := make([]string, 0, 14)
	for i := range 14 {
		name := fmt.Sprintf("filler%02d", i)
		files[name+".md"] = agentFile(name, "", reads("main"))
		main = append(main, controls(name, 100, alerts))
	}
	files["main.md"] = agentFile("main", "", append(main, controls("mailer", 1_000_000, alerts))...)
	return files
}

func by(kind bcp.DecisionKind, agent bcp.AgentName) func(*bcp.Decision) bool {
	return func(d *bcp.Decision) bool { return d.Kind == kind && d.Agent == agent }
}

// deaf is a dialer whose client does not hear of the limit of its messages and
// sends larger ones.
type deaf struct{ limit int }

type deafConn struct {
	net.Conn
	limit int
}

func (d deaf) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return deafConn{conn, d.limit}, err
}

func (c deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	limit := strconv.Itoa(c.limit)
	told := []byte(`"max_payload":` + limit)
	copy(b, bytes.ReplaceAll(b[:n], told, []byte(`"max_payload":`+strings.Repeat("9", len(limit)))))
	return n, err
}

// covers A-FLOODRESP, P4.7
func TestFlooderIsDisconnected(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, beside())
	reader(t, m, "clerk")
	kicked := make(chan bool, 1)
	mailer := m.Connect(t, "mailer", bcp.RoleReader, nats.ClosedHandler(func(*nats.Conn) { kicked <- true }))
	for closed := false; !closed; {
		for range 20 {
			_ = mailer.Publish(pushAlert, []byte(`{}`))
		}
		select {
		case closed = <-kicked:
		case <-time.After(time.Millisecond):
		}
	}
	m.Wait(t, func(d *bcp.Decision) bool {
		return by(bcp.KindRefusals, "mailer")(d) && d.Role == bcp.RoleReader && d.Count >= 1000
	})
	m.Wait(t, by(bcp.KindDisconnect, "mailer"))
	counts(t, m, 1, meshtest.Of(bcp.KindDisconnect))
	reader(t, m, "mailer")
}

// covers P1.3, P2.2, A-FLOODRESP
func TestLargestMessageOfAReader(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	body := bytes.Repeat([]byte(" "), m.Definition.MaxAnswerBytes()+1)
	coded(t, mailer.Request(t, pushAlert, string(body[1:])), "message_too_large", "at the limit")
	fails(t, mailer.Publish(pushAlert, body), nats.ErrMaxPayload, "past the limit")
	closed := make(chan bool, 1)
	mailer = m.Connect(t, "mailer", bcp.RoleReader, nats.SetCustomDialer(deaf{len(body) - 1}), nats.ClosedHandler(func(*nats.Conn) { closed <- true }))
	noError(t, mailer.Publish(pushAlert, body))
	select {
	case <-closed:
	case <-time.After(meshtest.Patience):
		t.Error("it goes on past the limit")
	}
	m.Settle(t)
	counts(t, m, 1, meshtest.Of(bcp.KindPush))
}

// covers P1.3, A-RECONN
func TestNewestConnectionsWin(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	for _, tt := range []struct {
		name  bcp.AgentName
		role  bcp.Role
		limit int
	}{{"mailer", bcp.RoleReader, 2}, {"main", bcp.RoleController, 2}, {"operator", bcp.RoleApprover, 8}} {
		var open []*meshtest.Agent
		closed := make(chan int, 100)
		for i := range tt.limit + 2 {
			open = append(open, m.Connect(t, tt.name, tt.role, nats.ClosedHandler(func(*nats.Conn) { closed <- i })))
			m.WaitCount(t, i+1, by(bcp.KindConnect, tt.name))
			if i < tt.limit {
				continue
			}
			n := bcptest.Next(t, closed, "%s: one of %d connections is closed", tt.name, i+1)
			expect(t, n, i-tt.limit, "%s: which connection was closed for %d", tt.name, i)
		}
		for i, a := range open[2:] {
			expect(t, a.FlushTimeout(meshtest.Patience), nil, "%s: connection %d", tt.name, i+2)
		}
		if len(closed) > 0 {
			t.Errorf("%s: connection %d was closed too", tt.name, <-closed)
		}
	}
}
