package define

import (
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

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
