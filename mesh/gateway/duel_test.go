package gateway_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var duel = flag.Duration("duel", 2*time.Second, "how long gateways fight for one journal in TestGatewaysFight")

// pushUntilAccepted repeats a push while nobody answers, or the gateway is about
// to be another one.
func pushUntilAccepted(conn *nats.Conn, id string) error {
	body := []byte(alert(fmt.Sprintf(`,"push_id":%q`, id)))
	for deadline := time.Now().Add(meshtest.Patience); ; {
		reply, err := conn.Request(pushAlert, body, time.Second)
		switch {
		case err == nil && bytes.Contains(reply.Data, []byte(`"success":true`)):
			return nil
		case err == nil && !bytes.Contains(reply.Data, []byte(`"code":"unavailable"`)):
			return fmt.Errorf("push %s: %s", id, reply.Data)
		case err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, nats.ErrNoResponders):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("push %s: never accepted", id)
		}
	}
}

// Gateways are started on one journal again and again, beside the one that
// serves. Each time the older one is fenced by its next record and steps down;
// clients that repeat what was not answered lose nothing and are charged once.
//
// covers P4.5, P2.6, BCP-145, A-RACE
func TestGatewaysFight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	current := b.start(t)
	end := time.Now().Add(*duel)

	const clients = 8
	var running sync.WaitGroup
	var over atomic.Bool // clients end last: without a record nobody learns that it is fenced
	defer running.Wait()
	defer over.Store(true)
	accepted := make([]int, clients)
	mailer, main := b.agent(t, "mailer"), b.agent(t, "main")
	// A channel takes no more than 16,384 deliveries that nobody acknowledges.
	must(main.Conn.Subscribe(subjects.DeliveriesOf(bcp.RoleController, "main"), func(m *nats.Msg) { _ = m.Respond(nil) }))
	for c := range clients {
		running.Go(func() {
			for n := 0; !over.Load(); n++ {
				if err := pushUntilAccepted(mailer.Conn, fmt.Sprintf("c%d-%d", c, n)); err != nil {
					t.Errorf("client %d: %v", c, err)
					return
				}
				accepted[c] = n + 1
			}
		})
	}
	fights, beaten := 0, 0 // beaten: the older one wrote while the newer one read
	const enough = 3
	for time.Now().Before(end) || fights < enough && time.Now().Before(end.Add(meshtest.Patience)) {
		newer, err := b.tryStart(t)
		if errors.Is(err, jetstream.ErrFenced) {
			beaten++
			continue
		}
		noError(t, err)
		next(t, current.Done(), "the older gateway ends")
		err = current.Stop()
		stopIf(t, !errors.Is(err, jetstream.ErrFenced), "the older gateway ended with %v", err)
		current.disconnect()
		current = newer
		fights++
	}
	over.Store(true)
	running.Wait()
	noError(t, current.Stop())
	journal := b.journal(t) // which checks every balance
	total := 0
	for c, n := range accepted {
		for i := range n {
			expect(t, journal.Pushes[fmt.Sprintf("main mailer c%d-%d", c, i)], 1, "push %d of client %d is there", i, c)
		}
		total += n
	}
	t.Logf("%d fights, %d starts too late, %d pushes accepted, %d decisions", fights, beaten, total, journal.Decisions)
	expect(t, journal.Kinds[bcp.KindStart], fights+1, "starts in the journal")
	failIf(t, fights < enough || total < clients, "only %d fights and %d pushes", fights, total)
	settled := bcp.Bits(0)
	for _, balance := range journal.Balances {
		settled += balance.Settled
	}
	want := bcp.Bits(len(journal.Pushes)) * bcp.Bit
	failIf(t, settled != want, "settled %v, and %d pushes cost %v", settled, len(journal.Pushes), want)
}
