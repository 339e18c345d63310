package redteam

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The oracle sees what breaks each invariant: what it is given is forged.
//
// covers P2.5, P4.1, A-CHAIN
func TestOracleSees(t *testing.T) {
	t.Parallel()
	told := func(m Message) func(*Rig) {
		return func(r *Rig) {
			if m.Subject == "" {
				m.Subject = subjects.Deliver(bcp.RoleController, main, mailer)
			}
			r.controllers = append(r.controllers, m)
		}
	}
	for name, c := range map[string]struct {
		forge func(*Rig)
		says  string
	}{
		"nothing":         {func(*Rig) {}, ""},
		"a header":        {told(Message{Header: nats.Header{"X": {"y"}}, Data: []byte("{}")}), "has headers"},
		"no UTF-8":        {told(Message{Data: []byte("{\"outcome\":\"\xff\"}")}), "is no UTF-8"},
		"an escape":       {told(Message{Data: []byte("{\"outcome\":\"\x1b\"}")}), "has U+001B"},
		"an invisible":    {told(Message{Data: []byte("{\"outcome\":\"\u200b\"}")}), "has U+200B"},
		"no object":       {told(Message{Data: []byte("pay")}), "is no object"},
		"white space":     {told(Message{Data: []byte(`{"outcome": "held"}`)}), "has white space"},
		"another member":  {told(Message{Data: []byte(`{"note":"pay"}`)}), `has the member "note"`},
		"unpaid bits":     {told(Message{Data: []byte(`{"delivery_id":"d1","from_agent":"mailer","bandwidth_bits":44.0}`)}), "44.000000000 bits were told and 0.000000000 charged"},
		"a word outside":  {func(r *Rig) { told(Message{Data: []byte(`{"detail":"` + r.Canary() + `"}`)})(r) }, "outside of values"},
		"a word in a log": {func(r *Rig) { _, _ = r.log.Write([]byte(r.Canary())) }, "the log has"},
		"a word on disk": {func(r *Rig) {
			if err := os.WriteFile(filepath.Join(server.StreamsOf(r.state), "x"), []byte(r.Canary()), 0o600); err != nil {
				r.abandon("%v", err)
			}
		}, "on disk, x has"},
		"beyond a budget": {func(r *Rig) {
			r.decisions = append(r.decisions, bcp.Decision{Controller: main, Reader: mailer, Balance: bcp.Balance{Settled: 100_001 * bcp.Bit}})
		}, "of a budget of 100000.0 is spent"},
		"no gateway": {func(r *Rig) {
			if err := r.mesh.Stop(r.ctx); err != nil {
				r.abandon("%v", err)
			}
		}, "the gateway ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := try(t.Context(), Config{State: t.TempDir(), Seed: 1, Limit: patience}, Attack{ID: "A-TEST", Run: c.forge})
			if c.says == "" {
				if result.Verdict != Held {
					t.Errorf("%s: %v", result.Verdict, result.Evidence)
				}
				return
			}
			if result.Verdict != Broken || !strings.Contains(strings.Join(result.Evidence, "\n"), c.says) {
				t.Errorf("%s: %v, expected that %q", result.Verdict, result.Evidence, c.says)
			}
		})
	}
}

// An attack that fails by itself is neither held nor broken, and a mesh that does
// not start holds nothing.
func TestNotRunIsNotHeld(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Attack{
		"abandoned":   {ID: "A-TEST", Run: func(r *Rig) { r.abandon("no") }},
		"a panic":     {ID: "A-TEST", Run: func(*Rig) { panic("no") }},
		"no mesh":     {ID: "A-TEST", Run: func(*Rig) {}, files: map[string]string{"mesh.yaml": "none: 1\n"}},
		"asks nobody": {ID: "A-TEST", Run: func(r *Rig) { r.Client(main, bcp.RoleController).Ask(clerk, askUrgent) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if result := try(ctx, Config{State: t.TempDir(), Limit: patience}, a); result.Verdict != NotRun || len(result.Evidence) == 0 {
				t.Errorf("%s: %v", result.Verdict, result.Evidence)
			}
		})
	}
}
