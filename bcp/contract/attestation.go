package contract

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// VerdictCode says why a peer's agent is not accepted. The empty code accepts.
type VerdictCode string

// The codes, in the order in which they are looked for.
const (
	MalformedAttestation VerdictCode = "malformed"
	UnknownOrganisation  VerdictCode = "unknown_organisation" // nobody trusts a key of it
	BadSignature         VerdictCode = "bad_signature"
	NotCurrent           VerdictCode = "not_current" // not yet, no longer, or for too long; or the revocations are old
	Revoked              VerdictCode = "revoked"
	WrongAgent           VerdictCode = "wrong_agent" // it is about another agent, or another declaration
	NoProof              VerdictCode = "no_proof"    // who answers has none of the keys
	UnknownArchitecture  VerdictCode = "unknown_architecture"
	ContractMissing      VerdictCode = "contract_missing"
	ContractWeak         VerdictCode = "contract_weak" // an invariant is missing, or is held at a weaker level
	EvidenceMissing      VerdictCode = "evidence_missing"
)

// verdictTexts say what each code means, in the order in which they are looked for.
var verdictTexts = codeTexts[VerdictCode]{
	{MalformedAttestation, "this is no attestation"},
	{UnknownOrganisation, "no key of its organisation is trusted"},
	{BadSignature, "no trusted key of its organisation signed it"},
	{NotCurrent, "it is not valid now, or for longer than 7 days, or the list of revocations is missing or old"},
	{Revoked, "its organisation revoked it"},
	{WrongAgent, "it is about another agent"},
	{NoProof, "who answers has no key of the agent"},
	{UnknownArchitecture, "its architecture is not one that is required"},
	{ContractMissing, "a contract that it refers to is missing, or is named without its digest"},
	{ContractWeak, "its contracts do not promise what is required"},
	{EvidenceMissing, "it has no permission proof without holes, or an old one"},
}

// VerdictCodes returns all codes, in the order in which they are looked for.
func VerdictCodes() []VerdictCode { return verdictTexts.codes() }

// Text returns a sentence for people, or the code itself if it is unknown.
func (c VerdictCode) Text() string { return verdictTexts.of(c) }

// Verifier checks an ed25519 signature. It must not panic. Nil refuses everything.
type Verifier func(key [32]byte, message, signature []byte) bool

// Proof shows that somebody has a key of an agent: a signature of
// [ProofStatement] with a user nkey.
type Proof struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// Challenge is what a proof answers. The asker chose the nonce, and uses it once.
type Challenge struct {
	Nonce string `json:"nonce"`
	Asker string `json:"asker"`
	// Verify checks a signature of a user nkey. Nil refuses.
	Verify bcp.Verifier `json:"-"`
}

// ProofStatement returns the bytes that a user nkey signs to answer a challenge about
// an envelope.
func ProofStatement(nonce, asker string, envelope []byte) []byte {
	digest, _ := bcp.Digest(sha256.Sum256(envelope)).MarshalText()
	return []byte("bcpmesh role 1\nnonce " + nonce + "\nattestation " + string(digest) + "\nto " + asker + "\n")
}

// Examination is all that a verdict about an attestation depends on.
type Examination struct {
	// Envelope is the attestation, as it came.
	Envelope []byte
	// Agent is who it has to be about, and Declaration what came beside the envelope and
	// has to be the one that it is about; nil: nothing came.
	Agent       string
	Declaration []byte
	// Trust has the keys of organisations.
	Trust []bcp.Trust
	// Revocations is the list of the agent's organisation, and LastNumber the
	// greatest number of such a list that was seen.
	Revocations Revocations
	LastNumber  int64
	Now         time.Time
	Requirement Requirement
	// Contracts are the bytes of the contracts that the declaration may refer to.
	Contracts [][]byte
	// Challenge is what Proof has to answer, or nil: then who answers is not asked
	// for a proof.
	Challenge *Challenge
	Proof     Proof
	// Verify checks the signatures of the envelope.
	Verify Verifier
}

// Hear takes what was said of an agent of an organisation; Trust, Now and Verify are set. The
// code is that of the list of revocations.
func (e *Examination) Hear(said *Message, organisation string) (list VerdictCode) {
	e.Envelope, e.Declaration = said.Attestation, said.Declaration
	e.Revocations, list = OpenRevocations(said.Revocations, organisation, e.Trust, e.Now, e.Verify)
	for _, b := range Builtins() {
		e.Contracts = append(e.Contracts, []byte(b.Bytes))
	}
	for _, c := range said.Contracts {
		e.Contracts = append(e.Contracts, []byte(c))
	}
	return list
}

// Acceptance says what was found about an attestation. The zero value accepts
// nothing.
type Acceptance struct {
	Accepted bool
	Code     VerdictCode // empty if accepted
	// Until is the first moment at which this has to be judged again.
	Until time.Time
	// Signer is the key that signed it, zero if none that is trusted did.
	Signer [32]byte
	// Statement is what was read, also of one that is refused; it is to be trusted
	// only if it is accepted.
	Statement Statement
}

// JudgeAttestation decides whether an agent of another organisation is what it is
// required to be. The code is that of the first check that fails.
func JudgeAttestation(e *Examination) Acceptance {
	envelope, ok := ParseEnvelope(e.Envelope)
	if !ok {
		return Acceptance{Code: MalformedAttestation}
	}
	s, ok := parseStatement(envelope.Payload)
	if !ok {
		return Acceptance{Code: MalformedAttestation}
	}
	a := Acceptance{Statement: s}
	organisation := s.Declaration.Agent.Organisation
	keys := validKeys(e.Trust, organisation, e.Now)
	if len(keys) == 0 {
		a.Code = UnknownOrganisation
		return a
	}
	signer, ok := signer(keys, &envelope, e.Verify)
	if !ok {
		a.Code = BadSignature
		return a
	}
	a.Signer = signer.Key
	for _, check := range []struct {
		code VerdictCode
		ok   bool
	}{
		{NotCurrent, s.current(e.Now) && e.Revocations.current(e.Now, e.LastNumber)},
		{Revoked, !e.Revocations.revokes(&s, e.signingKey())},
		{WrongAgent, s.isAbout(e.Agent) && (e.Declaration == nil || s.declares(e.Declaration))},
		{NoProof, e.proven(&s)},
		{UnknownArchitecture, e.Requirement.recognises(&s.Declaration)},
	} {
		if !check.ok {
			a.Code = check.code
			return a
		}
	}
	if a.Code = e.judgeContracts(&s.Declaration); a.Code != "" {
		return a
	}
	if r := e.Requirement; r.Proof && !s.Proof.shows() || r.MaxAge > 0 && e.Now.Sub(s.Issued) > r.MaxAge {
		a.Code = EvidenceMissing
		return a
	}
	a.Accepted, a.Until = true, e.validUntil(&s, signer)
	return a
}

// validKeys returns the keys that are trusted for an organisation at a moment.
func validKeys(trust []bcp.Trust, organisation string, now time.Time) []bcp.Trust {
	return slices.DeleteFunc(slices.Clone(trust), func(t bcp.Trust) bool {
		return t.Organisation != organisation || !t.Until.IsZero() && !now.Before(t.Until)
	})
}

// signer returns the key of which the envelope has a signature, the one that is
// trusted longest if there are several.
func signer(keys []bcp.Trust, envelope *Envelope, verify Verifier) (bcp.Trust, bool) {
	if verify == nil {
		return bcp.Trust{}, false
	}
	message := PAE(PayloadType, envelope.Payload)
	var best bcp.Trust
	found := false
	for _, key := range keys {
		signed := slices.ContainsFunc(envelope.Signatures, func(signature []byte) bool { return verify(key.Key, message, signature) })
		if signed && (!found || !best.Until.IsZero() && (key.Until.IsZero() || key.Until.After(best.Until))) {
			best, found = key, true
		}
	}
	return best, found
}

// current reports whether a statement is good at a moment.
func (s *Statement) current(now time.Time) bool {
	return !now.Before(s.Issued) && now.Before(s.Expires) && s.Expires.Sub(s.Issued) <= MaxValidity
}

// isAbout reports whether a statement's subject is the agent, by this declaration.
func (s *Statement) isAbout(agent string) bool {
	return s.Subject == agent && s.Declaration.Agent.String() == agent && s.SubjectDigest == s.DeclarationDigest
}

// declares reports whether a declaration says what that of the statement says.
func (s *Statement) declares(declaration []byte) bool {
	d, ok := readDeclaration(declaration)
	return ok && d == s.Declaration
}

// AttestedRoles returns the declaration that an envelope is about, of which nothing is verified.
func AttestedRoles(envelope []byte) (Declaration, bool) {
	e, ok := ParseEnvelope(envelope)
	if !ok {
		return Declaration{}, false
	}
	s, ok := parseStatement(e.Payload)
	return s.Declaration, ok
}

// AttestedDeclaration returns the bytes of the declaration in an envelope, of which
// nothing is verified, or nil.
func AttestedDeclaration(envelope []byte) []byte {
	e, _ := ParseEnvelope(envelope)
	var doc roleDocument
	if _, _, predicate, ok := parseInToto(e.Payload, RoleType); !ok || !decode(predicate, &doc) {
		return nil
	}
	return doc.Declaration
}

// signingKey returns the key that has to prove itself, or nothing if none has to.
func (e *Examination) signingKey() string {
	if e.Challenge == nil {
		return ""
	}
	return e.Proof.Key
}

// proven reports whether who answers has a key of the agent.
func (e *Examination) proven(s *Statement) bool {
	if e.Challenge == nil {
		return true
	}
	c := e.Challenge
	return c.Verify != nil && slices.Contains(s.Keys, e.Proof.Key) &&
		c.Verify(e.Proof.Key, ProofStatement(c.Nonce, c.Asker, e.Envelope), e.Proof.Signature)
}

// judgeContracts judges the contracts that a declaration refers to. Those of planner
// and processor have to be there, that of the orchestrator if something is demanded
// of it.
func (e *Examination) judgeContracts(d *Declaration) VerdictCode {
	contracts := map[Role]*Contract{}
	for _, part := range []struct {
		role Role
		ref  ContractRef
	}{{Planner, d.Planner.Contract}, {Processor, d.Processor.Contract}, {Orchestrator, d.Orchestrator.Contract}} {
		c := e.contract(part.ref)
		demanded := part.role != Orchestrator || slices.ContainsFunc(e.Requirement.Demands, func(d Demand) bool { return d.role() == part.role })
		switch {
		case c != nil && c.Role == part.role:
			contracts[part.role] = c
		case c != nil || demanded || !part.ref.valid():
			return ContractMissing
		}
	}
	for _, demand := range e.Requirement.Demands {
		level, found := Declared, false
		for _, c := range contracts {
			if declared, ok := c.declares(demand.Name, demand.Args); ok {
				level, found = max(level, declared), true
			}
		}
		if !found || level < demand.Level {
			return ContractWeak
		}
	}
	return ""
}

// contract returns the contract that a reference names, or nil if it is not there or
// is not a contract.
func (e *Examination) contract(ref ContractRef) *Contract {
	for _, b := range e.Contracts {
		if len(b) > MaxContract || ref != RefTo(sha256.Sum256(b)) {
			continue
		}
		if c, defects := Parse(b); len(defects) == 0 {
			return &c
		}
	}
	return nil
}

// validUntil returns when an acceptance ends: with the statement, the trust in its signer,
// the revocations or the age of the evidence, whichever is first.
func (e *Examination) validUntil(s *Statement, signer bcp.Trust) time.Time {
	until := s.Expires
	first := func(t time.Time) {
		if t.Before(until) {
			until = t
		}
	}
	first(e.Revocations.Next)
	if !signer.Until.IsZero() {
		first(signer.Until)
	}
	if age := e.Requirement.MaxAge; age > 0 {
		first(s.Issued.Add(age + time.Nanosecond))
	}
	return until
}
