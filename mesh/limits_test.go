package mesh_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// A Reader beyond max_refusals hears so about an answer too, although an answer
// has no reply subject of its own.
//
// covers P4.7
func TestLimitedAnswerIsHeard(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, with(pair(1000), "mesh.yaml", "max_refusals: 3/m\n"))
	main, mailer := connect(t, m)
	for range 3 { // a minute may end in between, and the count with it
		for range 3 {
			mailer.Request(t, pushAlert, `{"urgent":1}`)
		}
		id := main.Accepted(t, "mailer", askUrgent)
		mailer.Answer(t, mailer.queries.NextOf(t, meshtest.With("query_id", id)), isUrgent)
		r := mailer.told.NextOf(t, meshtest.With("query_id", id))
		if r.Text("code") == "rate_limited" && r.Text("status") == "refused" && r.Fields["success"] == false {
			return
		}
	}
	t.Error("the Reader never heard rate_limited")
}
