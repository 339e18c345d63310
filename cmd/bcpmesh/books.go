package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// auditTable shows records of the audit, with the date where it is not the same
// for all.
func (o *output) auditTable(records []sharded[bcp.Decision]) {
	layout := time.TimeOnly
	if n := len(records); n > 0 && records[0].Of.At().UTC().YearDay() != records[n-1].Of.At().UTC().YearDay() {
		layout = time.DateTime
	}
	var rows [][]string
	for i := range records {
		rows = append(rows, append([]string{records[i].cell()}, auditRow(&records[i].Of, layout)...))
	}
	o.tableOfShards([]string{"seq", "time, UTC", "kind", "agent or channel", "verdict", "what", "bits"}, rows)
}

// auditLine shows a record as it comes, where no table can be drawn since its
// end is not known.
func (o *output) auditLine(of *sharded[bcp.Decision]) {
	row := auditRow(&of.Of, time.DateTime)
	for i := range row {
		row[i] = plain(row[i])
	}
	line := fmt.Sprintf("%6s  %s  %-11s  %-30s  %-7s  %s", row[0], row[1], row[2], row[3], row[4], strings.Join(compact(row[5:]...), "  "))
	o.printf("%s%s\n", of.label(), strings.TrimRight(line, " "))
}

// auditRow is a record in the columns of auditTable.
func auditRow(d *bcp.Decision, layout string) []string {
	verdict := ""
	if d.Verdict != 0 {
		verdict = d.Verdict.String()
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
		bits = shortBits(d.Nominal)
	}
	note := ""
	if d.Kind == bcp.KindProcess || d.Kind == bcp.KindApproval {
		note = d.Note
	}
	if d.Credential != nil {
		note = strings.Join(compact(d.Credential.Role.String(), d.Key), " ")
	}
	what := strings.Join(compact(d.Event, string(d.Code), string(d.Outcome), strings.Join(d.Anomalies, "+"), d.Family, note), " ")
	return []string{strconv.FormatUint(d.Seq, 10), d.At().UTC().Format(layout), d.Kind.String(), who, verdict, what, bits}
}

// shortBits writes bits for reading, rounded up to a tenth: "6.9", "671". The
// exact figures are in the JSON.
func shortBits(b bcp.Bits) string {
	const tenth = bcp.Bit / 10
	tenths := (b + tenth - 1) / tenth
	if tenths%10 == 0 {
		return strconv.FormatInt(int64(tenths/10), 10)
	}
	return strconv.FormatInt(int64(tenths/10), 10) + "." + strconv.FormatInt(int64(tenths%10), 10)
}

func compact(parts ...string) []string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}
