package definition

import "github.com/bcpmesh/bcpmesh/bcp"

// checkWitness refuses require_witness on a cluster, whose gateways have no key that signs
// checkpoints. One that runs there with one copy is refused at the gateway's start.
func (b *builder) checkWitness(m *bcp.Mesh) {
	if m.RequireWitness > 0 && m.Replicas > 1 {
		b.mesh.errorf("require_witness", CodeWitness, "require_witness is for a mesh of one process, and replicas say that this one is a cluster's: leave it out, and have bcpmesh audit export --checkpoint --witness cosign")
	}
}
