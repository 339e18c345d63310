package meshtest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// CheckProjections fails the test unless the audit has each of so many decisions once and
// in order, and the ledger each of their lines once and in the order of its channel. It
// returns the lines by message.
func CheckProjections(t testing.TB, js natsjs.JetStream, decisions int) (lines []bcp.LedgerLine) {
	t.Helper()
	audit := ReadStream(t, js, jetstream.AuditStream)
	if len(audit) != decisions {
		t.Errorf("the audit has %d records of %d decisions", len(audit), decisions)
	}
	want, got := map[string][]uint64{}, map[string][]uint64{}
	for i, m := range audit {
		if number := m.Header.Get("Bcp-Decision"); number != fmt.Sprint(i+1) {
			t.Errorf("record %d of the audit is decision %s", i+1, number)
		}
		d, err := bcp.DecodeDecision(m.Data)
		noError(t, err)
		if line, ok := d.Line(); ok {
			of := subjects.Ledger(line.Controller, line.Reader)
			want[of] = append(want[of], line.Seq)
		}
	}
	for _, m := range ReadStream(t, js, jetstream.LedgerStream) {
		of, err := bcp.DecodeLedgerLines(m.Data)
		noError(t, err)
		for _, line := range of {
			got[m.Subject] = append(got[m.Subject], line.Seq)
		}
		lines = append(lines, of...)
	}
	if !maps.EqualFunc(want, got, slices.Equal) {
		t.Errorf("the ledger has lines of the decisions %v, and not %v", got, want)
	}
	return lines
}
