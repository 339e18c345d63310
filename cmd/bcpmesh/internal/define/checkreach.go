package define

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// reachInfo says how tainted an agent is, what it holds, reads and may send out (the legs of the
// lethal trifecta), and to whom its keeper speaks.
type reachInfo struct {
	Agent bcp.AgentName `json:"agent"`
	Taint bcp.Taint     `json:"base_taint"`
	// Exposure is the greatest taint that its channels can deliver.
	Exposure   bcp.Taint `json:"exposure"`
	Private    []string  `json:"private"`
	Untrusted  []string  `json:"untrusted"`
	Out        []string  `json:"out"`
	Partners   []partner `json:"speaks_to,omitempty"`
	BitsPerDay bcp.Bits  `json:"egress_bits_per_day"` // that hosts can learn by which URLs are fetched
}

func describeReach(mesh *bcp.Mesh) []reachInfo {
	flow := bcp.FlowOf(mesh)
	list := make([]reachInfo, 0, len(mesh.Agents))
	for i, a := range mesh.Agents {
		legs := flow.Legs(a.Name)
		list = append(list, reachInfo{
			Agent: a.Name, Taint: flow.Agents[i].Base, Exposure: flow.Agents[i].Exposure,
			Private: nonNil(legs.Private), Untrusted: nonNil(legs.Untrusted), Out: nonNil(legs.Out),
			Partners: listPartners(mesh, &a), BitsPerDay: a.Egress.PerDay(),
		})
	}
	return list
}

// nonNil returns a list that JSON shows as one also if it is empty.
func nonNil(texts []string) []string { return append([]string{}, texts...) }

func showReach(o *cli.Output, list []reachInfo) {
	o.Heading("Agents")
	o.Table([]string{"agent", "taint", "exposure", "private", "untrusted", "out", "speaks to", "bits a day"}, cli.Map(list, func(r reachInfo) []string {
		hosts, partners := 0, []string{}
		for _, to := range r.Partners {
			if to.Kind == hostKind {
				if hosts++; hosts > maxShownHosts {
					continue
				}
			}
			partners = append(partners, strings.Join(cli.Compact(to.Kind, to.Name, to.Host), " "))
		}
		if hosts > maxShownHosts {
			partners = append(partners, strconv.Itoa(hosts-maxShownHosts)+" more")
		}
		perDay := ""
		if hosts > 0 {
			perDay = r.BitsPerDay.Rounded()
		} else if len(r.Out) > 0 { // what a runtime does with a network of its own nobody counts
			perDay = "uncounted"
		}
		return []string{string(r.Agent), r.Taint.String(), r.Exposure.String(), strings.Join(r.Private, "\n"), strings.Join(r.Untrusted, "\n"), strings.Join(r.Out, "\n"), strings.Join(partners, "\n"), perDay}
	}))
}

// maxShownHosts is how many hosts of an agent a person is shown; --json has all.
const maxShownHosts = 8

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

// kernelInfo is what a requester can have a kernel do with a grant.
type kernelInfo struct {
	Kernel    bcp.AgentName `json:"kernel"`
	Planner   bcp.AgentName `json:"planner"`
	Requester bcp.AgentName `json:"requester"`
	Grant     string        `json:"grant"`
	Tools     []string      `json:"tools"`
}

func describeKernels(mesh *bcp.Mesh) []kernelInfo {
	var infos []kernelInfo
	for _, k := range kernel.OfMesh(mesh) {
		rights := k.Rights()
		for _, r := range rights.Runs {
			grant, _ := k.GrantOf(r.Requester, r.Grant)
			infos = append(infos, kernelInfo{rights.Kernel, rights.Planner, r.Requester, r.Grant, nonNil(k.Catalogue(grant))})
		}
	}
	return infos
}

func showKernels(o *cli.Output, infos []kernelInfo) {
	if len(infos) == 0 {
		return
	}
	o.Heading("Kernels")
	o.Table([]string{"kernel", "planner", "requester", "grant", "may call"}, cli.Map(infos, func(k kernelInfo) []string {
		return []string{string(k.Kernel), string(k.Planner), string(k.Requester), k.Grant, strings.Join(k.Tools, ", ")}
	}))
	o.Printf("\n")
}
