package define

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
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

// partner is somebody to whom an agent's keeper speaks.
type partner struct {
	Kind string `json:"kind"` // model, server (of MCP), mailbox or host (of its network)
	Name string `json:"name,omitzero"`
	Host string `json:"host,omitzero"` // host and port; empty for a program or a file of this machine
}

// hostKind is the kind of a host of an agent's network.
const hostKind = "host"

// listPartners are those of an agent: where what it reads and says may go, and from where its mail comes.
func listPartners(mesh *bcp.Mesh, a *bcp.Agent) (list []partner) {
	if model, ok := mesh.ModelOf(a.Model); ok && a.AsksModel() {
		list = append(list, partner{"model", a.Model, hostAndPort(wires.BaseOf(model.Provider, model.BaseURL))})
	}
	if a.Builtin {
		list = append(list, toolsPartners(mesh, a)...)
	}
	for _, host := range a.Egress.Hosts {
		list = append(list, partner{Kind: hostKind, Host: host})
	}
	return list
}

// toolsPartners are those of the tools of an agent that a model runs.
func toolsPartners(mesh *bcp.Mesh, a *bcp.Agent) (list []partner) {
	for _, tool := range a.Tools {
		server, _ := mesh.MCPTool(tool)
		if server == nil {
			continue
		}
		if to := (partner{"server", string(server.Name), hostAndPort(server.URL)}); !slices.Contains(list, to) { // it has many tools
			list = append(list, to)
		}
	}
	if server, err := guard.ParseMailServer(a.Mailbox); err == nil {
		list = append(list, partner{"mailbox", server.Mailbox, server.Target.Authority()})
	}
	return list
}

// hostAndPort is the host and port of a URL, empty for none.
func hostAndPort(url string) string {
	target, err := guard.ParseTarget(url)
	if err != nil {
		return ""
	}
	return target.Authority()
}

// showPartners shows to whom keepers speak, between two texts, unless that is nobody.
func showPartners(p *cli.Program, list []reachInfo, before, after string) {
	var rows [][]string
	for _, r := range list {
		for _, to := range r.Partners {
			if to.Kind != hostKind {
				rows = append(rows, []string{string(r.Agent), to.Kind, to.Name, cmp.Or(to.Host, "this machine")})
			}
		}
		if len(r.Hosts) > 0 {
			rows = append(rows, []string{string(r.Agent), hostKind, "", hostsText(r)})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.Out.Printf("%s", before)
	p.Out.Heading("What keepers speak to")
	p.Out.Table([]string{"agent", "kind", "name", "at"}, rows)
	p.Out.Printf("%s", after)
}

// kernelInfo is what a requester can have a kernel do with a grant.
type kernelInfo struct {
	Kernel    bcp.AgentName `json:"kernel"`
	Planner   bcp.AgentName `json:"planner"`
	Requester bcp.AgentName `json:"requester"`
	Grant     string        `json:"grant"`
	Tools     []string      `json:"tools"`
	// Sends and Keeps are the tools that read, by whether their arguments may leave the
	// mesh, and so are judged as those of a write.
	Sends []string `json:"reads_that_may_send"`
	Keeps []string `json:"reads_that_keep"`
}

func describeKernels(mesh *bcp.Mesh) []kernelInfo {
	var infos []kernelInfo
	for _, k := range kernel.OfMesh(mesh) {
		rights := k.Rights()
		for _, r := range rights.Runs {
			grant, _ := k.GrantOf(r.Requester, r.Grant)
			info := kernelInfo{rights.Kernel, rights.Planner, r.Requester, r.Grant, append([]string{}, k.Catalogue(grant)...), []string{}, []string{}}
			for _, t := range k.Definition().Tools {
				switch {
				case t.Level != kernel.Read || !slices.Contains(info.Tools, t.Name):
				case t.NoEgress:
					info.Keeps = append(info.Keeps, t.Name)
				default:
					info.Sends = append(info.Sends, t.Name)
				}
			}
			infos = append(infos, info)
		}
	}
	return infos
}

func showKernels(o *cli.Output, infos []kernelInfo) {
	if len(infos) == 0 {
		return
	}
	var rows [][]string
	sends, keeps := map[string]bool{}, map[string]bool{}
	for _, k := range infos {
		rows = append(rows, []string{string(k.Kernel), string(k.Planner), string(k.Requester), k.Grant, strings.Join(k.Tools, ", ")})
		for _, name := range k.Sends {
			sends[name] = true
		}
		for _, name := range k.Keeps {
			keeps[name] = true
		}
	}
	o.Heading("Kernels")
	o.Table([]string{"kernel", "planner", "requester", "grant", "may call"}, rows)
	for _, of := range []struct {
		what  string
		names map[string]bool
	}{{"Judged as a write, since what they are asked may leave the mesh", sends}, {"Trusted to keep what they are asked (egress: false)", keeps}} {
		if len(of.names) > 0 {
			o.Printf("%s: %s\n", of.what, strings.Join(slices.Sorted(maps.Keys(of.names)), ", "))
		}
	}
	o.Printf("\n")
}
