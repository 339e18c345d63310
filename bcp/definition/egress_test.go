package definition_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers ALF-28, ALF-29
func TestEgressPerDay(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]bcp.Bits{
		"": 0, "network: none\n": 0, "network: outbound\n": 0, "network: [a.test]\n": 16384 * bcp.Bit,
		"network: [a.test]\negress_budget_bits: 100\negress_window: 7h\n": 400 * bcp.Bit, // four windows of 7h touch a day
	} {
		mesh, _ := mustParse(t, "a.md", "---\nname: a\n"+keys+"---\n")
		expect(t, mesh.Agents[0].Egress.PerDay(), want, "%q", keys)
	}
}
