package mesh_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// keeperOf connects as the keeper of an agent, with its real creds.
func keeperOf(t testing.TB, m *meshtest.Mesh, agent bcp.AgentName) *agents.Keeper {
	t.Helper()
	c := client(t, m, agent, bcp.RoleKeeper, agents.Options{})
	return agents.NewKeeper(c)
}

func ledgerOf(t testing.TB, m *meshtest.Mesh, agent bcp.AgentName) fetch.Ledger {
	return keeper.NewLedger(keeperOf(t, m, agent))
}

func withNetwork(more string) map[string]string {
	return map[string]string{
		"main.md": "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"reader.md": "---\nname: reader\nencoding: msgpack\nnetwork: [docs.example.org, '*.example.net']\n" + more +
			"bcp_channels:\n- {peer: main, role: reader}\n---\n",
	}
}

func composed(id, url string) bcp.EgressRequest {
	return bcp.EgressRequest{Act: bcp.EgressReserve, ID: id, URL: url, By: bcp.ByComposed, Bytes: 1000}
}

// The hosts are those of the definitions that hold at that moment.
//
// covers P13.2, ALF-89
func TestEgressHostsAreReloaded(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, withNetwork(""))
	k := keeperOf(t, m, "reader")
	noError(t, k.Egress(t.Context(), composed("a", "https://a.example.net/")))
	files := withNetwork("")
	files["reader.md"] = strings.Replace(files["reader.md"], ", '*.example.net'", "", 1)
	must(m.Reload(t.Context(), meshtest.Parse(t, files)))
	err := k.Egress(t.Context(), composed("b", "https://a.example.net/"))
	failIf(t, !errors.Is(err, guard.HostDenied), "a host that is not listed any more: %v", err)
	files["reader.md"] = strings.Replace(files["reader.md"], "network: [docs.example.org]\n", "", 1)
	must(m.Reload(t.Context(), meshtest.Parse(t, files)))
	ctx := within(t, 3*time.Second)
	fails(t, k.Egress(ctx, composed("c", "https://docs.example.org/")), nil, "a keeper of an agent without a network is served")
	fails(t, errorOf(m.Issue("reader", bcp.RoleKeeper, time.Hour)), nil, "creds for a keeper of an agent without a network")
}

// Where the mesh does not answer, nothing is sent.
//
// covers P13.1
func TestNoRecordNoPacket(t *testing.T) {
	t.Parallel()
	host := collect(t, func(http.ResponseWriter, *http.Request) {})
	authority := strings.TrimPrefix(host.URL, "http://")
	files := withNetwork("")
	files["reader.md"] = strings.Replace(files["reader.md"], "docs.example.org", "'"+authority+"'", 1)
	m := meshtest.Start(t, files)
	ledger := ledgerOf(t, m, "reader")
	desk, err := fetch.NewDesk(fetch.Options{Ledger: ledger, Policy: fetch.Policy([]string{authority}, func(string) (string, bool) { return "", false })})
	noError(t, err)
	tool := fetch.NewTool(desk)
	r := tool.Run(t.Context(), arguments(t, "url", host.URL+"/recorded"))
	stopIf(t, r.Failed, "%+v", r)
	settled := m.Wait(t, func(d *bcp.Decision) bool { return d.Egress != nil && d.Egress.Act == bcp.EgressSettle })
	reserved := m.Wait(t, func(d *bcp.Decision) bool { return d.Egress != nil && d.Egress.Act == bcp.EgressReserve })
	failIf(t, settled.Egress.Reserved != reserved.Seq || settled.Egress.Bytes <= 0 || settled.Egress.Bytes >= reserved.Egress.Bytes || reserved.Egress.Entry != authority,
		"%+v, settled by %+v", reserved.Egress, settled.Egress)
	shown, err := json.Marshal(reserved.Public())
	failIf(t, err != nil || strings.Contains(string(shown), "recorded\""), "the audit shows %s, %v", shown, err)
	m.Stop(t)
	ctx := within(t, time.Second)
	r = tool.Run(ctx, arguments(t, "url", host.URL+"/unrecorded"))
	failIf(t, r.Trusted != llm.Failure(guard.Unrecorded, 0) && r.Trusted != llm.Failure(guard.TimedOut, 0), "%+v", r)
	got := host.all()
	failIf(t, strings.Contains(got, "unrecorded"), "sent without a record: %s", got)
}
