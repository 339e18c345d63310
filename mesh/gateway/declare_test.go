package gateway_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// organisation signs for its agents.
type organisation struct {
	name  string
	store *accounts.Store
	key   [32]byte
}

func newOrganisation(t *testing.T, name string) *organisation {
	t.Helper()
	store := must(accounts.Create(t.TempDir()))
	signer := must(store.Attester())
	block, _ := pem.Decode(signer.PublicPEM())
	public := must(x509.ParsePKIXPublicKey(block.Bytes))
	o := &organisation{name: name, store: store}
	copy(o.key[:], public.(ed25519.PublicKey))
	return o
}

func contractRef(name string) contract.ContractRef {
	c, _ := contract.ParseBuiltin(name)
	return contract.RefTo(c.Digest)
}

// papers signs for an agent; change spoils what is signed.
func (o *organisation) papers(t *testing.T, agent bcp.AgentName, keys []string, change func(*contract.Statement, *contract.AttestedEvidence)) (contract.Papers, string) {
	t.Helper()
	s := &contract.Statement{Keys: keys, Declaration: contract.Declaration{
		Agent: contract.AgentID{Name: agent, Organisation: o.name}, Parts: contract.Parts{
			Architecture: contract.DualLLM,
			Planner:      contract.Part{Is: "sonnet", Contract: contractRef("planner-v1")}, Processor: contract.Part{Is: "haiku", Contract: contractRef("processor-v1")},
			Orchestrator: contract.Interpreter{Is: contract.DeterministicInterpreter, Contract: contractRef("orchestrator-v1")},
		}}}
	evidence := contract.AttestedEvidence{Proof: &contract.PermissionProof{Claims: 8, JWTs: "aa"}}
	if change != nil {
		change(s, &evidence)
	}
	envelope := must(o.store.Attest(s, evidence, time.Hour))
	return contract.Papers{Attestation: envelope, Revocations: o.list(t)}, s.Serial
}

func (o *organisation) list(t *testing.T) []byte {
	t.Helper()
	list, _, err := o.store.Revocations(o.name, time.Hour)
	noError(t, err)
	return list
}

// roleBench is a mesh of org1.example whose Reader mailer is of org2.example.
type roleBench struct {
	*bench
	org1, org2 *organisation
	running    *running
	main       *meshtest.Agent
	mailer     *agents.Connection
	key        string // of mailer
	pair       nkeys.KeyPair
	speaks     string // the key of the gateway
	// attested is what the mesh says of main.
	attested atomic.Pointer[contract.Papers]
}

func newRoleBench(t *testing.T) *roleBench {
	t.Helper()
	r := &roleBench{org1: newOrganisation(t, "org1.example"), org2: newOrganisation(t, "org2.example")}
	definition := meshtest.Parse(t, map[string]string{"main.md": mainFile, "mailer.md": mailerFile, "mesh.yaml": "max_refusals: 1000/m\n"})
	definition.Organisation = r.org1.name
	definition.Channels[0].ReaderRole = bcp.DualLLMRole
	definition.Trust = []bcp.Trust{{Organisation: r.org2.name, Key: r.org2.key}}
	definition.RoleRequirements = []bcp.RoleRequirement{{Name: "nothing", Document: jsontext.Value(`{}`)}}
	r.bench = benchFor(t, definition)
	r.createStreams(t)
	speaker := must(nkeys.CreateUser())
	r.speaks, _ = speaker.PublicKey()
	own, _ := r.org1.papers(t, "main", []string{r.speaks}, nil)
	r.attested.Store(&contract.Papers{Attestation: own.Attestation, Revocations: r.org1.list(t)})
	r.running = r.start(t, func(c *gateway.Config) {
		c.State.Verify = accounts.Verify
		c.Roles = &gateway.Roles{Sign: func(message []byte) (string, []byte, error) {
			signature, err := speaker.Sign(message)
			return r.speaks, signature, err
		}, Attested: func(name bcp.AgentName) (contract.Papers, error) {
			if name != "main" {
				return contract.Papers{}, errors.New("not attested")
			}
			return *r.attested.Load(), nil
		}}
	})
	creds := must(r.store.Issue("mailer", 0, time.Hour))
	r.key = creds.PublicKey
	r.pair = must(nkeys.ParseDecoratedNKey(creds.Text()))
	connect := func(name bcp.AgentName, text []byte) *agents.Connection {
		c := must(agents.Connect(t.Context(), r.URL(), agents.CredsText(text), agents.Options{Name: name}))
		t.Cleanup(c.Close)
		return c
	}
	r.mailer = connect("mailer", creds.Text())
	r.main = r.agent(t, "main")
	return r
}

// asks is what main hears of an ask.
func (r *roleBench) asks(t *testing.T) bcp.Code {
	t.Helper()
	return bcp.Code(r.main.Ask(t, "mailer", askUrgent).Text("error"))
}

// An agent of another organisation is accepted by its papers, and refused with each of
// the codes; asks wait for that. Real servers, real JWTs.
//
// covers P14.1, P14.2, DUAL-7, DUAL-90, DUAL-91, DUAL-92, DUAL-93, DUAL-105
func TestNegotiation(t *testing.T) {
	t.Parallel()
	r := newRoleBench(t)
	code := r.asks(t)
	stopIf(t, code != bcp.RoleRequired, "before anything was shown an ask hears %q", code)
	show := func(papers contract.Papers) contract.Acceptance {
		t.Helper()
		return must(r.mailer.ShowRole(t.Context(), r.org1.name, bcp.DualLLMRole, papers))
	}
	sign := func(change func(*contract.Statement, *contract.AttestedEvidence)) contract.Papers {
		t.Helper()
		papers, _ := r.org2.papers(t, "mailer", []string{r.key}, change)
		return papers
	}
	good := sign(nil)
	if v := show(good); !v.Accepted || v.Until.Before(time.Now()) {
		t.Fatalf("good papers: %+v", v)
	}
	expect(t, r.asks(t), "", "an ask of an accepted agent hears")
	old := good.Revocations
	noError(t, r.mailer.BringRevocations(t.Context(), r.org2.list(t)))
	stranger, liar := newOrganisation(t, "org3.example"), newOrganisation(t, "org2.example")
	theirs, _ := stranger.papers(t, "mailer", []string{r.key}, nil)
	lies, _ := liar.papers(t, "mailer", []string{r.key}, nil)
	another, _ := r.org2.papers(t, "main", []string{r.key}, nil)
	unproven := sign(func(s *contract.Statement, _ *contract.AttestedEvidence) { s.Keys = []string{"UOTHER"} })
	for _, c := range []struct {
		code   contract.VerdictCode
		papers contract.Papers
	}{
		{contract.MalformedAttestation, contract.Papers{Attestation: []byte(`{"payloadType":"x"}`), Revocations: old}},
		{contract.UnknownOrganisation, theirs},
		{contract.BadSignature, lies}, // of two organisations of one name, one is trusted
		{contract.NotCurrent, contract.Papers{Attestation: good.Attestation, Revocations: old}},
		{contract.WrongAgent, another},
		{contract.NoProof, unproven},
		{contract.UnknownArchitecture, sign(func(s *contract.Statement, _ *contract.AttestedEvidence) { s.Declaration.Architecture = "one_llm" })},
		{contract.ContractMissing, sign(func(s *contract.Statement, _ *contract.AttestedEvidence) {
			s.Declaration.Planner.Contract = contract.RefTo(sha256.Sum256([]byte("lost")))
		})},
		{contract.ContractWeak, weak(t, r)},
		{contract.EvidenceMissing, sign(func(_ *contract.Statement, e *contract.AttestedEvidence) { e.Proof.Holes = 1 })},
	} {
		if !slices.Contains([]contract.VerdictCode{contract.NotCurrent, contract.UnknownOrganisation, contract.BadSignature}, c.code) {
			c.papers.Revocations = r.org2.list(t) // the newest
		}
		v := show(c.papers)
		failIf(t, v.Accepted || v.Code != c.code, "%s: %+v", c.code, v)
		expect(t, r.asks(t), bcp.RoleRequired, "%s: an ask hears", c.code)
	}
	// A revocation is heard of as soon as somebody brings the list, from whomever.
	papers, serial := r.org2.papers(t, "mailer", []string{r.key}, nil)
	v := show(papers)
	stopIf(t, !v.Accepted, "%+v", v)
	must(r.org2.store.RevokeAttestations(serial))
	revoked := r.org2.list(t)
	noError(t, r.mailer.BringRevocations(t.Context(), revoked))
	expect(t, r.asks(t), bcp.RoleRequired, "after the revocation an ask hears")
	papers.Revocations = revoked
	expect(t, show(papers).Code, contract.Revoked, "the verdict")
	var refused *agents.RefusedError
	err := r.mailer.BringRevocations(t.Context(), old)
	failIf(t, !errors.As(err, &refused), "a list that goes back: %v", err)
	seen := map[string]bool{}
	for _, d := range r.running.wait(t, 16, of(bcp.KindDeclare)) {
		seen[d.Declare.Why] = true
		failIf(t, d.RawCommitment == (bcp.Digest{}), "a record without its message: %+v", d.Declare)
	}
	for _, code := range contract.VerdictCodes() {
		failIf(t, !seen[string(code)], "no record has %s", code)
	}
	r.journal(t)
}

// weak are papers whose planner promises nothing of the draft.
func weak(t *testing.T, r *roleBench) contract.Papers {
	t.Helper()
	const text = `{"contract:version":"1.0","contract:role":"planner","contract:invariants":[{"id":"i","description":"x","formal":"","enforcement":"architectural","predicate":{"name":"never_receives","args":["planner","external_data"]}}],"contract:capabilities":[],"contract:prohibited":[]}`
	_, defects := contract.Parse([]byte(text))
	stopIf(t, len(defects) > 0, "%v", defects)
	papers, _ := r.org2.papers(t, "mailer", []string{r.key}, func(s *contract.Statement, _ *contract.AttestedEvidence) {
		s.Declaration.Planner.Contract = contract.RefTo(sha256.Sum256([]byte(text)))
	})
	papers.Contracts = []string{text}
	return papers
}

// A nonce is good for one declaration of the agent that it was given to, within a minute;
// a proof is by the creds that speak, to the mesh that asked.
//
// covers P14.1, DUAL-105
func TestNoncesAreUsedOnce(t *testing.T) {
	t.Parallel()
	r := newRoleBench(t)
	papers, _ := r.org2.papers(t, "mailer", []string{r.key}, nil)
	creds := must(r.store.Issue("mailer", 0, time.Hour))
	both, _ := r.org2.papers(t, "mailer", []string{r.key, creds.PublicKey}, nil)
	definition, _ := r.definition.Agent("mailer")
	a := meshtest.NewAgent(definition)
	a.Dial(t, r.URL(), creds.Text())
	pair := must(nkeys.ParseDecoratedNKey(creds.Text()))
	say := func(m contract.Message) (answer contract.Message) {
		t.Helper()
		body := must(json.Marshal(m))
		noError(t, json.Unmarshal([]byte(a.Request(t, subjects.Role("mailer", "mailer"), string(body)).JSON), &answer))
		return answer
	}
	open := func() string {
		t.Helper()
		c := say(contract.Message{Type: contract.TypeOpen, Name: bcp.DualLLMRole})
		stopIf(t, c.Type != contract.TypeChallenge || len(c.Nonce) < 26 || c.Asker != r.org1.name, "%+v", c)
		return c.Nonce
	}
	declareBy := func(pair nkeys.KeyPair, p contract.Papers, nonce, asker, key string) string {
		t.Helper()
		signature := must(pair.Sign(contract.ProofStatement(nonce, asker, p.Attestation)))
		v := say(contract.Message{Type: contract.TypeDeclaration, Declaration: contract.AttestedDeclaration(p.Attestation),
			Papers: contract.Papers{Attestation: p.Attestation, Revocations: r.org2.list(t)}, Proof: &contract.Proof{Key: key, Signature: signature}})
		stopIf(t, v.Type != contract.TypeVerdict || v.Accepted != (v.Code == ""), "%+v", v)
		return string(v.Code)
	}
	declare := func(p contract.Papers, nonce, asker, key string) string {
		t.Helper()
		return declareBy(pair, p, nonce, asker, key)
	}
	want := func(what, got string, code contract.VerdictCode) {
		t.Helper()
		expect(t, got, string(code), "%s", what)
	}
	first := open()
	want("all is right", declare(both, first, r.org1.name, creds.PublicKey), "")
	want("a nonce that was used", declare(both, first, r.org1.name, creds.PublicKey), contract.NoProof)
	open()
	want("an older nonce", declare(both, first, r.org1.name, creds.PublicKey), contract.NoProof)
	want("no nonce", declare(both, "", r.org1.name, creds.PublicKey), contract.NoProof)
	want("a nonce of its own", declare(both, strings.Repeat("n", 26), r.org1.name, creds.PublicKey), contract.NoProof)
	want("to another asker", declare(both, open(), "org4.example", creds.PublicKey), contract.NoProof)
	want("a key that the papers do not have", declare(papers, open(), r.org1.name, creds.PublicKey), contract.NoProof)
	want("the key of another user", declare(both, open(), r.org1.name, r.key), contract.NoProof)
	// Somebody else, whom the papers name, signed all of it, and this connection passes it on.
	want("a right signature by another key of the papers", declareBy(r.pair, both, open(), r.org1.name, r.key), contract.NoProof)
	want("a right signature by a key that is not named", declareBy(r.pair, both, open(), r.org1.name, creds.PublicKey), contract.NoProof)
	want("once more", declare(both, open(), r.org1.name, creds.PublicKey), "")
}

// The gateway answers about its own agents from what was signed, and what is told of it
// is recorded; agents that need not show roles have no way to ask.
//
// covers P14.4, DUAL-6, DUAL-7, DUAL-85
func TestChallengedGateway(t *testing.T) {
	t.Parallel()
	r := newRoleBench(t)
	about := contract.AgentID{Name: "main", Organisation: r.org1.name}
	trust := agents.RoleTrust{Keys: []bcp.Trust{{Organisation: r.org1.name, Key: r.org1.key}}, Requirement: contract.DualLLMRequirement()}
	v, list, err := r.mailer.JudgeRole(t.Context(), about, trust)
	stopIf(t, err != nil || !v.Accepted || list.Number == 0, "%+v, %+v: %v", v, list, err)
	for code, lie := range map[contract.VerdictCode]struct {
		about bcp.AgentName
		key   string
	}{contract.WrongAgent: {"mailer", r.speaks}, contract.NoProof: {"main", r.key}} {
		papers, _ := r.org1.papers(t, lie.about, []string{lie.key}, nil)
		r.attested.Store(&contract.Papers{Attestation: papers.Attestation, Revocations: papers.Revocations})
		v, _, err := r.mailer.JudgeRole(t.Context(), about, trust)
		failIf(t, err != nil || v.Accepted || v.Code != code, "a lie: %+v, %v, want %s", v, err, code)
	}
	trust.LastRevocations = list.Number + 1_000_000_000
	v, _, err = r.mailer.JudgeRole(t.Context(), about, trust)
	failIf(t, err != nil || v.Code != contract.NotCurrent, "a list that goes back: %+v, %v", v, err)
	trust.Keys[0].Key = r.org2.key
	v, _, err = r.mailer.JudgeRole(t.Context(), about, trust)
	failIf(t, err != nil || v.Code != contract.BadSignature, "another key: %+v, %v", v, err)
	heard := r.running.wait(t, 5, of(bcp.KindDeclare))
	failIf(t, heard[0].Declare.Act != bcp.DeclareHeard || heard[0].Target != "main" || heard[0].Declare.Why != "" || heard[4].Declare.Why != "bad_signature",
		"%+v, %+v", heard[0].Declare, heard[4].Declare)
	var refused *agents.RefusedError
	for name, ask := range map[string]func() error{
		"an agent without papers": func() error {
			_, _, err := r.mailer.JudgeRole(t.Context(), contract.AgentID{Name: "other", Organisation: r.org1.name}, trust)
			return err
		},
		"a requirement that is none": func() error {
			_, err := r.mailer.ShowRole(t.Context(), r.org1.name, "none", contract.Papers{})
			return err
		},
	} {
		err := ask()
		failIf(t, !errors.As(err, &refused), "%s: %v", name, err)
	}
	_, err = r.mailer.ShowRole(t.Context(), "org4.example", bcp.DualLLMRole, contract.Papers{})
	failIf(t, !errors.Is(err, agents.ErrMessage), "papers are shown to another organisation: %v", err)
	for _, scope := range subjects.Permissions(r.definition) {
		failIf(t, slices.Contains(scope.PubAllow, subjects.RolesOf(scope.Agent)) != (scope.Agent == "mailer"),
			"%s may publish %v", scope.Agent, scope.PubAllow)
	}
}

// The operator brings lists, too.
//
// covers P14.3
func TestOperatorBringsRevocations(t *testing.T) {
	t.Parallel()
	r := newRoleBench(t)
	papers, serial := r.org2.papers(t, "mailer", []string{r.key}, nil)
	v, err := r.mailer.ShowRole(t.Context(), r.org1.name, bcp.DualLLMRole, papers)
	stopIf(t, err != nil || !v.Accepted, "%+v: %v", v, err)
	creds := must(r.store.Issue(bcp.Operator, bcp.RoleOperator, time.Hour))
	c := must(agents.Connect(context.Background(), r.URL(), agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator}))
	defer c.Close()
	operator := agents.NewOperator(c)
	must(r.org2.store.RevokeAttestations(serial))
	noError(t, operator.BringRevocations(t.Context(), r.org2.list(t)))
	expect(t, r.asks(t), bcp.RoleRequired, "an ask hears")
	var refused *agents.RefusedError
	for name, list := range map[string][]byte{"an older list": papers.Revocations, "a list of a stranger": newOrganisation(t, "org3.example").list(t), "no list": []byte("{}")} {
		err := operator.BringRevocations(t.Context(), list)
		failIf(t, !errors.As(err, &refused), "%s: %v", name, err)
	}
}
