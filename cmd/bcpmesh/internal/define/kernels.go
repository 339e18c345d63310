package define

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

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
			infos = append(infos, kernelInfo{rights.Kernel, rights.Planner, r.Requester, r.Grant, append([]string{}, k.Catalogue(grant)...)})
		}
	}
	return infos
}

func showKernels(o *cli.Output, infos []kernelInfo) {
	if len(infos) == 0 {
		return
	}
	var rows [][]string
	for _, k := range infos {
		rows = append(rows, []string{string(k.Kernel), string(k.Planner), string(k.Requester), k.Grant, strings.Join(k.Tools, ", ")})
	}
	o.Heading("Kernels")
	o.Table([]string{"kernel", "planner", "requester", "grant", "may call"}, rows)
	o.Printf("\n")
}
