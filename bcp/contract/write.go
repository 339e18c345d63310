package contract

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// AttestedEvidence is what an organisation states of its mesh beside a declaration. Nobody else
// signs it. The zero value states nothing. Of what is read the proof counts, and kinds that are not known are nothing.
type AttestedEvidence struct {
	Proof *PermissionProof `json:"permission_proof,omitzero"`
	// Definitions is the digest of the definition files, which have all rules.
	Definitions bcp.Digest `json:"definitions,omitzero"`
	// Build is the version of the program.
	Build string `json:"build,omitzero"`
	// Checkpoint is the newest checkpoint of the journal, a note.
	Checkpoint string `json:"checkpoint,omitzero"`
}

// WriteDeclaration returns the bytes of a declaration, in the form of the draft.
func WriteDeclaration(d *Declaration) ([]byte, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if read, ok := readDeclaration(b); !ok || read != *d || !d.Planner.Contract.valid() || !d.Processor.Contract.valid() || !d.Orchestrator.Contract.valid() {
		return nil, errors.New("the declaration names no agent, or no contract of a role")
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
	stated, err := json.Marshal(evidence)
	if err != nil {
		return nil, err
	}
	predicate, err := json.Marshal(roleDocument{declaration, stated, s.Keys, s.Issued, s.Expires, s.Serial}, moments)
	if err != nil {
		return nil, err
	}
	payload, err := writeInToto(s.Declaration.Agent.String(), declaration, RoleType, predicate)
	if err != nil {
		return nil, err
	}
	if read, ok := parseStatement(payload); len(payload) > MaxEnvelope || !ok || !read.current(read.Issued) || !read.isAbout(read.Subject) || len(read.Keys) == 0 {
		return nil, errors.New("the statement would be refused by every reader")
	}
	return payload, nil
}

// WriteRevocations returns the payload of an organisation's list.
func WriteRevocations(organisation string, r *Revocations) ([]byte, error) {
	list, err := json.Marshal(r, moments)
	if err != nil {
		return nil, err
	}
	payload, err := writeInToto(organisation, list, revocationType, list)
	if err != nil {
		return nil, err
	}
	if read, ok := ParseRevocations(list); len(payload) > MaxEnvelope || !ok || !IsOrganisation(organisation) || !read.current(read.Issued, read.Number) {
		return nil, errors.New("the list of revocations would be refused by every reader")
	}
	return payload, nil
}

func writeInToto(name string, about []byte, predicateType string, predicate []byte) ([]byte, error) {
	digest := sha256.Sum256(about)
	return json.Marshal(statementDocument{
		statementType, []subjectDocument{{name, digestDocument{hex.EncodeToString(digest[:])}}}, predicateType, predicate,
	})
}

// WriteEnvelope returns the DSSE envelope of a payload with one signature, which is of
// [PAE]. The key id is a hint for people.
func WriteEnvelope(payload []byte, keyID string, signature []byte) []byte {
	sig := base64.StdEncoding.EncodeToString(signature)
	b, _ := json.Marshal(envelopeDocument{PayloadType, base64.StdEncoding.EncodeToString(payload), []signatureDocument{{keyID, &sig}}})
	return b // texts alone cannot fail
}
