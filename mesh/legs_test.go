package mesh_test

import (
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// That an agent has all three legs of the lethal trifecta is in the audit: at a start under such definitions, and when a
// reload brings or takes it, together with the hosts that it may fetch from.
//
// covers ALF-9, P11.1
func TestAcceptedLegsAreAudited(t *testing.T) {
	t.Parallel()
	const (
		accepted = "desk may have private data, untrusted input and a way out (egress_budget_bits)"
		fetches  = "desk may fetch from status.example.com"
		tells    = "desk may tell hosts 2000 bits within 24h0m0s"
		asks     = "desk (keeper) may publish bcp.v1.egress.desk"
		hears    = "desk (keeper) may subscribe _INBOX.desk.>"
	)
	desk := func(keys string) map[string]string {
		return map[string]string{"desk.md": "---\nname: desk\n" + keys + "---\n"}
	}
	with := desk("tools: [web_fetch, Mailbox]\nnetwork: [status.example.com]\negress_budget_bits: 2000\n")
	m := meshtest.Start(t, with)
	m.Wait(t, func(d *bcp.Decision) bool {
		return d.Kind == bcp.KindStart && slices.Equal(d.Changes, []string{accepted})
	})
	for _, step := range []struct {
		files map[string]string
		want  []string
	}{
		{desk("tools: [web_fetch]\n"), []string{"- " + asks, "- " + hears, "- " + fetches, "- " + accepted, "- " + tells}},
		{with, []string{"+ " + asks, "+ " + hears, "+ " + fetches, "+ " + accepted, "+ " + tells}},
	} {
		result, err := m.Reload(t.Context(), meshtest.Parse(t, step.files))
		failIf(t, err != nil || !slices.Equal(result.Changes, step.want), "%q, %v", result.Changes, err)
		m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindReload && slices.Equal(d.Changes, step.want) })
	}
}
