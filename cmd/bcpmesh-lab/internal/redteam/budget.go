package redteam

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// atOnce does something n times at once and returns how often it succeeded.
func atOnce(n int, f func(i int) bool) int {
	var all sync.WaitGroup
	var succeeded atomic.Int64
	for i := range n {
		all.Go(func() {
			if f(i) {
				succeeded.Add(1)
			}
		})
	}
	all.Wait()
	return int(succeeded.Load())
}

// pushes pushes n answers at once and returns how many were delivered.
func (r *Rig) pushes(s *Client, n int) int {
	r.round++
	return atOnce(n, func(i int) bool {
		reply, err := s.conn.Request(subjects.Push(s.name, main, "alerts"), s.encode(fmt.Sprintf(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","push_id":"p%d-%d","response":{"urgent":true}}`, r.round, i)), patience)
		return err == nil && s.json(reply.Data).Text("status") == "delivered"
	})
}

// asks asks mailer n times at once and returns how many asks were accepted.
func (r *Rig) asks(n int, spec string) int {
	controller := r.Client(main, bcp.RoleController)
	return atOnce(n, func(int) bool {
		reply, err := controller.conn.Request(askSubject(mailer), []byte(spec), patience)
		return err == nil && controller.json(reply.Data).Text("query_id") != ""
	})
}

func budgets() []Attack {
	return []Attack{
		{ID: "A-RACE", Class: ClassBudget, Text: "pushes a hundred times at once against a budget of ten", Property: "ten are charged and delivered", files: sample(10, "push_budget_bits: 10"), Run: func(r *Rig) {
			r.Client(main, bcp.RoleController)
			if n := r.pushes(r.Client(mailer, bcp.RoleReader), 100); n != 10 {
				r.Broken("%d pushes of a bit were delivered of a budget of 10", n)
			}
		}},
		{ID: "A-ASKRACE", Class: ClassBudget, Text: "asks a hundred times at once against a budget of ten", Property: "ten are accepted", files: sample(10), Run: func(r *Rig) {
			if accepted := r.asks(100, askUrgent); accepted != 10 {
				r.Broken("%d asks of a bit were accepted of a budget of 10", accepted)
			}
		}},
		{ID: "A-FREE", Class: ClassBudget, Text: "uses what costs nothing: one-valued questions, refusals, repeats", Property: "what a Controller can see of it is charged", files: sample(20), Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			spec := `{"type":"bcp_query_request","category":1,"fields":[{"name":"c","type":"enum","values":["a"]}]}`
			asked := 0
			for i := range 60 {
				receipt := controller.Request(askSubject(mailer), spec)
				id := receipt.Text("query_id")
				if id == "" {
					break
				}
				asked++
				if i%2 == 0 {
					hijacked.Answer(hijacked.Query(id), `"response":{"c":"a"}`)
				} else {
					hijacked.Answer(hijacked.Query(id), `"not_enough_information":true`)
				}
				controller.Delivery(id)
			}
			if asked > 20 {
				r.Broken("%d outcomes were seen of a budget of 20 bits", asked)
			}
		}},
		{ID: "A-FREEPUSH", Class: ClassBudget, Text: "signals by refused pushes and their number", Property: "a Controller sees nothing of them", Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			before := controller.Request(subjects.Session(main), `{"verb":"channels"}`)
			for i := range 50 {
				hijacked.Push(main, "alerts", fmt.Sprintf(`{"urgent":%d}`, i), "")
			}
			r.Settle()
			if after := controller.Request(subjects.Session(main), `{"verb":"channels"}`); string(after.Data) != string(before.Data) {
				r.Broken("the Controller sees %s and before %s", after.Data, before.Data)
			}
			if got := controller.Heard(func(m Message) bool { return m.Text("delivery_id") != "" }); len(got) > 0 {
				r.Broken("the Controller got %s", got[0].Data)
			}
		}},
		{ID: "A-RDRRESET", Class: ClassBudget, Text: "connects again to have a fresh budget", Property: "the pool is the gateway's", files: sample(5, "push_budget_bits: 5"), Run: func(r *Rig) {
			r.Client(main, bcp.RoleController)
			total := 0
			for range 4 {
				s := r.Client(mailer, bcp.RoleReader)
				total += r.pushes(s, 4)
				s.conn.Close()
			}
			if total != 5 {
				r.Broken("%d bits were pushed of a budget of 5", total)
			}
		}},
		{ID: "A-RESTART", Class: ClassBudget, Text: "has the mesh restarted to have a fresh budget", Property: "the journal keeps the pool", files: sample(5, "push_budget_bits: 5"), Run: func(r *Rig) {
			total := 0
			for round := range 3 {
				r.Client(main, bcp.RoleController)
				total += r.pushes(r.Client(mailer, bcp.RoleReader), 3+round)
				r.Restart()
			}
			if total != 5 {
				r.Broken("%d bits were pushed of a budget of 5", total)
			}
		}},
		{ID: "A-EXHAUST", Class: ClassBudget, Text: "burns the pool by pushes so that the Controller cannot ask", Property: "pushes have a pool of their own, or the Controller hears of it", files: sample(100, "push_budget_bits: 10"), Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			r.pushes(r.Client(mailer, bcp.RoleReader), 80)
			if receipt := controller.Request(askSubject(mailer), askNote); receipt.Text("query_id") == "" {
				r.Broken("10 bits of pushes leave no 44 of 100 to ask with: %s", receipt.Data)
			}
		}},
		{ID: "A-CONCQ", Class: ClassBudget, Text: "asks category 2 at once beyond max_cat2_queries", Property: "as many as allowed are accepted", files: sample(100_000, "max_cat2_queries: 7"), Run: func(r *Rig) {
			if accepted := r.asks(40, askNote); accepted != 7 {
				r.Broken("%d category 2 queries were accepted, 7 are allowed", accepted)
			}
		}},
		{ID: "A-SESSION", Class: ClassBudget, Text: "asks beyond the budget of a session, in several", Property: "each has the budget that the definition gives", files: sample(5), Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			for range 4 {
				accepted := 0
				controller.Request(subjects.Session(main), `{"type":"bcp_session","verb":"open"}`)
				for range 8 {
					if controller.Request(askSubject(mailer), askUrgent).Text("query_id") != "" {
						accepted++
					}
				}
				controller.Request(subjects.Session(main), `{"type":"bcp_session","verb":"close"}`)
				// The Controller is clean and decides when a session begins.
				if accepted > 5 {
					r.Broken("%d asks of a bit were accepted in a session with a budget of 5", accepted)
				}
			}

		}},
		{ID: "A-CLOCK", Class: ClassBudget, Text: "reads a Reader's acts from refused asks within a release slot", Property: "what is refused depends on nothing that the Reader did in the slot", files: sample(2000, "release_interval: 1h"), Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			big := `{"type":"bcp_query_request","category":2,"questions":[{"id":"n","question":"What?","max_words":160,"expected_format":"short_text"}]}`
			first := controller.Request(askSubject(mailer), big)
			id := first.Text("query_id")
			if id == "" {
				r.abandon("the ask was not accepted: %s", first.Data)
			}
			probe := strings160
			before := controller.Request(askSubject(mailer), probe)
			hijacked.Answer(hijacked.Query(id), `"not_enough_information":true`)
			r.Settle()
			if after := controller.Request(askSubject(mailer), probe); after.Text("error") != before.Text("error") {
				r.Broken("an ask was %s and, after the Reader gave up, is %s", before.Data, after.Data)
			}
			r.pushes(hijacked, 5)
			if after := controller.Request(askSubject(mailer), probe); after.Text("error") != before.Text("error") {
				r.Broken("an ask was %s and, after pushes, is %s", before.Data, after.Data)
			}
		}},
	}
}

// strings160 asks for as much as is left after the first half.
const strings160 = `{"type":"bcp_query_request","category":2,"questions":[{"id":"n","question":"Which?","max_words":160,"expected_format":"short_text"}]}`
