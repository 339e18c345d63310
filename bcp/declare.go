package bcp

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRoleMessage bounds a message about roles, in bytes (PROTOCOL P14.1).
const MaxRoleMessage = 64 << 10

// DualLLMRole is the name of the built-in requirement.
const DualLLMRole = "dual-llm"

// Trust is a key that mesh.yaml trusts: an organisation signs with it.
type Trust struct {
	Organisation string
	Key          [32]byte  // ed25519
	Until        time.Time // the first moment at which it is not trusted; zero: always
}

// RoleRequirement is what mesh.yaml requires of agents of others, by a name.
type RoleRequirement struct {
	Name string
	// Document is what package contract reads, in JSON. The built-in one has none.
	Document jsontext.Value
}

// Digest covers the name and what is required: whoever is accepted for a requirement is
// not accepted for what a reload makes of it.
func (r *RoleRequirement) Digest() Digest {
	return sha256.Sum256(append([]byte(r.Name+"\x00"), r.Document...))
}

// Requirement returns the requirement of a name.
func (m *Mesh) Requirement(name string) (RoleRequirement, bool) {
	i := slices.IndexFunc(m.RoleRequirements, func(r RoleRequirement) bool { return r.Name == name })
	if i >= 0 {
		return m.RoleRequirements[i], true
	}
	return RoleRequirement{Name: DualLLMRole}, name == DualLLMRole
}

// RolesRequired returns the agents that have to show their roles.
func (m *Mesh) RolesRequired() map[AgentName]bool {
	required := map[AgentName]bool{}
	for i := range m.Channels {
		c := &m.Channels[i]
		if c.ControllerRole != "" {
			required[c.Controller] = true
		}
		if c.ReaderRole != "" {
			required[c.Reader] = true
		}
	}
	for i := range m.Kernels {
		for requester := range m.Kernels[i].Roles {
			required[requester] = true
		}
	}
	return required
}

// DeclareAct says what a decision about roles does.
type DeclareAct string

// The acts.
const (
	DeclareJudged      DeclareAct = "judged"      // the mesh has judged an agent of another organisation
	DeclareHeard       DeclareAct = "heard"       // it was told what came of a challenge to an agent of its own
	DeclareRevocations DeclareAct = "revocations" // it has a newer list of an organisation
	DeclareRequired    DeclareAct = "required"    // a run was refused, since its requester has not shown its roles
)

// DeclareChange is what a decision says about roles.
type DeclareChange struct {
	Act DeclareAct `msgpack:"a" json:"act"`
	// Requirement is a name of mesh.yaml, and Required the digest of what that was.
	Requirement string `msgpack:"q,omitempty" json:"requirement,omitempty"`
	Required    Digest `msgpack:"d,omitempty" json:"required,omitzero"`
	// Why is the code of a refusal, and empty for an acceptance.
	Why string `msgpack:"w,omitempty" json:"why,omitempty"`
	// Until is when an acceptance ends, Unix nanoseconds.
	Until int64 `msgpack:"u,omitempty" json:"until,omitzero"`
	// Organisation is one that mesh.yaml trusts, and Signer its key; of others nothing is
	// recorded.
	Organisation string `msgpack:"o,omitempty" json:"organisation,omitempty"`
	Signer       Digest `msgpack:"s,omitempty" json:"signer,omitzero"`
	// Statement is the digest of the attestation, and Serial that of its serial.
	Statement Digest `msgpack:"e,omitempty" json:"statement,omitzero"`
	Serial    Digest `msgpack:"r,omitempty" json:"serial,omitzero"`
	// Number is that of the newest list of revocations of the organisation.
	Number int64 `msgpack:"n,omitempty" json:"number,omitzero"`
	// Ended are the agents whose acceptance a list ends.
	Ended []string `msgpack:"x,omitempty" json:"ended,omitempty"`
}
