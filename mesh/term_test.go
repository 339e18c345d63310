package mesh_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// An operator who asks for a reload as soon as a gateway of a cluster hears it, before
// the mesh knows that its gateway has started, is answered like any other.
//
// covers P1.5, P4.5
func TestReloadAsATermBegins(t *testing.T) {
	t.Parallel()
	def := meshOf(t, pair(100))
	c := startCluster(t, def, "one")
	operator := c.connect(t, bcp.Operator, bcp.RoleOperator, 0).NATS()
	answered := make(chan string, 1)
	go func() {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			reply, err := operator.Request(subjects.Control(bcp.ControlReload), []byte("{}"), patience)
			if !errors.Is(err, nats.ErrNoResponders) {
				answered <- string(reply.Data)
				return
			}
		}
		answered <- "nothing"
	}()
	c.gateway(t, def, "one")
	got := <-answered
	failIf(t, !strings.Contains(got, `"errors":[]`) && strings.Contains(got, "error"), "the operator hears %s", got)
}
