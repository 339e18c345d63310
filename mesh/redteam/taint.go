package redteam

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func taints() []Attack {
	return []Attack{
		{ID: "A-SELFLOW", Class: ClassTaint, Text: "claims to be clean", Property: "the gateway's own record counts", Run: func(r *Rig) {
			controller, hijacked := r.Seat(main, bcp.RoleController), r.Seat(mailer, bcp.RoleReader)
			r.allRefused(mailer, askUrgent, `"response":{"urgent":true},"taint":"low"`, `"response":{"urgent":true},"exposure":"low"`, `"response":{"urgent":true},"source":"operator"`)
			id := controller.Ask(mailer, askUrgent)
			hijacked.Answer(hijacked.Query(id), `"response":{"urgent":true}`)
			if d := controller.Delivery(id); d.Taint != "medium" && d.Taint != "high" {
				r.Broken("an answer of a tainted Reader has the taint %q", d.Taint)
			}
			hijacked.publishes(subjects.Session(mailer), subjects.Session(main))
		}},
		{ID: "A-LOWER", Class: ClassTaint, Text: "a Controller that was told something reports that it is clean", Property: "taint does not fall", Run: func(r *Rig) {
			controller, hijacked := r.Seat(main, bcp.RoleController), r.Seat(mailer, bcp.RoleReader)
			id := controller.Ask(mailer, askUrgent)
			hijacked.Answer(hijacked.Query(id), `"response":{"urgent":true}`)
			before := controller.Delivery(id).Taint
			controller.Request(subjects.Session(main), `{"verb":"taint","taint":{"source":"web"}}`)
			for _, text := range []string{`{"verb":"taint","taint":{"level":"low"}}`, `{"verb":"taint","taint":{"source":"none"}}`, `{"verb":"taint","taint":"low"}`, `{"verb":"taint"}`} {
				if reply := controller.Request(subjects.Session(main), text); reply.Text("error") == "" && strings.Contains(string(reply.Data), `"taint":"low"`) {
					r.Broken("%s: %s", text, reply.Data)
				}
			}
			next := controller.Ask(mailer, askUrgent)
			hijacked.Answer(hijacked.Query(next), `"response":{"urgent":true}`)
			if after := controller.Delivery(next).Taint; after != before {
				r.Broken("an answer's taint was %s and is %s", before, after)
			}
		}},
		{ID: "A-NEUTRAL", Class: ClassTaint, Text: "gets many small answers through so that none of them counts", Property: "the session's exposure is recorded", Run: func(r *Rig) {
			controller, hijacked := r.Seat(main, bcp.RoleController), r.Seat(mailer, bcp.RoleReader)
			for range 20 {
				id := controller.Ask(mailer, askUrgent)
				hijacked.Answer(hijacked.Query(id), `"response":{"urgent":true}`)
				controller.Delivery(id)
			}
			exposed := r.Decisions(func(d *bcp.Decision) bool {
				return d.Delivery != "" && d.Controller == main && d.Exposure > bcp.TaintLow
			})
			if len(exposed) < 20 {
				r.Broken("%d of 20 answers are recorded as exposure", len(exposed))
			}
		}},
		{ID: "A-PROMPT", Class: ClassTaint, Text: "proposes a subscription in its own words", Property: "a Reader cannot propose, and a proposal waits for a person", Run: func(r *Rig) {
			word := r.Canary()
			hijacked := r.Seat(mailer, bcp.RoleReader)
			hijacked.publishes(subjects.Session(mailer))
			hijacked.Say(subjects.Push(mailer, main, "alerts"), fmt.Sprintf(`{"verb":"propose","proposal":{"reader":"mailer","subscription":{"id":%q,"category":1,"fields":[{"name":"x","type":"boolean"}]}}}`, word))
			controller := r.Seat(main, bcp.RoleController)
			reply := controller.Request(subjects.Session(main), `{"verb":"propose","proposal":{"reader":"mailer","subscription":{"id":"late","category":1,"fields":[{"name":"x","type":"boolean"}],"max_rate":"1/h"}}}`)
			if reply.Text("error") == "" && reply.Text("item_id") == "" {
				r.Broken("a proposal was taken without a person: %s", reply.Data)
			}
			hijacked.publishes(subjects.Push(mailer, main, "late"))
		}},
	}
}
