package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

const (
	dashboardFile = "../../docs/production/grafana.json"
	alertsFile    = "../../docs/production/prometheus-alerts.yaml"
)

// alertRules are the alerts for Prometheus: what a person has to act on, and nothing that
// only somebody may want to look at.
var alertRules = []struct{ name, expr, wait, severity, summary string }{
	{"BcpmeshDown", `sum by (job) (bcpmesh_gateway_up) < 1 or absent(bcpmesh_gateway_up)`, "30s", "critical", "No gateway serves the mesh. Nothing is let through."},
	{"BcpmeshNotScraped", `up{job="bcpmesh"} == 0`, "2m", "warning", "A process of the mesh is away, or its metrics are."},
	{"BcpmeshProjectionsBehind", `bcpmesh_journal{kind="decisions"} - ignoring(kind) bcpmesh_journal{kind="projected"} > 10000`, "5m", "warning", "Audit and ledger show less than was decided."},
	{"BcpmeshDiskLow", `bcpmesh_storage_bytes{kind="disk_free"} / ignoring(kind) bcpmesh_storage_bytes{kind="disk_size"} < 0.2`, "5m", "warning", "The file system of the journal is four fifths full. A full one stops the mesh."},
	{"BcpmeshJournalLow", `bcpmesh_storage_bytes{kind="journal"} / ignoring(kind) (bcpmesh_storage_bytes{kind="journal_limit"} > 0) > 0.8`, "5m", "warning", "The journal is at four fifths of its half of max_disk_mb. A full one stops the mesh."},
	{"BcpmeshItemWaits", `max by (controller, reader, kind) (bcpmesh_held_oldest_age_seconds) > 3600`, "1m", "warning", "An item has waited for a person for an hour: bcpmesh approvals."},
	{"BcpmeshBudgetSpent", `bcpmesh_channel_bits{kind="left",budget="nominal"} / ignoring(kind) (bcpmesh_channel_bits{kind="limit",budget="nominal"} > 0) < 0.1`, "1m", "warning", "A channel has less than a tenth of its epoch's bits left: bcpmesh ledger show."},
	{"BcpmeshViolations", `sum by (agent) (increase(bcpmesh_agent_events_total{kind="violation"}[10m])) > 0`, "0s", "warning", "The server denied an agent what its definition does not allow: bcpmesh audit."},
	{"BcpmeshAlert", `sum by (alert) (increase(bcpmesh_alerts_total{alert!="item_held"}[10m])) > 0`, "0s", "warning", "The mesh raised an alert; docs/alerts.md says what each means."},
	{"BcpmeshAgentUnavailable", `max by (agent) (bcpmesh_agent_unavailable) == 1`, "1m", "warning", "The command of an agent cannot be started: bcpmesh status."},
	{"BcpmeshNotificationFails", `sum by (route) (increase(bcpmesh_notifications_total{outcome!="taken"}[15m])) > 3`, "0s", "warning", "People are not told of what waits: bcpmesh doctor."},
	{"BcpmeshFalseHolds", `sum by (controller, reader) (increase(bcpmesh_decided_signs_total{rule="any",false="true"}[30d])) > 0.2 * sum by (controller, reader) (increase(bcpmesh_decided_signs_total{rule="any"}[30d])) and sum by (controller, reader) (increase(bcpmesh_decided_signs_total{rule="any"}[30d])) >= 50`, "1h", "warning", "People approve unchanged more than a fifth of what the rules hold on a channel: the page of the channel names the line to change."},
	{"BcpmeshRecordsSlow", `histogram_quantile(0.99, sum by (le) (rate(bcpmesh_record_seconds_bucket[5m]))) > 1`, "10m", "warning", "Decisions wait for the disk for more than a second."},
}

// made is what the generators of this file make.
func made(t *testing.T) map[string][]byte {
	t.Helper()
	var rules strings.Builder
	rules.WriteString("# Alerts of a bcpmesh for Prometheus, with the job bcpmesh of docs/metrics.md:\n#\n#   rule_files: [prometheus-alerts.yaml]\n#\n" +
		"# Made by go test ./mesh/telemetry -run Operations -update.\ngroups:\n  - name: bcpmesh\n    rules:\n")
	for _, r := range alertRules {
		fmt.Fprintf(&rules, "      - alert: %s\n        expr: %s\n        for: %s\n        labels: {severity: %s}\n        annotations: {summary: %q}\n", r.name, yamlText(r.expr), r.wait, r.severity, r.summary)
	}
	return map[string][]byte{alertsFile: []byte(rules.String()), dashboardFile: dashboard(t)}
}

// yamlText is text between single quotes.
func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// dashboard is a board for Grafana with a panel for every metric, in the order of
// docs/metrics.md.
func dashboard(t *testing.T) []byte {
	t.Helper()
	type object = map[string]any
	var panels []object
	const width, height, columns = 8, 7, 3
	for i, f := range telemetry.Families() {
		unit := map[string]string{"bytes": "bytes", "seconds": "s", "seconds since 1970": "dateTimeFromNow"}[f.Unit]
		expr, y := panelQuery(f), i/columns*height
		if unit == "dateTimeFromNow" {
			expr += " * 1000"
		}
		legend := strings.TrimSuffix("{{"+strings.Join(f.Labels, "}} {{")+"}}", "{{}}")
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": strings.ReplaceAll(f.Name, "_", " "), "description": f.Help + ".",
			"gridPos":     object{"x": i % columns * width, "y": y, "w": width, "h": height},
			"datasource":  object{"type": "prometheus", "uid": "${source}"},
			"fieldConfig": object{"defaults": object{"unit": unit, "min": 0}},
			"targets":     []object{{"refId": "A", "expr": expr, "legendFormat": legend}},
		})
	}
	text := must(json.MarshalIndent(object{
		"title": "bcpmesh", "uid": "bcpmesh", "tags": []string{"bcpmesh"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time": object{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}}},
	}, "", "  "))(t)
	return append(text, '\n')
}

// panelQuery shows a counter as its rate, a histogram as its 99th percentile, and a gauge
// as it is.
func panelQuery(f *telemetry.Family) string {
	by := strings.Join(f.Labels, ", ")
	switch f.Type {
	case telemetry.Counter:
		return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval])) > 0", by, f.FullName())
	case telemetry.Histogram:
		return fmt.Sprintf("histogram_quantile(0.99, sum by (%s) (rate(%s_bucket[$__rate_interval])))", strings.Join(append([]string{"le"}, f.Labels...), ", "), f.FullName())
	}
	return f.FullName()
}

// The dashboard shows every metric, the alerts name none that there is not, and both are
// what the files have.
func TestOperationsFiles(t *testing.T) {
	t.Parallel()
	all := made(t)
	for name, want := range all {
		got, err := os.ReadFile(name)
		if *update && !bytes.Equal(got, want) {
			noError(t, os.WriteFile(name, want, 0o644))
			continue
		}
		noError(t, err)
		diff := cmp.Diff(string(want), string(got))
		failIf(t, diff != "", "%s: -want +got:\n%s", name, diff)
	}
	labels := map[string][]string{}
	for _, f := range telemetry.Families() {
		labels[f.FullName()] = f.Labels
		if f.Type == telemetry.Histogram {
			labels[f.FullName()+"_bucket"] = f.Labels
		}
		failIf(t, !bytes.Contains(all[dashboardFile], []byte(f.FullName())), "no panel shows %s", f.FullName())
	}
	metric, matcher := regexp.MustCompile(`bcpmesh_[a-z_]+`), regexp.MustCompile(`(bcpmesh_[a-z_]+)\{([a-z]+)!?=`)
	for _, r := range alertRules {
		for _, name := range metric.FindAllString(r.expr, -1) {
			_, known := labels[name]
			failIf(t, !known, "%s names %s, which is no metric", r.name, name)
		}
		for _, found := range matcher.FindAllStringSubmatch(r.expr, -1) {
			failIf(t, !slices.Contains(labels[found[1]], found[2]), "%s: %s has no label %s", r.name, found[1], found[2])
		}
		failIf(t, strings.Count(r.expr, "(") != strings.Count(r.expr, ")"), "%s: %s", r.name, r.expr)
	}
}
