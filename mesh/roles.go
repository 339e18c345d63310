package mesh

import (
	"errors"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// What the operator's machine signs about agents of the mesh is in files of the state
// folder (written by bcpmesh role attest), which the gateway reads on request: it has no
// key of the organisation.

const (
	attestSuffix = ".json"
	// RevocationsFile has the newest list of revocations. No agent has this name.
	RevocationsFile = "revocations_list.json"
)

// AttestationFile returns the name of an agent's attestation in the folder of
// attestations.
func AttestationFile(agent bcp.AgentName) string { return string(agent) + attestSuffix }

// roles returns the files that the gateway negotiates with, or nil without a key
// store, on a cluster.
func (m *Mesh) roles() *gateway.Roles {
	if m.store == nil {
		return nil
	}
	return &gateway.Roles{
		Attested: func(agent bcp.AgentName) (contract.Papers, error) {
			return attested(m.config.State, m.Definition(), agent)
		},
		Sign: func(message []byte) (string, []byte, error) {
			signer, err := m.store.GatewaySigner()
			if err != nil {
				return "", nil, err
			}
			signature, err := signer.Sign(message)
			return signer.PublicKey(), signature, err
		},
	}
}

func attested(state string, def *bcp.Mesh, agent bcp.AgentName) (a contract.Papers, err error) {
	if _, known := def.Agent(agent); !known {
		return a, errNotAttested
	}
	attested := server.AttestOf(state)
	if a.Attestation, err = disk.ReadFile(filepath.Join(attested, AttestationFile(agent)), contract.MaxEnvelope); err != nil {
		return a, err
	}
	if a.Revocations, err = disk.ReadFile(filepath.Join(attested, RevocationsFile), contract.MaxEnvelope); err != nil {
		return a, err
	}
	if !declares(a.Attestation, def, agent) {
		return a, errOtherDeclaration
	}
	for _, c := range def.Contracts {
		a.Contracts = append(a.Contracts, string(c.Bytes))
	}
	return a, nil
}

// declares reports whether an attestation matches the current definitions: they may have
// changed since, and the gateway proves nothing that it knows to be untrue.
func declares(envelope []byte, def *bcp.Mesh, agent bcp.AgentName) bool {
	d, err := definition.Declaration(def, agent)
	if err != nil {
		return false
	}
	declared, ok := contract.AttestedRoles(envelope)
	return ok && declared == d
}

var (
	errNotAttested      = errors.New("this agent has no attestation")
	errOtherDeclaration = errors.New("the attestation of this agent differs from its definitions")
)
