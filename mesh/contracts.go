package mesh

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// ContractFacts returns the evidence that the roles of a mesh keep their contracts, except from
// records ([ContractMonitor]), for [contract.Verify]. It judges nothing, and missing evidence
// proves nothing. proven is the proof of the JWTs that the mesh's server serves, or nil, and
// jwts is their digest. version is that of the program.
func ContractFacts(m *bcp.Mesh, proven *proof.Report, jwts bcp.Digest, version string) contract.Facts {
	f := contract.Facts{
		Messages: messages(), Decoders: testDecoders(), Rules: collectRules(m),
		Build: &contract.Build{Version: version, PureInterpreter: pureInterpreter},
	}
	for _, k := range kernel.OfMesh(m) {
		f.ErrorBits = max(f.ErrorBits, k.Definition().Limits.MaxPlannerBits)
	}
	if proven != nil {
		f.Roles, f.Effects = findClaim(proven, proof.Roles, jwts), findClaim(proven, proof.Effects, jwts)
	}
	return f
}

// pureInterpreter says that bcp/kernel uses no clock, randomness, network or model. The
// test of imports (TestLayering) ensures that for every build: it is a core package.
const pureInterpreter = true

// findClaim returns a claim of the proof. Whoever can make users of any permissions has a
// way past each.
func findClaim(r *proof.Report, claim proof.Claim, jwts bcp.Digest) *contract.Claim {
	c := &contract.Claim{JWTs: jwts}
	for _, h := range slices.Concat(r.Of(claim), r.Of(proof.Issuers)) {
		hole := contract.Hole{Role: h.Role, Column: h.Column, To: h.ToRole, Way: h.String()}
		if claim == proof.Effects && h.Claim == claim {
			hole.Role, hole.To = proof.RoleOf(h.From), contract.Tool
		}
		c.Holes = append(c.Holes, hole)
	}
	return c
}

// collectRules says what the rules of all kernels read.
func collectRules(m *bcp.Mesh) *contract.Rules {
	kernels := kernel.OfMesh(m)
	if len(kernels) == 0 {
		return nil
	}
	r := &contract.Rules{}
	for _, k := range kernels {
		d := k.Definition()
		for _, rule := range slices.Concat(d.MeshRules, d.Rules) {
			if rule.ReadsData && !slices.Contains(r.ReadData, rule.ID) {
				r.ReadData = append(r.ReadData, rule.ID)
			}
		}
	}
	return r
}

// messages returns all types of messages between roles. Each has one strict decoder,
// in package kernel or bcp, which refuses everything else.
func messages() []contract.MessageType {
	const (
		planner, processor, orchestrator = contract.Planner, contract.Processor, contract.Orchestrator
		tool, user                       = contract.Tool, contract.User
	)
	query, outputs, plan, data := contract.UserQuery, contract.ToolOutputs, contract.Plan, contract.ExternalData
	return []contract.MessageType{
		{From: user, To: orchestrator, Kind: "task", Holds: []contract.Column{query}},
		{From: orchestrator, To: planner, Kind: "plan_request", Holds: []contract.Column{query}}, // and the operator's text: tools, schemas, rules, limits, the spec of the result, the requester's address and the date
		{From: orchestrator, To: planner, Kind: "error"},                                         // a number, an id of the planner's own, a word of a closed list
		{From: planner, To: orchestrator, Kind: "plan", Holds: []contract.Column{plan}},
		{From: orchestrator, To: tool, Kind: "call", Holds: []contract.Column{outputs, data}}, // what the gate lets into its arguments
		{From: tool, To: orchestrator, Kind: "outcome", Holds: []contract.Column{outputs}},
		{From: orchestrator, To: processor, Kind: "content", Holds: []contract.Column{data}},
		{From: processor, To: orchestrator, Kind: "structured_data"},
		{From: processor, To: orchestrator, Kind: "not_enough_information"},
		{From: orchestrator, To: user, Kind: "result", Holds: []contract.Column{outputs, data}},
	}
}
