package main

import (
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/run"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// demoResult is what `bcpmesh demo --json` writes.
type demoResult struct {
	Messages []struct {
		Number  int    `json:"number"`
		Hostile bool   `json:"hostile"`
		Place   string `json:"planted_in"`
		Events  []struct {
			Kind      string         `json:"kind"`
			Category  int            `json:"category"`
			Raw       jsontext.Value `json:"raw"`
			Hijacked  bool           `json:"hijacked"`
			Verdict   string         `json:"verdict"`
			Code      string         `json:"code"`
			Rule      string         `json:"rule"`
			Anomalies []string       `json:"anomalies"`
			Delivered jsontext.Value `json:"delivered"`
			Nominal   bcp.Bits       `json:"nominal_bits"`
			Capacity  bcp.Bits       `json:"capacity_bits"`
		} `json:"events"`
	} `json:"messages"`
	Totals run.DemoTotals `json:"totals"`
}

func runDemo(t *testing.T, args ...string) demoResult {
	t.Helper()
	got := execute(t, "", append([]string{"demo", "--json"}, args...)...)
	if got.code != cli.ExitOK || got.stderr != "" {
		t.Fatalf("exit %d, stderr %s", got.code, got.stderr)
	}
	var result demoResult
	noError(t, json.Unmarshal([]byte(got.stdout), &result))
	return result
}

// The data of the demonstration adds up: every attempt of the attacker has one
// end, and the ledger shows what the events charged.
//
// covers BCP-174, P4.3, P11.1
func TestDemoAddsUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	result := runDemo(t, "--keep", dir)
	totals := result.Totals
	if totals.Mail != 40 || totals.Mail != len(result.Messages) || totals.Hostile < 8 {
		t.Errorf("%d mails, %d of them hostile, %d messages", totals.Mail, totals.Hostile, len(result.Messages))
	}
	if totals.Refused+totals.Held+totals.Passed != totals.Attempts || totals.Attempts == 0 {
		t.Errorf("%+v", totals)
	}
	var nominal, capacity bcp.Bits
	places := make(map[string]bool)
	attempts, heldEscalations, heldAnomalies := 0, 0, 0
	for _, m := range result.Messages {
		if m.Hostile {
			places[m.Place] = true
		}
		for _, e := range m.Events {
			if e.Kind != "ask" {
				nominal += e.Nominal
				capacity += e.Capacity
			}
			if e.Hijacked {
				attempts++
			}
			switch {
			case e.Verdict == "hold" && e.Kind == "ask" && e.Category == 3:
				heldEscalations++
			case e.Verdict == "hold" && len(e.Anomalies) > 0:
				heldAnomalies++
			case e.Verdict == "reject" && (e.Code == "" || e.Rule == ""):
				t.Errorf("mail %d: refused without a code or a rule: %+v", m.Number, e)
			}
		}
	}
	if attempts != totals.Attempts || heldEscalations == 0 || heldAnomalies == 0 || len(places) < 4 {
		t.Errorf("%d attempts of %d, %d escalations and %d anomalies held, planted in %v", attempts, totals.Attempts, heldEscalations, heldAnomalies, places)
	}
	var ledger []struct {
		Balance struct {
			Settled         bcp.Bits `json:"settled_bits"`
			SettledCapacity bcp.Bits `json:"settled_capacity_bits"`
		} `json:"balance"`
	}
	noError(t, json.Unmarshal([]byte(execute(t, "", "ledger", "show", "--dir", dir, "--json").stdout), &ledger))
	if len(ledger) != 1 || ledger[0].Balance.Settled != nominal || totals.Nominal != nominal || ledger[0].Balance.SettledCapacity != capacity || totals.Capacity != capacity {
		t.Errorf("events charged %d and %d, totals %+v, ledger %+v", nominal, capacity, totals, ledger)
	}
}
