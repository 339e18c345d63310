package define

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

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
