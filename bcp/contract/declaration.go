package contract

import (
	"encoding/hex"
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

// IsOrganisation reports whether a text can be the name of an organisation: labels
// of lower case letters, digits and hyphens, with dots between them (RFC 1123).
func IsOrganisation(text string) bool { return len(text) <= 253 && organisations.MatchString(text) }

var organisations = regexp.MustCompile(`^` + hostLabel + `(\.` + hostLabel + `)*$`)

const hostLabel = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`

// Declaration says which roles an agent is made of, in the form of the draft
// (section 6).
type Declaration struct {
	Agent        AgentID
	Architecture string
	Planner      Part
	Processor    Part
	Orchestrator Part
}

// Part is one role of a declaration.
type Part struct {
	// Is names the model family of a planner or a processor, which nothing shows, or
	// the type of an orchestrator.
	Is       string
	Contract ContractRef
}

// ContractRef names a contract by its SHA-256. The zero value names none: a URL
// without a digest is such a reference, since whoever serves it could change it.
type ContractRef struct {
	Digest bcp.Digest
	Valid  bool
}

// parseContractRef reads sha256:<hex>, or a URL with #sha256=<hex>.
func parseContractRef(text string) ContractRef {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok {
		var address string
		address, digits, ok = strings.Cut(text, "#sha256=")
		ok = ok && strings.HasPrefix(address, "https://")
	}
	var ref ContractRef
	if !ok || len(digits) != hex.EncodedLen(len(ref.Digest)) || digits != strings.ToLower(digits) {
		return ContractRef{}
	}
	if _, err := hex.Decode(ref.Digest[:], []byte(digits)); err != nil {
		return ContractRef{}
	}
	ref.Valid = true
	return ref
}

// readDeclaration reads a declaration.
func readDeclaration(b []byte) (Declaration, bool) {
	var doc declarationDocument
	if !decode(b, &doc) {
		return Declaration{}, false
	}
	r := &doc.Roles
	id, ok := ParseAgentID(doc.ID)
	return Declaration{
		Agent: id, Architecture: r.Architecture,
		Planner:      Part{r.Planner.Family, parseContractRef(r.Planner.Contract)},
		Processor:    Part{r.Processor.Family, parseContractRef(r.Processor.Contract)},
		Orchestrator: Part{r.Orchestrator.Type, parseContractRef(r.Orchestrator.Contract)},
	}, ok && areLabels(doc.ID, r.Architecture, r.Planner.Family, r.Planner.Contract, r.Processor.Family, r.Processor.Contract, r.Orchestrator.Type, r.Orchestrator.Contract)
}
