package definition_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// covers ALF-28, ALF-29, P1.3
func TestEgressKeys(t *testing.T) {
	t.Parallel()
	parse := func(keys string) bcp.Agent {
		t.Helper()
		mesh, _ := mustParse(t, "a.md", "---\nname: a\n"+keys+"---\n")
		return mesh.Agents[0]
	}
	absent := parse("")
	failIf(t, absent.Network != "" || cmp.Diff(bcp.Egress{}, absent.Egress) != "",
		"by default: %q, %+v", absent.Network, absent.Egress)
	diff := cmp.Diff(bcp.Egress{Hosts: []string{"a.test"}, Budget: 16384 * bcp.Bit, Window: 24 * time.Hour, MaxBytes: 64 << 20, MaxHostBytes: 16 << 20}, parse("network: [a.test]\n").Egress)
	failIf(t, diff != "", "%v", diff)
	for _, word := range []string{"none", "outbound"} {
		if a := parse("network: " + word + "\n"); a.Network != word || len(a.Egress.Hosts) != 0 || a.Egress.PerDay() != 0 {
			t.Errorf("%s: %q, %+v", word, a.Network, a.Egress)
		}
	}
	if a := parse("network: a.test, *.b.test:8443\n"); a.Network != "a.test, *.b.test:8443" || !slices.Equal(a.Egress.Hosts, []string{"a.test", "*.b.test:8443"}) {
		t.Errorf("one text: %q, %+v", a.Network, a.Egress)
	}
	got := parse("network: [a.test]\nstart_urls: [https://a.test/x]\nlinks_only: true\negress_budget_bits: 100\negress_window: 7h\negress_bytes: 8MiB\negress_host_bytes: 4MiB\n").Egress
	want := bcp.Egress{
		Hosts: []string{"a.test"}, StartURLs: []string{"https://a.test/x"}, LinksOnly: true,
		Budget: 100 * bcp.Bit, BudgetStated: true, Window: 7 * time.Hour, MaxBytes: 8 << 20, MaxHostBytes: 4 << 20,
	}
	diff = cmp.Diff(want, got)
	failIf(t, diff != "", "%v", diff)
	expect(t, got.PerDay(), 400*bcp.Bit, "four windows of 7h touch a day, and it sends")
	mesh, _ := mustParse(t, "mesh.yaml", "allow_addresses: [10.1.0.0/16, '64:ff9b::/96']\n", "a.md", "---\nname: a\n---\n")
	if want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("64:ff9b::/96")}; !slices.Equal(mesh.AllowAddresses, want) {
		t.Errorf("allow_addresses: %v", mesh.AllowAddresses)
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
