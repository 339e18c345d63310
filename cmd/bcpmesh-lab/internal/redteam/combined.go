package redteam

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func combinations() []Attack {
	return []Attack{
		{ID: "A-COLLUDE", Class: ClassCombined, Text: "two Readers deliver half of a text each", Property: "each half is charged, and a total budget ends both", files: withTotal(sample(100), 100), Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			arrived := 0
			for _, reader := range []bcp.AgentName{mailer, packer, mailer, packer} {
				receipt := controller.Request(askSubject(reader), askNote)
				id := receipt.Text("query_id")
				if id == "" {
					continue
				}
				s := r.Client(reader, bcp.RoleReader)
				s.Answer(s.Query(id), `"response":{"note":"half of it all"}`)
				controller.Delivery(id)
				arrived++
			}
			if arrived > 2 {
				r.Broken("%d answers of 44 bits arrived of a total of 100", arrived)
			}
		}},
		{ID: "A-SIGNAL", Class: ClassCombined, Text: "one Reader signals another by using up a shared budget", Property: "one's pushes do not depend on the other's", files: withTotal(sample(100, "push_budget_bits: 8"), 100), Run: func(r *Rig) {
			r.Client(main, bcp.RoleController)
			alone := r.pushes(r.Client(packer, bcp.RoleReader), 1)
			r.pushes(r.Client(mailer, bcp.RoleReader), 60)
			if after := r.pushes(r.Client(packer, bcp.RoleReader), 1); after != alone {
				r.Broken("a push of one Reader is delivered %d times, and %d times after another's", alone, after)
			}
		}},
		{ID: "A-TWOSEATS", Class: ClassCombined, Text: "connects twice with the same creds to answer and listen apart", Property: "the newest connection counts, and a query is answered once", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			creds := r.Creds(mailer, bcp.RoleReader)
			var clients []*Client
			for range 3 {
				if s, err := r.Connect(mailer, bcp.RoleReader, creds); err == nil {
					clients = append(clients, s)
				}
			}
			if len(clients) == 0 {
				r.abandon("nobody is connected")
			}
			id := controller.Ask(mailer, askFour)
			last := clients[len(clients)-1]
			query := last.Query(id)
			atOnce(len(clients), func(i int) bool {
				return clients[i].conn.Publish(query.Reply, fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":{"a":true,"b":%d,"c":"pay","d":false}}`, id, i)) == nil
			})
			if _, ok := controller.await(func(m Message) bool { return m.Text("query_id") == id && m.Text("delivery_id") != "" }, 5*time.Second); !ok {
				last.Answer(last.Query(id), `"response":{"a":true,"b":9,"c":"pay","d":false}`)
				controller.Delivery(id)
			}
			r.Settle()
			controller.deliveredOnce(id)
		}},
		{ID: "A-ROLES", Class: ClassCombined, Text: "uses one role's creds for the other role", Property: "a Reader asks nothing and a Controller answers nothing", Run: func(r *Rig) {
			r.Client(mailer, bcp.RoleReader).publishes(subjects.Ask(mailer, main), subjects.Ask(mailer, clerk), subjects.Session(mailer))
			r.Client(main, bcp.RoleController).publishes(subjects.Push(main, mailer, "alerts"), subjects.Reply(bcp.RoleReader, mailer, "q1", 0))
			r.Client(main, bcp.RoleController).subscribes(subjects.QueriesOf(main))
		}},
		{ID: "A-EXPIRED", Class: ClassCombined, Text: "uses creds after their end", Property: "the server refuses to connect, and ends open connections", Run: func(r *Rig) {
			creds, err := r.Mesh().Issue(mailer, bcp.RoleReader, 2*time.Second)
			if err != nil {
				r.abandon("creds: %v", err)
			}
			s, err := r.Connect(mailer, bcp.RoleReader, creds.Text())
			if err != nil {
				r.abandon("creds of two seconds: %v", err)
			}
			for until := time.Now().Add(patience); s.conn.IsConnected(); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(until) {
					r.Broken("a connection outlives its creds by %s", patience)
					break
				}
			}
			// Creds end with a second: this one is over by then.
			time.Sleep(1100 * time.Millisecond)
			if again, err := nats.Connect(r.Mesh().URL(), nats.UserCredentialBytes(creds.Text()), nats.NoReconnect(), nats.Timeout(patience)); err == nil {
				again.Close()
				r.Broken("ended creds connect")
			}
		}},
		{ID: "A-FLOODRESP", Class: ClassCombined, Text: "floods answers and pushes from several connections while another channel works", Property: "the other channel is served", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			var all sync.WaitGroup
			flood := func(s *Client, subject, members string) {
				body := []byte(`{"type":"bcp_response",` + members + `,"response":{"urgent":"` + strings.Repeat("x", 300) + `"}}`)
				all.Go(func() {
					for range 1500 {
						if s.conn.Publish(subject, body) != nil {
							return
						}
					}
					_ = s.conn.FlushTimeout(patience) // it may be cut off
				})
			}
			hijacked := r.Client(mailer, bcp.RoleReader)
			for _, id := range []bcp.SubscriptionID{"alerts", "notes"} {
				flood(hijacked, subjects.Push(mailer, main, id), `"controller":"main","subscription_id":"`+string(id)+`"`)
			}
			r.checkAlive()
			all.Wait()
			if n := len(r.Decisions(func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Agent == mailer })); n < 300 {
				r.abandon("the flood came to %d messages", n)
			}
			r.checkAlive()
			hijacked = r.Client(mailer, bcp.RoleReader)
			id := controller.Ask(mailer, askUrgent)
			flood(hijacked, hijacked.Query(id).Reply, `"query_id":"`+id+`"`)
			r.checkAlive()
			all.Wait()
			r.checkAlive()
			// Its results may be more than the server buffers for a slow client,
			// whose connection it then closes: nobody listens to this one any more.
			hijacked.conn.Close()
		}},
	}
}

// withTotal returns definitions whose Controller has a total budget, in bits.
func withTotal(files map[string]string, bits int) map[string]string {
	files["main.md"] = strings.Replace(files["main.md"], "bcp_channels:", fmt.Sprintf("total_budget_bits: %d\nbcp_channels:", bits), 1)
	return files
}
