package contract

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Revocations is an organisation's list of what is no longer good. Whoever gives it
// to [JudgeAttestation] has verified its signature. The zero value is current at no
// moment.
type Revocations struct {
	Number  int64     `json:"number"`
	Issued  time.Time `json:"issued"`
	Next    time.Time `json:"next"`    // when the next list is due
	Serials []string  `json:"serials"` // of statements
	Keys    []string  `json:"keys"`    // user nkeys
}

// ParseRevocations reads a list without its envelope, strictly.
func ParseRevocations(b []byte) (Revocations, bool) {
	r := Revocations{Number: -1}
	if len(b) > MaxEnvelope || !decode(b, &r) || r.Issued.IsZero() || r.Next.IsZero() || r.Number < 0 ||
		!isList(r.Serials, maxRevoked) || !isList(r.Keys, maxRevoked) {
		return Revocations{}, false
	}
	return r, true
}

// OpenRevocations reads a signed list of an organisation: a statement about the
// organisation and the digest of the list. The code is empty, malformed,
// unknown_organisation, bad_signature, or wrong_agent for another subject.
func OpenRevocations(b []byte, organisation string, trust []bcp.Trust, now time.Time, verify Verifier) (Revocations, VerdictCode) {
	envelope, ok := ParseEnvelope(b)
	if !ok {
		return Revocations{}, MalformedAttestation
	}
	name, digest, predicate, ok := parseInToto(envelope.Payload, revocationType)
	if !ok {
		return Revocations{}, MalformedAttestation
	}
	list, ok := ParseRevocations(predicate)
	keys := validKeys(trust, organisation, now)
	switch _, signed := signer(keys, &envelope, verify); {
	case !ok:
		return Revocations{}, MalformedAttestation
	case len(keys) == 0:
		return Revocations{}, UnknownOrganisation
	case !signed:
		return Revocations{}, BadSignature
	case name != organisation || digest != sha256.Sum256(predicate):
		return Revocations{}, WrongAgent
	default:
		return list, ""
	}
}

// current reports whether a list can be relied on at a moment: it is no older than
// the last one that was seen, and the next one is not due yet.
func (r *Revocations) current(now time.Time, last int64) bool {
	return r.Number >= last && !now.Before(r.Issued) && now.Before(r.Next)
}

// revokes reports whether a statement is revoked: by its serial, or by a key that
// speaks for the agent. If it is not known which key speaks, any of them counts.
func (r *Revocations) revokes(s *Statement, speaks string) bool {
	if slices.Contains(r.Serials, s.Serial) {
		return true
	}
	return slices.ContainsFunc(s.Keys, func(key string) bool {
		return (speaks == "" || key == speaks) && slices.Contains(r.Keys, key)
	})
}
