package contract

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// AgentID names an agent of an organisation: agent-a@org1.example. The zero value
// names no agent.
type AgentID struct {
	Name         bcp.AgentName
	Organisation string
}

// String writes the id as declarations have it.
func (id AgentID) String() string { return string(id.Name) + "@" + id.Organisation }

// ParseAgentID reads an id. Organisations are names of hosts in lower case.
func ParseAgentID(text string) (AgentID, bool) {
	name, organisation, _ := strings.Cut(text, "@")
	agent, err := bcp.ParseAgentName(name)
	if err != nil || !IsOrganisation(organisation) {
		return AgentID{}, false
	}
	return AgentID{agent, organisation}, true
}

// MarshalText is [AgentID.String].
func (id AgentID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is [ParseAgentID].
func (id *AgentID) UnmarshalText(b []byte) error {
	parsed, ok := ParseAgentID(string(b))
	if *id = parsed; !ok {
		return errors.New("contract: no id of an agent")
	}
	return nil
}

// IsOrganisation reports whether a text can be the name of an organisation: labels
// of lower case letters, digits and hyphens, with dots between them (RFC 1123).
func IsOrganisation(text string) bool { return len(text) <= 253 && organisations.MatchString(text) }

var organisations = regexp.MustCompile(`^` + hostLabel + `(\.` + hostLabel + `)*$`)

const hostLabel = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`

// Declaration says which roles an agent is made of, in the form of the draft
// (section 6).
type Declaration struct {
	Agent AgentID `json:"agent:id"`
	Parts `json:"agent:role_declaration"`
}

// Parts are the roles of a declaration.
type Parts struct {
	Architecture string      `json:"architecture"`
	Planner      Part        `json:"planner"`
	Processor    Part        `json:"processor"`
	Orchestrator Interpreter `json:"orchestrator"`
}

// Part is a planner or a processor.
type Part struct {
	Is       string      `json:"model_family"` // which nothing shows
	Contract ContractRef `json:"contract_ref"`
}

// Interpreter is an orchestrator.
type Interpreter struct {
	Is       string      `json:"type"`
	Contract ContractRef `json:"contract_ref"`
}

// ContractRef names a contract by its SHA-256, as sha256:<hex>. Any other text names none:
// whoever serves a URL without a digest could change what is there.
type ContractRef string

// RefTo names the contract whose bytes have a digest.
func RefTo(digest bcp.Digest) ContractRef {
	return ContractRef(refScheme + hex.EncodeToString(digest[:]))
}

const refScheme = "sha256:"

// UnmarshalText reads a reference. Of a URL with #sha256=<hex> it is the digest.
func (r *ContractRef) UnmarshalText(b []byte) error {
	*r = ContractRef(b)
	if address, digits, ok := strings.Cut(string(b), "#sha256="); ok && strings.HasPrefix(address, "https://") {
		*r = refScheme + ContractRef(digits)
	}
	if !areLabels(string(b)) {
		return errors.New("contract: a reference of no text, or a long one")
	}
	return nil
}

// valid reports whether it names a contract.
func (r ContractRef) valid() bool {
	var digest bcp.Digest
	digits, ok := strings.CutPrefix(string(r), refScheme)
	return ok && digest.UnmarshalText([]byte(digits)) == nil && r == RefTo(digest)
}

// readDeclaration reads a declaration.
func readDeclaration(b []byte) (d Declaration, ok bool) {
	if !decode(b, &d) {
		return Declaration{}, false
	}
	return d, d.Agent.Name != "" && areLabels(d.Architecture, d.Planner.Is, string(d.Planner.Contract), d.Processor.Is, string(d.Processor.Contract), d.Orchestrator.Is, string(d.Orchestrator.Contract))
}
