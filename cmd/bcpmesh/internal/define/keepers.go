package define

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// partner is somebody to whom an agent's keeper speaks, beside the hosts of its network.
type partner struct {
	Kind string `json:"kind"` // model, server (of MCP) or mailbox
	Name string `json:"name"`
	Host string `json:"host,omitzero"` // host and port; empty for a program or a file of this machine
}

// partnersOf are those of an agent: where what it reads and says may go, and from where its mail comes.
func partnersOf(mesh *bcp.Mesh, a *bcp.Agent) (list []partner) {
	if model, ok := mesh.ModelOf(a.Model); ok && a.AsksModel() {
		list = append(list, partner{"model", a.Model, authorityOf(wires.BaseOf(model.Provider, model.BaseURL))})
	}
	if !a.Builtin {
		return list
	}
	for _, tool := range a.Tools {
		server, _ := mesh.MCPTool(tool)
		if server == nil {
			continue
		}
		if to := (partner{"server", string(server.Name), authorityOf(server.URL)}); !slices.Contains(list, to) { // it has many tools
			list = append(list, to)
		}
	}
	if server, err := guard.ParseMailServer(a.Mailbox); err == nil {
		list = append(list, partner{"mailbox", server.Mailbox, server.Target.Authority()})
	}
	return list
}

// authorityOf is the host and port of a URL, empty for none.
func authorityOf(url string) string {
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
			rows = append(rows, []string{string(r.Agent), to.Kind, to.Name, cmp.Or(to.Host, "this machine")})
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
