package meshtest

import (
	"fmt"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// CheckProjections fails the test unless the audit has each of so many decisions once and
// in order, and the ledger is what they make ([jetstream.Reconcile]) and lacks no line.
func CheckProjections(t testing.TB, js natsjs.JetStream, decisions int) {
	t.Helper()
	audit, lines := ReadStream(t, js, jetstream.AuditStream), uint64(0)
	for i, m := range audit {
		d, err := bcp.DecodeDecision(m.Data)
		noError(t, err)
		if _, ok := d.Line(); ok {
			lines++
		}
		if number := m.Header.Get("Bcp-Decision"); number != fmt.Sprint(i+1) || d.Seq != uint64(i+1) {
			t.Errorf("record %d of the audit is decision %s", i+1, number)
		}
	}
	found, err := jetstream.Reconcile(t.Context(), js, nil, 0, nil)
	noError(t, err)
	bcptest.FailIf(t, len(audit) != decisions || found.Lines != lines || found.Behind > 0 || len(found.Differences) > 0,
		"the audit has %d records of %d decisions, and the ledger of %d lines differs: %+v", len(audit), decisions, lines, found)
}
