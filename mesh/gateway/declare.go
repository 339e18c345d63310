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
)

// Negotiation about roles (PROTOCOL P14): the gateway judges agents of other
// organisations, and shows them what the operator's machine has signed about agents of
// this mesh.

// nonceLife is how long a challenge may be answered.
const nonceLife = time.Minute

// roles are messages about roles.
type roles struct{ plain }

// decide judges a message about roles. It is false if there is nothing to record; then the
// outcome has the reply.
func (roles) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	m := o.message
	s := &m.subject
	if g.config.Roles == nil || g.config.State.Mesh.Organisation == "" {
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	if g.state.Limited(s.Agent, now) {
		return bcp.Decision{Code: bcp.RateLimited}, false
	}
	said, code := contract.ParseMessage(m.body)
	if code != "" {
		return bcp.Decision{Code: code}, false
	}
	role, own := g.rolesOver(s.Agent), s.Agent == s.Peer
	switch {
	case said.Type == contract.TypeRevocations:
		list, ok := g.openRevocations(said.Revocations, now.Now)
		if !ok {
			return bcp.Decision{Code: bcp.Malformed}, false
		}
		o.reply = &contract.Message{Type: contract.TypeVerdict, Accepted: true}
		return g.state.DecideRevocations(now, s.Agent, role, m.body, list)
	case own && said.Type == contract.TypeOpen:
		o.reply, code = g.challenge(now.Now, s.Agent, said.Name)
		return bcp.Decision{Code: code}, false
	case own && said.Type == contract.TypeDeclaration:
		asked := g.takeChallenge(now.Now, s.Agent)
		verdict := g.judge(now.Now, m, &said, asked)
		d := g.state.DecideDeclare(now, s.Agent, role, asked.requirement, m.from.Key, m.body, verdict)
		if d.Declare != nil {
			o.verdict = &contract.Message{Type: contract.TypeVerdict, Accepted: d.Verdict == bcp.Accept, Code: contract.VerdictCode(d.Declare.Why)}
			if d.Verdict == bcp.Accept {
				o.verdict.Until = time.Unix(0, d.Declare.Until).UTC().Truncate(time.Second)
			}
		}
		return d, d.Code != bcp.RateLimited
	case !own && said.Type == contract.TypeChallenge:
		o.reply, code = g.declare(s.Peer, m.from.Key, &said)
		return bcp.Decision{Code: code}, false
	case !own && said.Type == contract.TypeVerdict:
		o.reply = &contract.Message{Type: contract.TypeVerdict, Accepted: true}
		return g.state.DecideHeard(now, s.Agent, role, s.Peer, m.body, contract.Acceptance{Accepted: said.Accepted, Code: said.Code, Until: said.Until}), true
	}
	return bcp.Decision{Code: bcp.Malformed}, false
}

func (r roles) refuse(g *Gateway, o *outcome) {
	if o.gathered {
		r.plain.refuse(g, o)
	} else {
		r.answer(g, o)
	}
}

// answer answers a message about roles, always in JSON.
func (roles) answer(g *Gateway, o *outcome) {
	conn, to := g.agentLink(g.sender(o.message)), g.replyTo(o.message)
	if conn == nil || to == "" {
		return
	}
	var b []byte
	var err error
	switch code := o.decision.Code; {
	case o.verdict != nil:
		b, err = contract.WriteMessage(o.verdict)
	case code != "":
		b, err = json.Marshal(bcp.RefusalOf(code))
	default:
		b, err = contract.WriteMessage(o.reply)
	}
	if err == nil {
		err = conn.Publish(to, b)
	}
	if err != nil {
		g.log.Warn("answering about roles", "error", err)
	}
}

// release answers whoever caused the decision: also the operator, who brought a list, and
// a requester whose role is missing.
func (r roles) release(g *Gateway, o *outcome) {
	switch o.message.kind.request.(type) {
	case roles:
		r.answer(g, o)
	case controls:
		g.answer(o.message, contract.Message{Type: contract.TypeVerdict, Accepted: o.decision.Verdict == bcp.Accept})
	default:
		g.answer(o.message, bcp.RefusalOf(o.decision.Code))
	}
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

// openRevocations reads a list signed by a trusted organisation.
func (g *Gateway) openRevocations(envelope []byte, now time.Time) (state.RoleRevocations, bool) {
	trust := g.config.State.Mesh.Trust
	for _, t := range trust {
		if list, code := contract.OpenRevocations(envelope, t.Organisation, trust, now, verifyEd25519); code == "" {
			return state.RoleRevocations{Organisation: t.Organisation, Revocations: list}, true
		}
	}
	return state.RoleRevocations{}, false
}

func verifyEd25519(key [32]byte, message, signature []byte) bool {
	return ed25519.Verify(key[:], message, signature)
}

// judge judges a declaration. Without a challenge nothing is proved.
func (g *Gateway) judge(now time.Time, m *message, said *contract.Message, asked challenge) state.RoleVerdict {
	v := state.RoleVerdict{Digest: sha256.Sum256(said.Attestation)}
	requirement, ok := g.requirement(asked.requirement)
	if !ok {
		v.Code = contract.NoProof
		return v
	}
	declared, _ := contract.AttestedRoles(said.Attestation)
	agent := declared.Agent
	organisation := agent.Organisation
	agent.Name = m.subject.Agent // its creds say so
	e := contract.Examination{
		Agent: agent.String(), Trust: g.config.State.Mesh.Trust, LastNumber: g.state.LastRevocations(organisation), Now: now,
		Requirement: requirement, Challenge: &contract.Challenge{Nonce: asked.nonce, Asker: g.config.State.Mesh.Organisation}, Verify: verifyEd25519,
	}
	if asked.nonce != "" && said.Proof != nil && said.Proof.Key == m.from.Key {
		e.Challenge.Verify, e.Proof = g.config.State.Verify, *said.Proof
	}
	if e.Hear(said, organisation) == "" {
		v.List = state.RoleRevocations{Organisation: organisation, Revocations: e.Revocations}
	}
	v.Acceptance, v.Organisation = contract.JudgeAttestation(&e), organisation
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
	key, signature, err := g.config.Roles.Sign(contract.ProofStatement(c.Nonce, asker, attested.Attestation))
	if err != nil {
		g.log.Warn("signing a proof", "error", err)
		return nil, bcp.Unavailable
	}
	return &contract.Message{
		Type: contract.TypeDeclaration, Declaration: contract.AttestedDeclaration(attested.Attestation), Papers: attested,
		Proof: &contract.Proof{Key: key, Signature: signature},
	}, ""
}

// decideRevocations accepts a list from the operator.
func (g *Gateway) decideRevocations(now bcp.Moment, m *message) (bcp.Decision, bool) {
	said, code := contract.ParseMessage(m.body)
	if code != "" || said.Type != contract.TypeRevocations {
		return bcp.Decision{Code: bcp.Malformed}, false
	}
	list, ok := g.openRevocations(said.Revocations, now.Now)
	if !ok {
		return bcp.Decision{Code: bcp.NotPermitted}, false
	}
	return g.state.DecideRevocations(now, bcp.Operator, bcp.RoleOperator, m.body, list)
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
