package audit

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func TestAuditRow(t *testing.T) {
	t.Parallel()
	d := bcp.Decision{Seq: 7, Kind: bcp.KindPush, Agent: "mail", Verdict: bcp.Reject, Code: bcp.ValidationFailed, Anomalies: []string{"url", "code"}, Nominal: bcp.Bit}
	row := auditRow(&d, time.DateOnly)
	if row[0] != "7" || row[2] != "push" || row[4] != "reject" || row[5] != "validation_failed url+code" || row[6] != "1" {
		t.Errorf("%q", row)
	}
}
