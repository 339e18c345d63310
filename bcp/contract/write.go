package contract

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What cannot be written, since no reader would take it.
var (
	errDeclaration = errors.New("the declaration names no agent, or no contract of a role")
	errStatement   = errors.New("the statement would be refused by every reader")
	errMessage     = errors.New("the message would be refused by every reader")
	errRevocations = errors.New("the list of revocations would be refused by every reader")
)

// AttestedEvidence is what an organisation states of its mesh beside a declaration. Nobody else
// signs it. The zero value states nothing.
type AttestedEvidence struct {
	Proof *PermissionProof
	// Definitions is the digest of the definition files, which have all rules.
	Definitions bcp.Digest
	// Reports is the digest of what bcpmesh role report --json said, byte for byte.
	Reports bcp.Digest
	// Build is the version of the program.
	Build string
	// Checkpoint is the newest checkpoint of the journal, a note.
	Checkpoint string
}

type statementDocument struct {
	Type          string            `json:"_type"`
	Subject       []subjectDocument `json:"subject"`
	PredicateType string            `json:"predicateType"`
	Predicate     jsontext.Value    `json:"predicate"`
}

type subjectDocument struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type declarationDocument struct {
	ID    string        `json:"agent:id"`
	Roles rolesDocument `json:"agent:role_declaration"`
}

type rolesDocument struct {
	Architecture string        `json:"architecture"`
	Planner      modelDocument `json:"planner"`
	Processor    modelDocument `json:"processor"`
	Orchestrator typeDocument  `json:"orchestrator"`
}

type modelDocument struct {
	Family   string `json:"model_family"`
	Contract string `json:"contract_ref"`
}

type typeDocument struct {
	Type     string `json:"type"`
	Contract string `json:"contract_ref"`
}

type roleDocument struct {
	Declaration jsontext.Value   `json:"declaration"`
	Evidence    evidenceDocument `json:"evidence"`
	Keys        []string         `json:"keys"`
	Issued      string           `json:"issued"`
	Expires     string           `json:"expires"`
	Serial      string           `json:"serial"`
}

type evidenceDocument struct {
	Proof       *proofDocument `json:"permission_proof,omitzero"`
	Definitions string         `json:"definitions,omitzero"`
	Reports     string         `json:"reports,omitzero"`
	Build       string         `json:"build,omitzero"`
	Checkpoint  string         `json:"checkpoint,omitzero"`
}

type proofDocument struct {
	Claims int64  `json:"claims"`
	Holes  int64  `json:"holes"`
	JWTs   string `json:"jwts"`
}

type revocationsDocument struct {
	Number  int64    `json:"number"`
	Issued  string   `json:"issued"`
	Next    string   `json:"next"`
	Serials []string `json:"serials"`
	Keys    []string `json:"keys"`
}

type envelopeDocument struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []signatureDocument `json:"signatures"`
}

type signatureDocument struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// String writes a reference as sha256:<hex>, or nothing of one that names no contract.
func (r ContractRef) String() string {
	if !r.Valid {
		return ""
	}
	return "sha256:" + hex.EncodeToString(r.Digest[:])
}

// WriteDeclaration returns the bytes of a declaration, in the form of the draft.
func WriteDeclaration(d *Declaration) ([]byte, error) {
	b, err := json.Marshal(declarationDocument{d.Agent.String(), rolesDocument{
		Architecture: d.Architecture,
		Planner:      modelDocument{d.Planner.Is, d.Planner.Contract.String()},
		Processor:    modelDocument{d.Processor.Is, d.Processor.Contract.String()},
		Orchestrator: typeDocument{d.Orchestrator.Is, d.Orchestrator.Contract.String()},
	}})
	if err != nil {
		return nil, err
	}
	if read, ok := readDeclaration(value{raw: b}); !ok || read != *d {
		return nil, errDeclaration
	}
	return b, nil
}

// WriteStatement returns the payload of an attestation about a declaration. Moments are
// written in whole seconds. Of the statement, Declaration, Keys, Issued, Expires and
// Serial are taken. What a reader would refuse is an error.
func WriteStatement(s *Statement, evidence AttestedEvidence) ([]byte, error) {
	declaration, err := WriteDeclaration(&s.Declaration)
	if err != nil {
		return nil, err
	}
	e := evidenceDocument{Definitions: digits(evidence.Definitions), Reports: digits(evidence.Reports), Build: evidence.Build, Checkpoint: evidence.Checkpoint}
	if p := evidence.Proof; p != nil {
		e.Proof = &proofDocument{p.Claims, p.Holes, p.JWTs}
	}
	predicate, err := json.Marshal(roleDocument{declaration, e, nonNil(s.Keys), moment(s.Issued), moment(s.Expires), s.Serial})
	if err != nil {
		return nil, err
	}
	payload, err := writeInToto(s.Declaration.Agent.String(), declaration, RoleType, predicate)
	if err != nil {
		return nil, err
	}
	if read, ok := parseStatement(payload); len(payload) > MaxEnvelope || !ok || !read.current(read.Issued) || !read.isAbout(read.Subject) || len(read.Keys) == 0 {
		return nil, errStatement
	}
	return payload, nil
}

// WriteRevocations returns the payload of an organisation's list.
func WriteRevocations(organisation string, r *Revocations) ([]byte, error) {
	list, err := json.Marshal(revocationsDocument{r.Number, moment(r.Issued), moment(r.Next), nonNil(r.Serials), nonNil(r.Keys)})
	if err != nil {
		return nil, err
	}
	payload, err := writeInToto(organisation, list, revocationType, list)
	if err != nil {
		return nil, err
	}
	if read, ok := ParseRevocations(list); len(payload) > MaxEnvelope || !ok || !IsOrganisation(organisation) || !read.current(read.Issued, read.Number) {
		return nil, errRevocations
	}
	return payload, nil
}

func writeInToto(name string, about []byte, predicateType string, predicate []byte) ([]byte, error) {
	digest := sha256.Sum256(about)
	return json.Marshal(statementDocument{
		statementType, []subjectDocument{{name, map[string]string{"sha256": hex.EncodeToString(digest[:])}}}, predicateType, predicate,
	})
}

// WriteEnvelope returns the DSSE envelope of a payload with one signature, which is of
// [PAE]. The key id is a hint for people.
func WriteEnvelope(payload []byte, keyID string, signature []byte) []byte {
	b, _ := json.Marshal(envelopeDocument{PayloadType, base64.StdEncoding.EncodeToString(payload), []signatureDocument{{keyID, base64.StdEncoding.EncodeToString(signature)}}})
	return b // texts alone cannot fail
}

func digits(d bcp.Digest) string {
	if d == (bcp.Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
