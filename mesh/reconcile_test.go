package mesh_test

import (
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The books of a mesh that works agree at every moment at which somebody asks,
// also when two ask at once; and so do those of one that rests, until somebody
// changes the ledger.
//
// covers P4.5, P11.1
func TestBooksAgree(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100_000))
	main, mailer := connect(t, m)
	operator := m.Connect(t, bcp.Operator, bcp.RoleOperator)
	begun, stop := make(chan struct{}), make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := range 4000 { // below what refuses for want of room
			if n == 1 {
				close(begun)
			}
			select {
			case <-stop:
				return
			default:
			}
			if _, err := mailer.Conn.Request(subjects.Push("mailer", "main", "alerts"), []byte(meshtest.PushText("main", "alerts", `{"urgent":true}`, "")), meshtest.Patience); err != nil {
				t.Error(err)
				return
			}
			if _, err := main.Conn.Request(subjects.Ask("main", "mailer"), []byte(askUrgent), meshtest.Patience); err != nil {
				t.Error(err)
				return
			}
		}
	})
	reconcile := func() (r status.Reconciliation) {
		reply, err := operator.Conn.Request(subjects.Control(bcp.ControlReconcile), []byte("{}"), meshtest.Patience)
		if err == nil {
			err = json.Unmarshal(reply.Data, &r)
		}
		if err != nil {
			t.Errorf("%v: %s", err, reply.Data)
		}
		return r
	}
	<-begun
	last := uint64(0)
	for range 5 {
		var asking sync.WaitGroup
		for range 2 {
			asking.Go(func() {
				r := reconcile()
				holds(t, len(r.Differences) == 0 && r.Decisions != 0 && len(r.Pools) == 1, "%+v", r)
			})
		}
		asking.Wait()
		r := reconcile()
		holds(t, r.Decisions >= last && r.Lines != 0, "%d decisions and %d lines, after %d", r.Decisions, r.Lines, last)
		last = r.Decisions
	}
	close(stop)
	busy.Wait()
	m.Stop(t)

	offline := func() status.Reconciliation {
		ctx := within(t, meshtest.Patience)
		return must(reconcileFolder(ctx, m.State, m.Definition, "test"))
	}
	if r := offline(); len(r.Differences) > 0 || r.Decisions < last {
		t.Errorf("at rest: %+v", r)
	}
	js, end := m.Streams(t)
	line := bcp.EncodeLedgerLine(&bcp.LedgerLine{Seq: 1, Controller: "main", Reader: "mailer"})
	_, err := js.Publish(t.Context(), subjects.Ledger("main", "mailer"), line)
	end()
	noError(t, err)
	if r := offline(); len(r.Differences) != 1 || r.Differences[0].Where != status.BookLedger {
		t.Errorf("with a line that nobody decided: %+v", r)
	}
}
