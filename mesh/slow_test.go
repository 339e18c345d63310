package mesh_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// gate is a dialer whose connections stop reading when it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil while open
}

type gatedConn struct {
	net.Conn
	gate *gate
}

func (g *gate) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return gatedConn{conn, g}, err
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if shut {
		g.shut = make(chan struct{})
		return
	}
	close(g.shut)
	g.shut = nil
}

func (c gatedConn) Read(b []byte) (int, error) {
	c.gate.mu.Lock()
	shut := c.gate.shut
	c.gate.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return c.Conn.Read(b)
}

// A Reader that stops reading is disconnected before it fills the memory; a
// channel beside it goes on, and its own queries wait for it.
//
// covers A-SLOW
func TestSlowReader(t *testing.T) {
	t.Parallel()
	files := pair(1_000_000)
	files["boss.md"] = agentFile("boss", "", controls("clerk", 1000))
	files["clerk.md"] = agentFile("clerk", "", reads("boss"))
	m := meshtest.Start(t, files)
	main, boss := controller(t, m, "main"), controller(t, m, "boss")
	clerk := reader(t, m, "clerk")
	dialer := &gate{}
	reader(t, m, "mailer", nats.SetCustomDialer(dialer))
	dialer.set(true)

	var questions []string
	for i := range 15 {
		questions = append(questions, fmt.Sprintf(`{"id":"q%d","question":%q,"max_words":1,"expected_format":"short_text"}`, i, strings.Repeat("w", 4000)))
	}
	large := `{"category":2,"questions":[` + strings.Join(questions, ",") + `]}`
	gone := func(d *bcp.Decision) bool { return d.Kind == bcp.KindDisconnect && d.Agent == "mailer" }
	asked := 0
	for ; asked < 2000 && m.Count(gone) == 0; asked++ {
		main.Accepted(t, "mailer", large)
		if asked%50 > 0 {
			continue
		}
		id := boss.Accepted(t, "clerk", askUrgent)
		clerk.Answer(t, clerk.queries.Next(t), isUrgent)
		carries(t, boss.delivery(t), "query_id", string(id), "delivery")
	}
	dialer.set(false)
	m.Wait(t, gone)
	bytes := asked * len(large)
	failIf(t, bytes > 64<<20, "%d bytes were held for it", bytes)
	// It returns, reads, and gets every query. There are more of them than the server keeps for a client, so that on a busy
	// machine it may be too slow once more.
	for got := map[string]bool{}; len(got) < asked; {
		again := m.Connect(t, "mailer", bcp.RoleReader)
		messages, closed := make(chan *nats.Msg, 1<<16), again.StatusChanged(nats.CLOSED)
		must(again.ChanSubscribe(subjects.QueriesOf("mailer"), messages))
		for open := true; open && len(got) < asked; {
			select {
			case msg := <-messages:
				var query struct {
					ID string `json:"query_id"`
				}
				noError(t, json.Unmarshal(msg.Data, &query))
				got[query.ID] = true
			case <-closed:
				open = false
			case <-time.After(meshtest.Patience):
				t.Fatalf("it gets %d of %d queries", len(got), asked)
			}
		}
	}
}
