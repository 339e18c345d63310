package agents

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ShowRole proves to the mesh of another organisation which roles the agent of this
// connection has, as its requirement of that name demands (PROTOCOL P14.1). organisation
// is the owner of the mesh: the proof is worth nothing to any other. A lost reply ends in
// no_proof: begin again.
//
// Errors: [*RefusedError] if the mesh requires no roles of this agent, or has no such
// requirement; [*UnansweredError]; [ErrMessage] for a challenge of another organisation.
func (c *Connection) ShowRole(ctx context.Context, organisation, requirement string, papers contract.Papers) (contract.Acceptance, error) {
	challenge, err := c.askRole(ctx, c.options.Name, contract.Message{Type: contract.TypeOpen, Name: requirement})
	if err != nil {
		return contract.Acceptance{}, err
	}
	if challenge.Type != contract.TypeChallenge || challenge.Asker != organisation {
		return contract.Acceptance{}, ErrMessage
	}
	papers.Attestation, papers.Revocations = papers.Attestation.Clone(), papers.Revocations.Clone()
	if err := errors.Join(papers.Attestation.Compact(), papers.Revocations.Compact()); err != nil {
		return contract.Acceptance{}, fmt.Errorf("agents: these are no envelopes: %w", err)
	}
	sign, key := c.nc.Opts.SignatureCB, c.userKey()
	if sign == nil || key == "" {
		return contract.Acceptance{}, errNoKey
	}
	signature, err := sign(contract.ProofStatement(challenge.Nonce, challenge.Asker, papers.Attestation))
	if err != nil {
		return contract.Acceptance{}, fmt.Errorf("agents: signing: %w", err)
	}
	return c.verdict(c.askRole(ctx, c.options.Name, contract.Message{
		Type: contract.TypeDeclaration, Declaration: contract.AttestedDeclaration(papers.Attestation), Papers: papers,
		Proof: &contract.Proof{Key: key, Signature: signature},
	}))
}

// RoleTrust is how an agent of another organisation is judged.
type RoleTrust struct {
	Keys []bcp.Trust
	// LastRevocations is the number of the newest list seen.
	LastRevocations int64
	Requirement     contract.Requirement
}

// JudgeRole challenges an agent of the mesh, judges its gateway's answer, and reports
// the verdict to the mesh, which records it. Agent is the id in the answer, such as
// agent-a@org1.example. The list of revocations is that of the answer: keep its number.
func (c *Connection) JudgeRole(ctx context.Context, agent contract.AgentID, trust RoleTrust) (contract.Acceptance, contract.Revocations, error) {
	key := c.userKey()
	if key == "" {
		return contract.Acceptance{}, contract.Revocations{}, errNoKey
	}
	nonce := rand.Text()
	answer, err := c.askRole(ctx, agent.Name, contract.Message{Type: contract.TypeChallenge, Nonce: nonce, Asker: key, Requirement: jsontext.Value("{}")})
	if err != nil {
		return contract.Acceptance{}, contract.Revocations{}, err
	}
	e := trust.examination(agent, answer)
	e.Challenge = &contract.Challenge{Nonce: nonce, Asker: key, Verify: verifyUser}
	if answer.Proof != nil {
		e.Proof = *answer.Proof
	}
	a := contract.JudgeAttestation(&e)
	told := contract.Message{Type: contract.TypeVerdict, Accepted: a.Accepted, Code: a.Code, Until: a.Until.UTC().Truncate(time.Second)}
	_, err = c.askRole(ctx, agent.Name, told)
	return a, e.Revocations, err
}

// JudgePapers judges an agent by its papers alone, which anybody may have who has seen them.
func JudgePapers(agent contract.AgentID, papers contract.Papers, trust RoleTrust) (contract.Acceptance, contract.Revocations) {
	e := trust.examination(agent, contract.Message{Papers: papers})
	return contract.JudgeAttestation(&e), e.Revocations
}

// examination is what an agent is judged by, of whom so much was said.
func (t RoleTrust) examination(agent contract.AgentID, said contract.Message) contract.Examination {
	e := contract.Examination{
		Agent: agent.String(), Trust: t.Keys, LastNumber: t.LastRevocations, Now: time.Now(), Requirement: t.Requirement,
		Verify: func(key [32]byte, message, signature []byte) bool { return ed25519.Verify(key[:], message, signature) },
	}
	e.Hear(&said, agent.Organisation)
	return e
}

// OlderList is the detail of the refusal of a list older than one already seen.
const OlderList = "older than one that was seen"

// BringRevocations gives the mesh a signed list of revocations of an organisation
// that it trusts; everything on the list ends.
func (c *Connection) BringRevocations(ctx context.Context, list []byte) error {
	v, err := c.verdict(c.askRole(ctx, c.options.Name, contract.Message{Type: contract.TypeRevocations, Papers: contract.Papers{Revocations: list}}))
	return taken(v, err)
}

// BringRevocations is [Connection.BringRevocations] of the operator.
func (o *Operator) BringRevocations(ctx context.Context, list []byte) error {
	m, err := control[contract.Message](ctx, o, bcp.ControlRevocations, contract.Message{Type: contract.TypeRevocations, Papers: contract.Papers{Revocations: list}})
	return taken(contract.Acceptance{Accepted: m.Accepted}, err)
}

func taken(v contract.Acceptance, err error) error {
	if err == nil && !v.Accepted {
		return &RefusedError{Code: bcp.NotPermitted, Detail: OlderList}
	}
	return err
}

func (c *Connection) verdict(m contract.Message, err error) (contract.Acceptance, error) {
	if err == nil && (m.Type != contract.TypeVerdict || m.Accepted != (m.Code == "")) {
		err = ErrMessage
	}
	if err != nil {
		return contract.Acceptance{}, err
	}
	return contract.Acceptance{Accepted: m.Accepted, Code: m.Code, Until: m.Until}, nil
}

// askRole sends a message about the roles of an agent. Envelopes are sent unchanged:
// their digest is signed.
func (c *Connection) askRole(ctx context.Context, about bcp.AgentName, m contract.Message) (contract.Message, error) {
	return askJSON[contract.Message](ctx, c, subjects.Role(c.options.Name, about), m)
}

// userKey is the public nkey of the connection's creds, or nothing.
func (c *Connection) userKey() string {
	user := c.claims()
	if !nkeys.IsValidPublicUserKey(user.Subject) {
		return ""
	}
	return user.Subject
}

// claims reads the connection's creds; the zero value means none.
func (c *Connection) claims() *jwt.UserClaims {
	if c.nc.Opts.UserJWT != nil {
		if token, err := c.nc.Opts.UserJWT(); err == nil {
			if user, err := jwt.DecodeUserClaims(token); err == nil {
				return user
			}
		}
	}
	return &jwt.UserClaims{}
}

func verifyUser(key string, statement, signature []byte) bool {
	if !nkeys.IsValidPublicUserKey(key) {
		return false
	}
	public, err := nkeys.FromPublicKey(key)
	return err == nil && public.Verify(statement, signature) == nil
}
