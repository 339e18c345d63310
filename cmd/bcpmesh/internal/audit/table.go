package audit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// AuditTable shows records of the audit, with the date if it is not the same
// for all.
func AuditTable(o *cli.Output, records []bcp.Decision) {
	layout := time.TimeOnly
	if n := len(records); n > 0 && records[0].At().UTC().YearDay() != records[n-1].At().UTC().YearDay() {
		layout = time.DateTime
	}
	var rows [][]string
	for i := range records {
		rows = append(rows, auditRow(&records[i], layout))
	}
	o.Table([]string{"seq", "time, UTC", "kind", "agent or channel", "verdict", "what", "bits"}, rows)
}

// auditLine shows a record as it comes, where no table can be drawn since its
// end is not known.
func auditLine(o *cli.Output, d *bcp.Decision) {
	row := auditRow(d, time.DateTime)
	for i := range row {
		row[i] = cli.Plain(row[i])
	}
	line := fmt.Sprintf("%6s  %s  %-11s  %-30s  %-7s  %s", row[0], row[1], row[2], row[3], row[4], strings.Join(cli.Compact(row[5:]...), "  "))
	o.Printf("%s\n", strings.TrimRight(line, " "))
}

// auditRow is a record in the columns of AuditTable.
func auditRow(d *bcp.Decision, layout string) []string {
	verdict := ""
	if d.Verdict != 0 {
		verdict = tell.Verdict(d).String()
	}
	who := string(d.Agent)
	if key, ok := d.Channel(); ok {
		who = string(key.Controller) + " ← " + string(key.Reader)
	}
	switch {
	case d.Role == bcp.RoleApprover:
		who = strings.TrimSuffix(string(d.Agent)+": "+who, ": "+string(d.Agent))
	case d.Target != "" && d.Target != d.Agent:
		who += ": " + string(d.Target)
	}
	bits := ""
	if d.Nominal > 0 && !d.Prepaid && !d.Unfunded {
		bits = d.Nominal.Rounded()
	}
	note := ""
	if d.Kind == bcp.KindProcess || d.Kind == bcp.KindApproval {
		note = d.Note
	}
	if d.Kind == bcp.KindStart {
		note = cli.Plain(strings.Join(d.Changes, "; "))
	}
	if d.Credential != nil {
		note = strings.Join(cli.Compact(d.Credential.Role.String(), d.Key), " ")
	}
	if e := d.Egress; e != nil {
		note = strings.Join(cli.Compact(string(e.Act), string(e.Why), cli.Plain(e.Entry)), " ")
		if e.Act == bcp.EgressReserve && d.Verdict == bcp.Accept {
			bits = e.Bits.Rounded()
		}
	}
	if u := d.Usage; u != nil && u.Act == bcp.UsageReport {
		note = strings.Join(cli.Compact(string(u.Act), u.ModelFault().String()), " ")
	} else if u != nil {
		note = strings.Join(cli.Compact(string(u.Act), cli.Plain(u.Model), fmt.Sprintf("%d tokens", u.Tokens), u.Cost.String()+" USD"), " ")
	}
	what := strings.Join(cli.Compact(d.Event, string(d.Code), string(d.Outcome), strings.Join(d.Anomalies, "+"), d.Family, note), " ")
	return []string{strconv.FormatUint(d.Seq, 10), d.At().UTC().Format(layout), d.Kind.String(), who, verdict, what, bits}
}
