package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Negotiation about roles (PROTOCOL P14): the gateway judges agents of other
// organisations, and shows them what the operator's machine has signed about agents of
// this mesh.

// Attested are the signed statements of the operator's machine about an agent of this
// mesh.
type Attested struct {
	Envelope, Revocations []byte
	Contracts             []string // except built-in ones
}

// Roles are the inputs of negotiations. They include no key of the organisation.
type Roles struct {
	// Attested returns the signed statements about an agent, or an error if there
	// are none. The gateway's goroutine calls it: it may only read small files.
	Attested func(bcp.AgentName) (Attested, error)
	// Signer returns the user nkey of the gateway, which signs for its agents.
	Signer func() (Signer, error)
}

// Signer signs with a user nkey.
type Signer interface {
	PublicKey() string
	Sign(message []byte) ([]byte, error)
}

// nonceLife is how long a challenge may be answered.
const nonceLife = time.Minute

// challenge is the gateway's challenge to an agent of another organisation.
type challenge struct {
	nonce, requirement string
	until              time.Time
}

// rolesAnswer is the answer to a message about roles.
type rolesAnswer struct {
	message *contract.Message
	verdict *contract.Message // of a decision
	over    bcp.Role          // the role of the connection
}

// decideRole judges a message about roles. It is false if there is nothing to record;
// then in.roles has the answer.
func (g *Gateway) decideRole(m bcp.Moment, in *input) (bcp.Decision, bool) {
	s := &in.subject
	if g.config.Roles == nil || g.config.State.Mesh.Organisation == "" {
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	if g.state.Limited(s.Agent, m) {
		return bcp.Decision{Code: bcp.RateLimited}, false
	}
	message, code := contract.ParseMessage(in.body)
	if code != "" {
		return bcp.Decision{Code: code}, false
	}
	role, own := in.roles.over, s.Agent == s.Peer
	switch {
	case message.Type == contract.TypeRevocations:
		list, ok := g.openRevocations(message.Revocations, m.Now)
		if !ok {
			return bcp.Decision{Code: bcp.Malformed}, false
		}
		in.roles.message = &contract.Message{Type: contract.TypeVerdict, Accepted: true}
		return g.state.DecideRevocations(m, s.Agent, role, in.body, list)
	case own && message.Type == contract.TypeOpen:
		in.roles.message, code = g.challenge(m.Now, s.Agent, message.Name)
		return bcp.Decision{Code: code}, false
	case own && message.Type == contract.TypeDeclaration:
		asked := g.takeChallenge(m.Now, s.Agent)
		verdict := g.judge(m.Now, in, &message, asked)
		d := g.state.DecideDeclare(m, s.Agent, role, asked.requirement, in.from.Key, in.body, verdict)
		if d.Declare != nil {
			in.roles.verdict = &contract.Message{Type: contract.TypeVerdict, Accepted: d.Verdict == bcp.Accept, Code: contract.VerdictCode(d.Declare.Why)}
			if d.Verdict == bcp.Accept {
				in.roles.verdict.Until = time.Unix(0, d.Declare.Until).UTC().Truncate(time.Second)
			}
		}
		return d, d.Code != bcp.RateLimited
	case !own && message.Type == contract.TypeChallenge:
		in.roles.message, code = g.declare(s.Peer, in.from.Key, &message)
		return bcp.Decision{Code: code}, false
	case !own && message.Type == contract.TypeVerdict:
		in.roles.message = &contract.Message{Type: contract.TypeVerdict, Accepted: true}
		return g.state.DecideHeard(m, s.Agent, role, s.Peer, in.body, state.RoleVerdict{Accepted: message.Accepted, Code: string(message.Code), Until: message.Until}), true
	}
	return bcp.Decision{Code: bcp.Malformed}, false
}

// answerRole answers a message about roles, always in JSON.
func (g *Gateway) answerRole(in *input, d *bcp.Decision) {
	conn, to := g.agentLink(in.sender()), in.inbox()
	if conn == nil || to == "" {
		return
	}
	var b []byte
	var err error
	switch {
	case in.roles.verdict != nil:
		b, err = contract.WriteMessage(in.roles.verdict)
	case d.Code != "":
		b, err = json.Marshal(bcp.RefusalOf(d.Code))
	default:
		b, err = contract.WriteMessage(in.roles.message)
	}
	if err == nil {
		err = conn.Publish(to, b)
	}
	if err != nil {
		g.log.Warn("answering about roles", "error", err)
	}
}

// challenge makes the only current challenge of an agent.
func (g *Gateway) challenge(now time.Time, agent bcp.AgentName, name string) (*contract.Message, bcp.Code) {
	requirement, ok := g.config.State.Mesh.Requirement(name)
	if !ok {
		return nil, bcp.Malformed
	}
	c := challenge{rand.Text(), name, now.Add(nonceLife)}
	if g.challenges == nil {
		g.challenges = map[bcp.AgentName]challenge{}
	}
	g.challenges[agent] = c
	document := requirement.Document
	if document == nil {
		document = jsontext.Value(`"` + bcp.DualLLMRole + `"`)
	}
	return &contract.Message{Type: contract.TypeChallenge, Nonce: c.nonce, Asker: g.config.State.Mesh.Organisation, Requirement: document}, ""
}

// takeChallenge removes and returns the challenge of an agent, so that it is answered
// once; zero if there is none.
func (g *Gateway) takeChallenge(now time.Time, agent bcp.AgentName) challenge {
	c, ok := g.challenges[agent]
	delete(g.challenges, agent)
	if !ok || !now.Before(c.until) {
		c.nonce = ""
	}
	return c
}

// trust returns the keys of other organisations.
func (g *Gateway) trust() []contract.Trusted {
	var trust []contract.Trusted
	for _, t := range g.config.State.Mesh.Trust {
		trust = append(trust, contract.Trusted(t))
	}
	return trust
}

// openRevocations reads a list signed by a trusted organisation.
func (g *Gateway) openRevocations(envelope []byte, now time.Time) (state.RoleRevocations, bool) {
	trust := g.trust()
	for _, t := range trust {
		if list, code := contract.OpenRevocations(envelope, t.Organisation, trust, now, verifyEd25519); code == "" {
			return newRevocations(t.Organisation, &list), true
		}
	}
	return state.RoleRevocations{}, false
}

func newRevocations(organisation string, list *contract.Revocations) state.RoleRevocations {
	return state.RoleRevocations{Organisation: organisation, Number: list.Number, Serials: list.Serials, Keys: list.Keys}
}

func verifyEd25519(key [32]byte, message, signature []byte) bool {
	return ed25519.Verify(key[:], message, signature)
}

// judge judges a declaration. Without a challenge nothing is proved.
func (g *Gateway) judge(now time.Time, in *input, message *contract.Message, asked challenge) state.RoleVerdict {
	v := state.RoleVerdict{Statement: sha256.Sum256(message.Attestation)}
	requirement, ok := g.requirement(asked.requirement)
	if !ok {
		v.Code = string(contract.NoProof)
		return v
	}
	agent, _ := contract.AttestedAgent(message.Attestation)
	organisation := agent.Organisation
	agent.Name = in.subject.Agent // its creds say so
	e := contract.Examination{
		Envelope: message.Attestation, Agent: agent.String(), Trust: g.trust(), LastNumber: g.state.LastRevocations(organisation), Now: now,
		Requirement: requirement, Declaration: message.Declaration, Challenge: &contract.Challenge{Nonce: asked.nonce, Asker: g.config.State.Mesh.Organisation}, Verify: verifyEd25519,
	}
	if asked.nonce != "" && message.Proof != nil && message.Proof.Key == in.from.Key {
		e.Challenge.Verify, e.Proof = g.config.State.Verify, *message.Proof
	}
	if list, code := contract.OpenRevocations(message.Revocations, organisation, e.Trust, now, verifyEd25519); code == "" {
		e.Revocations, v.List = list, newRevocations(organisation, &list)
	}
	for _, b := range contract.Builtins() {
		e.Contracts = append(e.Contracts, []byte(b.Bytes))
	}
	for _, c := range message.Contracts {
		e.Contracts = append(e.Contracts, []byte(c))
	}
	a := contract.JudgeAttestation(&e)
	v.Accepted, v.Code, v.Until = a.Accepted, string(a.Code), a.Until
	v.Organisation, v.Signer, v.Serial = organisation, a.Signer, a.Statement.Serial
	return v
}

func (g *Gateway) requirement(name string) (contract.Requirement, bool) {
	r, ok := g.config.State.Mesh.Requirement(name)
	if !ok || r.Document == nil {
		return contract.DualLLMRequirement(), ok
	}
	return contract.ParseRequirement(r.Document)
}

// declare answers a challenge about an agent of this mesh.
func (g *Gateway) declare(about bcp.AgentName, asker string, c *contract.Message) (*contract.Message, bcp.Code) {
	attested, err := g.config.Roles.Attested(about)
	if err != nil || asker == "" {
		return nil, bcp.NotPermitted
	}
	signer, err := g.config.Roles.Signer()
	var signature []byte
	if err == nil {
		signature, err = signer.Sign(contract.ProofStatement(c.Nonce, asker, attested.Envelope))
	}
	if err != nil {
		g.log.Warn("signing a proof", "error", err)
		return nil, bcp.Unavailable
	}
	return &contract.Message{
		Type: contract.TypeDeclaration, Declaration: contract.AttestedDeclaration(attested.Envelope), Contracts: attested.Contracts,
		Attestation: attested.Envelope, Revocations: attested.Revocations, Proof: &contract.Proof{Key: signer.PublicKey(), Signature: signature},
	}, ""
}

// decideRevocations accepts a list from the operator.
func (g *Gateway) decideRevocations(m bcp.Moment, in *input) (bcp.Decision, bool) {
	message, code := contract.ParseMessage(in.body)
	if code != "" || message.Type != contract.TypeRevocations {
		return bcp.Decision{Code: bcp.Malformed}, false
	}
	list, ok := g.openRevocations(message.Revocations, m.Now)
	if !ok {
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	return g.state.DecideRevocations(m, bcp.Operator, bcp.RoleOperator, in.body, list)
}

// showsRoles reports whether an agent's requests about roles are accepted in this role:
// of an agent with both roles only one counts.
func (g *Gateway) showsRoles(who agentRole) bool {
	a, _ := g.config.State.Mesh.Agent(who.Agent)
	return who.Role == bcp.RoleController || who.Role == bcp.RoleReader && !a.Controller
}

func (g *Gateway) rolesOver(agent bcp.AgentName) bcp.Role {
	if a, _ := g.config.State.Mesh.Agent(agent); !a.Controller {
		return bcp.RoleReader
	}
	return bcp.RoleController
}

// releaseDeclare answers after the decision about roles is recorded.
func (g *Gateway) releaseDeclare(o *outcome) {
	switch o.in.subject.Kind {
	case subjects.KindRole:
		g.answerRole(o.in, &o.decision)
	case subjects.KindControl:
		g.answer(o.in, contract.Message{Type: contract.TypeVerdict, Accepted: o.decision.Verdict == bcp.Accept})
	default: // a run
		g.answer(o.in, bcp.RefusalOf(o.decision.Code))
	}
}
