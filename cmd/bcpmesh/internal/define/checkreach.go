package define

import (
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// reachInfo says what an agent holds, reads and may send out: the JSON form of the legs
// of the lethal trifecta, and of what the mesh fetches for it.
type reachInfo struct {
	Agent     bcp.AgentName `json:"agent"`
	Private   []string      `json:"private"`
	Untrusted []string      `json:"untrusted"`
	Out       []string      `json:"out"`
	Network   string        `json:"network,omitzero"`
	Hosts     []string      `json:"hosts"`
	LinksOnly bool          `json:"links_only,omitzero"`
	// What may leave in 24 hours by which URLs are fetched, and the limits over the window.
	BitsPerDay   bcp.Bits `json:"egress_bits_per_day"`
	BudgetBits   bcp.Bits `json:"egress_budget_bits"`
	Window       int64    `json:"egress_window_seconds"`
	MaxBytes     int64    `json:"egress_bytes"`
	MaxHostBytes int64    `json:"egress_host_bytes"`
	// Partners are all to whom the agent's keeper speaks, hosts too.
	Partners []partner `json:"speaks_to,omitempty"`
}

// describeReach returns what each agent of a mesh holds, reads and may send out.
func describeReach(mesh *bcp.Mesh) []reachInfo {
	flow := lint.FlowOf(mesh)
	list := make([]reachInfo, 0, len(mesh.Agents))
	for _, a := range mesh.Agents {
		legs, e := flow.Legs(a.Name), a.Egress
		list = append(list, reachInfo{
			Agent: a.Name, Private: nonNil(legs.Private), Untrusted: nonNil(legs.Untrusted), Out: nonNil(legs.Out),
			Network: a.Network, Hosts: nonNil(e.Hosts), LinksOnly: e.LinksOnly,
			BitsPerDay: e.PerDay(), BudgetBits: e.Budget, Window: cli.Seconds(e.Window), MaxBytes: e.MaxBytes, MaxHostBytes: e.MaxHostBytes,
			Partners: listPartners(mesh, &a),
		})
	}
	return list
}

// nonNil returns a list that JSON shows as one also if it is empty.
func nonNil(texts []string) []string { return append([]string{}, texts...) }

// showReach shows the agents that hold, read or reach something.
func showReach(p *cli.Program, list []reachInfo) {
	var rows [][]string
	for _, r := range list {
		if len(r.Private)+len(r.Untrusted)+len(r.Out) == 0 {
			continue
		}
		rows = append(rows, []string{
			string(r.Agent), strings.Join(r.Private, "\n"), strings.Join(r.Untrusted, "\n"), strings.Join(r.Out, "\n"), hostsText(r), bitsPerDay(r),
		})
	}
	if len(rows) == 0 {
		return
	}
	p.Out.Heading("Private data, untrusted input, ways out")
	p.Out.Table([]string{"agent", "private", "untrusted", "out", "hosts", "bits a day"}, rows)
	p.Out.Printf("\n")
}

func hostsText(r reachInfo) string {
	const most = 8
	hosts := r.Hosts
	if len(hosts) > most {
		hosts = append(hosts[:most:most], strconv.Itoa(len(r.Hosts)-most)+" more")
	}
	return strings.Join(hosts, "\n")
}

// bitsPerDay says what an agent can tell hosts in a day. What a runtime does with a network
// of its own nobody counts.
func bitsPerDay(r reachInfo) string {
	switch {
	case len(r.Hosts) > 0:
		return r.BitsPerDay.Rounded()
	case len(r.Out) > 0:
		return "uncounted"
	}
	return ""
}

// withReach adds the agents whose keepers speak to somebody to the JSON form of perms: no role is called egress.
func withReach(all map[bcp.AgentName]map[string]any, list []reachInfo) map[bcp.AgentName]map[string]any {
	for _, r := range list {
		if len(r.Partners) > 0 && all[r.Agent] != nil {
			all[r.Agent]["egress"] = r
		}
	}
	return all
}

// showEgress shows the agents that have hosts.
func showEgress(p *cli.Program, list []reachInfo) {
	var rows [][]string
	for _, r := range list {
		if len(r.Hosts) == 0 {
			continue
		}
		composed := "yes"
		if r.LinksOnly {
			composed = "no"
		}
		rows = append(rows, []string{string(r.Agent), hostsText(r), composed, r.BudgetBits.Rounded(), cli.Duration(r.Window), strconv.FormatInt(r.MaxBytes, 10), strconv.FormatInt(r.MaxHostBytes, 10)})
	}
	if len(rows) == 0 {
		return
	}
	p.Out.Printf("\n")
	p.Out.Heading("Egress")
	p.Out.Table([]string{"agent", "hosts", "composed URLs", "bits", "over", "bytes", "bytes a host"}, rows)
}
