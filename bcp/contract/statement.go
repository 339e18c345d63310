package contract

import (
	"crypto/sha256"
	"time"

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
	// Reports is the digest of the reports on the contracts, zero if nothing is said of them.
	Reports bcp.Digest
	// Keys are the user nkeys that may speak for the agent.
	Keys            []string
	Issued, Expires time.Time
	Serial          string
}

// PermissionProof is the evidence that permissions keep the roles apart.
type PermissionProof struct {
	Claims, Holes int64
	JWTs          string // the digest of the JWTs that were proven
}

// shows reports whether a proof shows anything: claims without holes.
func (p *PermissionProof) shows() bool { return p != nil && p.Claims > 0 && p.Holes == 0 }

// inToto is an in-toto Statement about one subject.
type inToto struct {
	name      string // of the subject
	digest    bcp.Digest
	predicate value
}

// parseInToto reads a statement whose predicate is of a type, strictly.
func parseInToto(b []byte, predicateType string) (inToto, bool) {
	o, ok := value{raw: b}.closed(keys{required: []string{"_type", "subject", "predicateType", "predicate"}})
	if !ok {
		return inToto{}, false
	}
	kind, ok1 := o.get("_type").text(maxLabel)
	of, ok2 := o.get("predicateType").text(maxLabel)
	subjects, _, ok3 := o.get("subject").list(1)
	if !ok1 || !ok2 || !ok3 || kind != statementType || of != predicateType || len(subjects) == 0 {
		return inToto{}, false
	}
	subject, ok := subjects[0].closed(keys{required: []string{"name", "digest"}})
	if !ok {
		return inToto{}, false
	}
	digests, ok := subject.get("digest").closed(keys{required: []string{"sha256"}})
	if !ok {
		return inToto{}, false
	}
	s := inToto{predicate: o.get("predicate")}
	digest, ok1 := digests.get("sha256").label(maxLabel)
	s.name, ok2 = subject.get("name").label(maxLabel)
	return s, ok1 && ok2 && s.digest.UnmarshalText([]byte(digest)) == nil
}

// parseStatement reads the payload of an attestation, strictly but for evidence of
// kinds that are not known, which counts for nothing.
func parseStatement(b []byte) (Statement, bool) {
	in, ok := parseInToto(b, RoleType)
	s := Statement{Subject: in.name, SubjectDigest: in.digest}
	return s, ok && s.readPredicate(in.predicate)
}

func (s *Statement) readPredicate(v value) bool {
	o, ok := v.closed(keys{
		required: []string{"declaration", "keys", "issued", "expires", "serial"}, optional: []string{"evidence"},
	})
	if !ok {
		return false
	}
	var parts [6]bool
	declaration := o.get("declaration")
	s.Declaration, parts[0] = readDeclaration(declaration)
	s.DeclarationDigest = sha256.Sum256(declaration.raw)
	parts[1] = s.readEvidence(o.get("evidence"))
	s.Keys, parts[2] = o.get("keys").texts(maxKeys, maxLabel)
	s.Issued, parts[3] = o.get("issued").moment()
	s.Expires, parts[4] = o.get("expires").moment()
	s.Serial, parts[5] = o.get("serial").label(maxLabel)
	return parts == [6]bool{true, true, true, true, true, true}
}

func (s *Statement) readEvidence(v value) bool {
	if v.missing() {
		return true
	}
	evidence, _, ok := v.object()
	if !ok {
		return false
	}
	if reports := evidence.get("reports"); !reports.missing() {
		digest, ok := reports.label(maxLabel)
		if !ok || s.Reports.UnmarshalText([]byte(digest)) != nil {
			return false
		}
	}
	proof := evidence.get("permission_proof")
	if proof.missing() {
		return true
	}
	o, ok := proof.closed(keys{required: []string{"claims", "holes", "jwts"}})
	if !ok {
		return false
	}
	var p PermissionProof
	var ok1, ok2, ok3 bool
	p.Claims, ok1 = o.get("claims").count()
	p.Holes, ok2 = o.get("holes").count()
	p.JWTs, ok3 = o.get("jwts").label(maxLabel)
	s.Proof = &p
	return ok1 && ok2 && ok3
}
