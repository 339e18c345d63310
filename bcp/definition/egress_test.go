package definition_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
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

// An agent that the mesh runs, or to which it opens hosts, does not have private data,
// untrusted input and a way out together, unless its definition says that this is meant.
//
// covers ALF-3, ALF-9
func TestTrifectaIsRefused(t *testing.T) {
	t.Parallel()
	const stated = "egress_budget_bits: 16384\n"
	for keys, refused := range map[string]bool{
		"tools: [Read, web_fetch]\nnetwork: [a.test]\n":                                          true,
		"tools: [files]\nnetwork: [a.test]\n":                                                    true,
		"tools: [Mailbox]\nnetwork: [a.test]\n":                                                  true,
		"tools: [Mailbox, mcp__x__y]\ncommand: [docker, run, x]\nsandbox: own\n":                 true,
		"tools: [Bash]\nbase_taint: high\ncommand: [docker, run, x]\nsandbox: own\n":             true,
		"tools: [WebFetch]\ncommand: [run]\nsandbox: none\n":                                     false, // sandbox: none accepts by itself that it reads the keys
		"tools: [web_fetch]\nnetwork: [a.test]\n":                                                false, // nothing private
		"tools: [Mailbox]\nnetwork: none\ncommand: [docker, run, x]\nsandbox: own\n":             false, // no way out
		"tools: [Read, SendMessage]\ncommand: [docker, run, x]\nsandbox: own\n":                  false, // nothing untrusted
		"tools: [Read, WebFetch]\nnetwork: outbound\n":                                           false, // somebody else runs it, and is warned
		"tools: [Read, WebFetch]\nnetwork: outbound\ncommand: [docker, run, x]\nsandbox: own\n":  true,
		"tools: [Bash]\nnetwork: none\nbase_taint: high\ncommand: [docker, run]\nsandbox: own\n": false,
	} {
		_, report := definition.Parse(map[string][]byte{"a.md": []byte("---\nname: a\n" + keys + "---\n")})
		got := len(report.Errors) == 1 && report.Errors[0].Code == bcp.FindingTrifecta && report.Errors[0].Line == 2
		failIf(t, got != refused || !refused && !report.OK(), "%q: %v", keys, report.Errors)
		mesh, report := definition.Parse(map[string][]byte{"a.md": []byte("---\nname: a\n" + keys + stated + "---\n")})
		failIf(t, mesh == nil || refused && !slices.ContainsFunc(report.Warnings, func(p definition.Problem) bool { return p.Code == bcp.FindingTrifecta }),
			"%q, accepted: %v %v", keys, report.Errors, report.Warnings)
		if mesh != nil && refused != bcp.FlowOf(mesh).Legs("a").All() && !strings.Contains(keys, "outbound") {
			t.Errorf("%q: legs %+v", keys, bcp.FlowOf(mesh).Legs("a"))
		}
	}
}
