package mesh_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The readings of seeds that contradict each other, where it takes a running
// mesh to show one; the others are in bcp/state/conflicts_test.go.

// The gateway validates, and there is no way around it: what a Reader says on
// the subjects of others is denied by the server, what it answers is validated
// before its Controller hears of anything, and the Controller gets the gateway's
// bytes.
//
// covers C-2, C-15, BCP-160, P2.4
func TestNothingReachesTheControllerButThroughTheGateway(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	main, mailer := connect(t, m)
	around := []string{
		subjects.Deliver(bcp.RoleController, "main", "mailer"), // a delivery of its own making
		subjects.Ask("mailer", "main"),                         // an ask of its own
		subjects.Ask("main", "mailer"),                         // one in its Controller's name
		subjects.Push("mailer", "main", "undeclared"),          // a subscription that nobody declared
	}
	for _, subject := range around {
		mailer.Say(t, subject, `{"type":"bcp_response_delivery","delivery_id":"x","response":{"urgent":true}}`)
	}
	denied := 0 // those of one second are one record
	m.Wait(t, func(d *bcp.Decision) bool {
		if d.Kind == bcp.KindViolation && d.Agent == "mailer" {
			denied += d.Count
		}
		return denied == len(around)
	})

	id := main.Accepted(t, "mailer", askWho)
	query := mailer.queries.Next(t)
	for _, wrong := range []string{`"response":{"who":"Ada","when":"tomorrow"}`, `"response":{"who":"Ada"}`} {
		mailer.Answer(t, query, wrong)
		if r := mailer.result(t); r.Fields["success"] != false || r.Text("status") != bcp.StatusRefused {
			t.Errorf("%s: %s", wrong, r.JSON)
		}
		query = mailer.queries.Next(t)
	}
	if early := main.rest(t); len(early) > 0 {
		t.Errorf("the Controller got %s", early[0].JSON)
	}
	mailer.Answer(t, query, isWho)
	if d := main.delivery(t); d.Text("query_id") != string(id) || !contains(d, `"response":{"who":"ada lovelace","when":"2026-03-15"}`) {
		t.Errorf("the Controller got %s", d.JSON)
	}
	m.Settle(t)
	if more := main.rest(t); len(more) > 0 {
		t.Errorf("and %s", more[0].JSON)
	}
}
