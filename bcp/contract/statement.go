package contract

import (
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// RoleType is the predicate type of attestations.
const RoleType = "https://bcpmesh.dev/attestation/role/v1"

const (
	statementType  = "https://in-toto.io/Statement/v1"
	revocationType = "https://bcpmesh.dev/attestation/revocations/v1"
)

// Statement is what an organisation signs about one of its agents: an in-toto
// Statement, version 1.
type Statement struct {
	// Subject is the agent that the statement names as its subject, and
	// SubjectDigest what it says is the digest of the declaration.
	Subject       string
	SubjectDigest bcp.Digest

	Declaration Declaration
	// DeclarationDigest is SHA-256 of the declaration's bytes.
	DeclarationDigest bcp.Digest
	// Proof is the permission proof, or nil.
	Proof *PermissionProof
	// Keys are the user nkeys that may speak for the agent.
	Keys            []string
	Issued, Expires time.Time
	Serial          string
}

// PermissionProof is the evidence that permissions keep the roles apart.
type PermissionProof struct {
	Claims int64  `json:"claims"`
	Holes  int64  `json:"holes"`
	JWTs   string `json:"jwts"` // the digest of the JWTs that were proven
}

// shows reports whether a proof shows anything: claims without holes.
func (p *PermissionProof) shows() bool { return p != nil && p.Claims > 0 && p.Holes == 0 }

// parseInToto reads an in-toto Statement about one subject whose predicate is of a type,
// strictly: the subject's name, the digest that it has, and the predicate.
func parseInToto(b []byte, predicateType string) (name string, digest bcp.Digest, predicate []byte, ok bool) {
	var doc statementDocument
	if !decode(b, &doc) || doc.Type != statementType || doc.PredicateType != predicateType || len(doc.Subject) != 1 || doc.Predicate == nil {
		return "", digest, nil, false
	}
	subject := doc.Subject[0]
	ok = areLabels(subject.Name, subject.Digest.SHA256) && digest.UnmarshalText([]byte(subject.Digest.SHA256)) == nil
	return subject.Name, digest, doc.Predicate, ok
}

// parseStatement reads the payload of an attestation, strictly but for evidence of
// kinds that are not known, which counts for nothing.
func parseStatement(b []byte) (s Statement, ok bool) {
	var predicate []byte
	s.Subject, s.SubjectDigest, predicate, ok = parseInToto(b, RoleType)
	return s, ok && s.readPredicate(predicate)
}

func (s *Statement) readPredicate(b []byte) bool {
	var doc roleDocument
	if !decode(b, &doc) || !s.readEvidence(doc.Evidence) {
		return false
	}
	var ok bool
	s.Declaration, ok = readDeclaration(doc.Declaration)
	s.DeclarationDigest, s.Issued, s.Expires, s.Keys, s.Serial = sha256.Sum256(doc.Declaration), doc.Issued, doc.Expires, doc.Keys, doc.Serial
	return ok && !s.Issued.IsZero() && !s.Expires.IsZero() && isList(doc.Keys, maxKeys) && areLabels(doc.Serial)
}

func (s *Statement) readEvidence(b []byte) bool {
	if b == nil {
		return true
	}
	var doc struct {
		Proof jsontext.Value `json:"permission_proof"`
	}
	if json.Unmarshal(b, &doc) != nil {
		return false
	}
	if doc.Proof == nil {
		return true
	}
	s.Proof = &PermissionProof{Claims: -1, Holes: -1}
	return decode(doc.Proof, s.Proof) && s.Proof.Claims >= 0 && s.Proof.Holes >= 0 && areLabels(s.Proof.JWTs)
}
