package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// fields is an object of JSON.
type fields = map[string]any

const askOK = `{"category":1,"fields":[{"name":"ok","type":"boolean"}]}`

// company is an organisation with a mesh of its own: another process, with its own
// operator, of which the test has the state folder as that operator has.
type company struct {
	t      *testing.T
	name   string        // of the organisation
	kernel bcp.AgentName // whom the other organisation knows
	dir    string
	store  *accounts.Store
	signer accounts.Attester
	key    [32]byte // as others trust it
	url    string
	up     *exec.Cmd
}

func newCompany(t *testing.T, name string, kernel bcp.AgentName) *company {
	t.Helper()
	c := &company{t: t, name: name, kernel: kernel, dir: t.TempDir()}
	var err error
	if c.store, err = accounts.Create(home.State(c.dir)); err != nil {
		t.Fatal(err)
	}
	if c.signer, err = c.store.Attester(); err != nil {
		t.Fatal(err)
	}
	copy(c.key[:], c.spki()[len(c.spki())-len(c.key):])
	return c
}

// spki is the public key as mesh.yaml has it, but for base64.
func (c *company) spki() []byte {
	lines := strings.Split(string(c.signer.PublicPEM()), "\n")
	spki, err := base64.StdEncoding.DecodeString(lines[1])
	if err != nil {
		c.t.Fatal(err)
	}
	return spki
}

// companyFiles are the definitions of a mesh that has the kernel KERNEL, and the agent PEER
// of another organisation as a Reader.
var companyFiles = map[string]string{
	"mesh.yaml":        "name: office\norganisation: OWN\nmax_refusals: 1000/m\ntrust:\n  - {organisation: OTHER, key: TRUSTED}\n",
	"agents/ann.md":    "---\nname: ann\nexecution: {role: planner, model_family: script}\n---\n",
	"agents/mailer.md": "---\nname: mailer\nexecution: {role: processor, model_family: script}\nbcp_channels:\n  - {peer: KERNEL, role: reader}\n---\n",
	"agents/KERNEL.md": `---
name: KERNEL
bcp_channels:
  - {peer: mailer, role: controller, max_category: 2, budget_bits: 500}
kernel:
  planner: ann
  requesters: {kim: [reply]}
  grants: {reply: [mail.read]}
  schemas:
    Summary: {reader: mailer, category: 2, questions: [{id: text, question: "What does it say?", max_words: 20, expected_format: short_text}]}
---
`,
	"agents/kim.md":  "---\nname: kim\n---\n",
	"agents/main.md": "---\nname: main\nbcp_channels:\n  - {peer: PEER, role: controller, max_category: 1, budget_bits: 100, requires_role: dual-llm}\n---\n",
	"agents/PEER.md": "---\nname: PEER\nbcp_channels:\n  - {peer: main, role: reader}\n---\n",
	"tools/mail.yaml": `service: mail
tools:
  - name: read_inbox
    effect_level: read
    required_caps: [mail.read]
    input_schema: {type: object}
    output_schema: {type: object, properties: {body: {type: string}}}
`,
}

// start starts the company's mesh, which trusts the other company.
func (c *company) start(other *company) {
	c.t.Helper()
	words := strings.NewReplacer("KERNEL", string(c.kernel), "PEER", string(other.kernel), "OWN", c.name, "OTHER", other.name,
		"TRUSTED", base64.StdEncoding.EncodeToString(other.spki()))
	for name, text := range companyFiles {
		c.write(filepath.Join(c.dir, words.Replace(name)), []byte(words.Replace(text)))
	}
	ready := filepath.Join(c.dir, "ready.json")
	c.up = exec.Command("bcpmesh", "up", c.dir, "--listen", "127.0.0.1:0", "--ready-file", ready)
	var said bytes.Buffer
	c.up.Stderr = &said
	if err := c.up.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.up.Process.Kill(); _ = c.up.Wait() })
	for deadline := time.Now().Add(scriptTimeout); c.url == ""; time.Sleep(5 * time.Millisecond) { // between two looks at the file
		var about struct{ URL string }
		if text, err := os.ReadFile(ready); err == nil && json.Unmarshal(text, &about, json.MatchCaseInsensitiveNames(true)) == nil {
			c.url = about.URL
		}
		if time.Now().After(deadline) || c.up.Process.Signal(syscall.Signal(0)) != nil {
			c.t.Fatalf("the mesh of %s is not ready: %s", c.name, &said)
		}
	}
}

// down ends the company's mesh.
func (c *company) down() {
	c.t.Helper()
	if err := errors.Join(c.up.Process.Signal(os.Interrupt), c.up.Wait()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *company) write(file string, content []byte) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// command runs a command line of the company's operator.
func (c *company) command(words ...string) string {
	c.t.Helper()
	got := execute(c.t, "", append(words, "--dir", c.dir)...)
	if got.code != 0 {
		c.t.Fatalf("%v: exit %d: %s%s", words, got.code, got.stdout, got.stderr)
	}
	return got.stdout
}

// issue makes creds of the company's mesh.
func (c *company) issue(agent bcp.AgentName) (creds accounts.Creds, pair nkeys.KeyPair) {
	c.t.Helper()
	creds, err := c.store.Issue(agent, 0, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	if pair, err = nkeys.ParseDecoratedNKey(creds.Text()); err != nil {
		c.t.Fatal(err)
	}
	return creds, pair
}

// dial connects a stock client to the company's mesh.
func (c *company) dial(agent bcp.Agent, creds accounts.Creds) *meshtest.Agent {
	c.t.Helper()
	a := meshtest.NewAgent(agent)
	a.Dial(c.t, c.url, creds.Text())
	return a
}

// attested is where role attest has written its two files.
func (c *company) attested() (attestation, revocations string) {
	folder := home.Attest(home.State(c.dir))
	return filepath.Join(folder, mesh.AttestationFile(c.kernel)), filepath.Join(folder, mesh.RevocationsFile)
}

func (c *company) read(file string) []byte {
	c.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// seal signs a payload with the company's key.
func (c *company) seal(payload []byte) []byte {
	c.t.Helper()
	signature, err := c.signer.Sign(contract.PAE(contract.PayloadType, payload))
	if err != nil {
		c.t.Fatal(err)
	}
	return contract.WriteEnvelope(payload, c.signer.KeyID(), signature)
}

// list is a newer list of revocations, changed before it is signed.
func (c *company) list(change func(*contract.Revocations)) []byte {
	c.t.Helper()
	envelope, list, err := c.store.Revocations(c.name, time.Hour)
	if err == nil && change != nil {
		change(&list)
		var payload []byte
		payload, err = contract.WriteRevocations(c.name, &list)
		envelope = c.seal(payload)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return envelope
}

// statement is what role attest signed.
func (c *company) statement() fields {
	c.t.Helper()
	file, _ := c.attested()
	envelope, ok := contract.ParseEnvelope(c.read(file))
	var statement fields
	if err := json.Unmarshal(envelope.Payload, &statement); !ok || err != nil {
		c.t.Fatal(err)
	}
	return statement
}

func predicate(statement fields) fields { return statement["predicate"].(fields) }

func declaration(statement fields) fields { return predicate(statement)["declaration"].(fields) }

func declares(statement fields, role string) fields {
	return declaration(statement)["agent:role_declaration"].(fields)[role].(fields)
}

// payload is the statement in bytes, about the declaration that is in it.
func payload(t *testing.T, statement fields) []byte {
	t.Helper()
	text, err := json.Marshal(declaration(statement), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(text)
	predicate(statement)["declaration"] = jsontext.Value(text)
	statement["subject"].([]any)[0].(fields)["digest"] = fields{"sha256": hex.EncodeToString(digest[:])}
	b, err := json.Marshal(statement, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lie is what a peer does wrong. What is nil is right.
type lie struct {
	code contract.VerdictCode
	what string
	// statement changes what the company signs of its agent, seal how it is signed, list
	// which list it brings.
	statement func(statement fields)
	seal      func(payload []byte) []byte
	list      func() []byte
	// contracts are brought, and message changes the whole message once it is proven.
	contracts []string
	message   func(m *contract.Message, nonce string)
}

// lies are those of a company to the other.
func lies(c, other *company, pair nkeys.KeyPair) []lie {
	moment := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(time.RFC3339) }
	lasting := func(from, to time.Duration) func(fields) {
		return func(s fields) { predicate(s)["issued"], predicate(s)["expires"] = moment(from), moment(to) }
	}
	named := func(agent string) func(fields) {
		return func(s fields) { s["subject"].([]any)[0].(fields)["name"], declaration(s)["agent:id"] = agent, agent }
	}
	about := func(role, key, value string) func(fields) {
		return func(s fields) { declares(s, role)[key] = value }
	}
	refers := func(text string) func(fields) {
		digest := sha256.Sum256([]byte(text))
		return about("planner", "contract_ref", "sha256:"+hex.EncodeToString(digest[:]))
	}
	evidence := func(change func(fields)) func(fields) {
		return func(s fields) { change(predicate(s)["evidence"].(fields)) }
	}
	proves := func(nonce, asker string) func(*contract.Message, string) {
		return func(m *contract.Message, given string) {
			if nonce != "" {
				given = nonce
			}
			m.Proof.Signature, _ = pair.Sign(contract.ProofStatement(given, asker, m.Attestation))
		}
	}
	draft := contract.Builtins()[slices.IndexFunc(contract.Builtins(), func(b contract.Builtin) bool { return b.Name == "planner-v1" })].Bytes
	weaker := strings.Replace(draft, `"architectural"`, `"runtime_monitored"`, 1)
	older := c.list(nil)
	stranger, _ := nkeys.CreateUser()
	strange, _ := stranger.PublicKey()
	return []lie{
		{code: contract.MalformedAttestation, what: "a statement that says nothing", seal: func([]byte) []byte { return c.seal([]byte(`{}`)) }},
		{code: contract.MalformedAttestation, what: "a member more than the form has", statement: func(s fields) { predicate(s)["trust_me"] = true }},
		{code: contract.UnknownOrganisation, what: "an organisation that nobody knows", statement: named(string(c.kernel) + "@org3.example")},
		{code: contract.UnknownOrganisation, what: "the organisation of the asker", statement: named(string(c.kernel) + "@" + other.name)},
		{code: contract.BadSignature, what: "a byte changed behind the signature", seal: func(payload []byte) []byte {
			return []byte(strings.Replace(string(c.seal(payload)), base64.StdEncoding.EncodeToString(payload),
				base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(payload), "of-a-liar", "of-a-lier", 1))), 1))
		}},
		{code: contract.BadSignature, what: "the key of another organisation that is trusted by others", seal: other.seal},
		{code: contract.NotCurrent, what: "an attestation that has expired", statement: lasting(-2*time.Hour, -time.Second)},
		{code: contract.NotCurrent, what: "one that is not good yet", statement: lasting(time.Hour, 2*time.Hour)},
		{code: contract.NotCurrent, what: "one for eight days", statement: lasting(-time.Hour, 8*24*time.Hour)},
		{code: contract.NotCurrent, what: "an older list of revocations", list: func() []byte { return older }},
		{code: contract.NotCurrent, what: "a list that somebody else signed", list: func() []byte { return other.list(nil) }},
		{code: contract.Revoked, what: "a list with its serial", list: func() []byte {
			return c.list(func(r *contract.Revocations) { r.Serials = append(r.Serials, "of-a-liar") })
		}},
		{code: contract.WrongAgent, what: "the attestation of another agent", statement: named("mailer@" + c.name)},
		{code: contract.NoProof, what: "an attestation of somebody else's key", statement: func(s fields) { predicate(s)["keys"] = []any{strange} }},
		{code: contract.UnknownArchitecture, what: "one model", statement: func(s fields) {
			declaration(s)["agent:role_declaration"].(fields)["architecture"] = "single_llm"
		}},
		{code: contract.UnknownArchitecture, what: "a model as orchestrator", statement: about("orchestrator", "type", "llm")},
		{code: contract.ContractMissing, what: "a contract that is not brought", statement: refers(weaker)},
		{code: contract.ContractMissing, what: "a contract by a URL alone", statement: about("processor", "contract_ref", "https://org2.example/processor-v1")},
		{code: contract.ContractWeak, what: "a contract at a weaker level", statement: refers(weaker), contracts: []string{weaker}},
		{code: contract.EvidenceMissing, what: "no evidence", statement: func(s fields) { delete(predicate(s), "evidence") }},
		{code: contract.EvidenceMissing, what: "a proof with a hole", statement: evidence(func(e fields) { e["permission_proof"].(fields)["holes"] = 1 })},
		{code: contract.EvidenceMissing, what: "a proof of yesterday", statement: lasting(-25*time.Hour, time.Hour)},

		// What only a peer that speaks for itself can do.
		{code: contract.MalformedAttestation, what: "no envelope", message: func(m *contract.Message, _ string) { m.Attestation = jsontext.Value(`{"payloadType":"x"}`) }},
		{code: contract.NotCurrent, what: "no list of revocations", message: func(m *contract.Message, _ string) { m.Revocations = nil }},
		{code: contract.Revoked, what: "a list with its key", list: func() []byte {
			return c.list(func(r *contract.Revocations) { key, _ := pair.PublicKey(); r.Keys = append(r.Keys, key) })
		}, message: func(*contract.Message, string) {}},
		{code: contract.WrongAgent, what: "another declaration beside it", message: func(m *contract.Message, _ string) {
			m.Declaration = jsontext.Value(strings.Replace(string(m.Declaration), `"model_family":"script"`, `"model_family":"better"`, 1))
		}},
		{code: contract.NoProof, what: "no proof", message: func(m *contract.Message, _ string) { m.Proof = nil }},
		{code: contract.NoProof, what: "the proof of another key", message: func(m *contract.Message, nonce string) {
			m.Proof.Signature, _ = stranger.Sign(contract.ProofStatement(nonce, other.name, m.Attestation))
		}},
		{code: contract.NoProof, what: "the proof of another key of the agent, which is not here", statement: func(s fields) {
			predicate(s)["keys"] = append(predicate(s)["keys"].([]any), strange)
		}, message: func(m *contract.Message, nonce string) {
			m.Proof.Key = strange
			m.Proof.Signature, _ = stranger.Sign(contract.ProofStatement(nonce, other.name, m.Attestation))
		}},
		{code: contract.NoProof, what: "a proof of a nonce of its own", message: proves(strings.Repeat("N", 26), other.name)},
		{code: contract.NoProof, what: "a proof to another asker", message: proves("", "org4.example")},
	}
}

// records are the codes of so many negotiations, as the audit of a company's mesh has them,
// in order; empty for what was accepted. The audit is a little behind the journal.
func (c *company) records(act bcp.DeclareAct, n int) []string {
	c.t.Helper()
	for deadline := time.Now().Add(scriptTimeout); ; time.Sleep(20 * time.Millisecond) { // between two looks
		codes := []string{}
		for line := range strings.Lines(c.command("audit", "replay", "--kind", "declare", "--json")) {
			var d struct {
				Declare struct {
					Act bcp.DeclareAct `json:"act"`
					Why string         `json:"why"`
				} `json:"declare"`
			}
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				c.t.Fatal(err)
			}
			if d.Declare.Act == act {
				codes = append(codes, d.Declare.Why)
			}
		}
		if len(codes) >= n || time.Now().After(deadline) {
			return codes
		}
	}
}

// Two meshes of two organisations, each a process with an operator and a server of its
// own: each refuses an agent of the other with each of the eleven codes, accepts the truth,
// and hears of a revocation within a minute. An agent that challenges the other's mesh
// accepts the truth, too; that mesh proves nothing that its definitions do not say, and what
// else may be wrong with its papers is refused, and told to it.
//
// covers P14.1, P14.2, P14.3, P14.4, DUAL-6, DUAL-7, DUAL-85, DUAL-90, DUAL-91, DUAL-92, DUAL-93, DUAL-105
func TestTwoOrganisations(t *testing.T) {
	t.Parallel()
	hall, desk := newCompany(t, "org1.example", "hall"), newCompany(t, "org2.example", "desk")
	hall.start(desk)
	desk.start(hall)
	negotiate(t, hall, desk)
	negotiate(t, desk, hall)
}

// An attestation has the newest checkpoint of the journal.
//
// covers DUAL-90, P14.4
func TestAttestedEvidence(t *testing.T) {
	t.Parallel()
	desk := newCompany(t, "org2.example", "desk")
	desk.start(newCompany(t, "org1.example", "hall"))
	creds, _ := desk.issue("main")
	main := desk.dial(bcp.Agent{Name: "main", Controller: true, Encoding: bcp.JSON}, creds)
	main.Ask(t, "hall", askOK) // the journal has something
	desk.down()                // and a checkpoint is signed
	desk.command("role", "attest")
	evidence := predicate(desk.statement())["evidence"].(fields)
	if checkpoint, _ := evidence["checkpoint"].(string); !strings.Contains(desk.command("audit", "export", "--checkpoint"), strings.TrimSpace(checkpoint)) || checkpoint == "" {
		t.Errorf("the checkpoint is %q", checkpoint)
	}
	if digest, _ := evidence["definitions"].(string); len(digest) != 64 {
		t.Errorf("the definitions are %q", digest)
	}
}

// negotiate has the peer's agent judged by the asker's mesh, and the asker's mesh by the
// peer's agent.
func negotiate(t *testing.T, asker, peer *company) {
	creds, pair := asker.issue(peer.kernel)
	peer.command("role", "attest", "--speaks", creds.PublicKey)
	asker.command("role", "attest")
	main, _ := asker.issue("main")
	controller := asker.dial(bcp.Agent{Name: "main", Controller: true, Encoding: bcp.JSON}, main)
	asks := func() bcp.Code {
		t.Helper()
		return bcp.Code(controller.Ask(t, peer.kernel, askOK).Text("error"))
	}
	if code := asks(); code != bcp.RoleRequired {
		t.Fatalf("before anything was shown an ask hears %q", code)
	}

	// The agent shows itself, by messages of its own.
	agent := asker.dial(bcp.Agent{Name: peer.kernel, Encoding: bcp.JSON}, creds)
	say := func(m contract.Message) (answer contract.Message) {
		t.Helper()
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		noError(t, json.Unmarshal([]byte(agent.Request(t, subjects.Role(peer.kernel, peer.kernel), string(body)).JSON), &answer))
		return answer
	}
	var m contract.Message // the newest declaration
	shows := func(l *lie) contract.Message {
		t.Helper()
		challenge := say(contract.Message{Type: contract.TypeOpen, Name: bcp.DualLLMRole})
		m = contract.Message{Type: contract.TypeDeclaration, Contracts: l.contracts, Proof: &contract.Proof{Key: creds.PublicKey}}
		m.Attestation, m.Revocations = peer.lies(l)
		m.Declaration = contract.AttestedDeclaration(m.Attestation)
		m.Proof.Signature, _ = pair.Sign(contract.ProofStatement(challenge.Nonce, challenge.Asker, m.Attestation))
		if l.message != nil {
			l.message(&m, challenge.Nonce)
		}
		return say(m)
	}
	var want []string
	seen := map[contract.VerdictCode]bool{}
	for _, l := range lies(peer, asker, pair) {
		v := shows(&l)
		if v.Type != contract.TypeVerdict || v.Accepted || v.Code != l.code || !v.Until.IsZero() {
			t.Errorf("%s: %+v, want %s", l.what, v, l.code)
		}
		want, seen[l.code] = append(want, string(l.code)), true
	}
	if code := asks(); code != bcp.RoleRequired {
		t.Errorf("after all lies an ask hears %q", code)
	}
	if len(seen) != len(contract.VerdictCodes()) {
		t.Errorf("%d codes of %d", len(seen), len(contract.VerdictCodes()))
	}
	truth := func() {
		t.Helper()
		if v := shows(&lie{}); !v.Accepted || !v.Until.After(time.Now()) {
			t.Fatalf("the truth: %+v", v)
		}
	}
	truth()
	if v := say(m); v.Code != contract.NoProof {
		t.Errorf("the same declaration once more: %+v", v)
	}
	truth()
	want = append(want, "", string(contract.NoProof), "")
	if code := asks(); code != "" {
		t.Errorf("an ask of an accepted agent hears %q", code)
	}
	if diff := cmp.Diff(want, asker.records(bcp.DeclareJudged, len(want))); diff != "" {
		t.Errorf("the records of %s (-want +got):\n%s", asker.name, diff)
	}

	// The peer's operator revokes, and the list goes over as a file.
	begin := time.Now()
	peer.command("role", "attest", "--revoke", string(peer.kernel)+"@"+peer.name)
	_, list := peer.attested()
	asker.command("role", "show", list)
	if code := asks(); code != bcp.RoleRequired || time.Since(begin) > time.Minute {
		t.Errorf("%s after the revocation an ask hears %q", time.Since(begin), code)
	}

	// The asker's mesh is challenged by the agent, and answers from what lies in its folder.
	c, err := agents.Connect(t.Context(), asker.url, agents.CredsText(creds.Text()), agents.Options{Name: peer.kernel})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	trust := agents.RoleTrust{Keys: []bcp.Trust{{Organisation: asker.name, Key: asker.key}}, Requirement: contract.DualLLMRequirement()}
	judges := func() (v agents.RoleVerdict, refused bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
		defer cancel()
		v, revocations, err := c.JudgeRole(ctx, contract.AgentID{Name: asker.kernel, Organisation: asker.name}, trust)
		var refusal *agents.RefusedError
		if refused = errors.As(err, &refusal); err != nil && !refused {
			t.Fatal(err)
		}
		trust.LastRevocations = max(trust.LastRevocations, revocations.Number)
		return v, refused
	}
	if v, _ := judges(); !v.Accepted {
		t.Fatalf("the mesh of %s: %+v", asker.name, v)
	}
	key, file := filepath.Join(peer.dir, "theirs.pem"), filepath.Join(peer.dir, "theirs.creds")
	peer.write(key, asker.signer.PublicPEM())
	peer.write(file, creds.Text())
	about := string(asker.kernel) + "@" + asker.name
	command := []string{"role", "verify", about, "--trust", asker.name + "=" + key, "--creds", file, "--url", asker.url}
	if got := execute(t, "", command...); got.code != cli.ExitOK || !strings.Contains(got.stdout, fmt.Sprint("by revocation list ", trust.LastRevocations)) {
		t.Errorf("role verify: %+v", got)
	}
	if got := execute(t, "", append(command, "--last-revocations", fmt.Sprint(trust.LastRevocations+1))...); got.code != cli.ExitRefused || !strings.Contains(got.stderr, "not_current") {
		t.Errorf("role verify with an older list: %+v", got)
	}
	want = []string{"", "", string(contract.NotCurrent)}
	attestation, revocations := asker.attested()
	signed := asker.read(attestation)
	own, _ := contract.AttestedRoles(signed)
	for _, l := range lies(asker, peer, nil) {
		if l.message != nil || l.contracts != nil {
			continue
		}
		envelope, list := asker.lies(&l)
		asker.write(attestation, envelope)
		asker.write(revocations, list)
		v, refused := judges()
		declared, ok := contract.AttestedRoles(envelope)
		switch {
		case refused != (!ok || declared != own):
			t.Errorf("a mesh with %s: refused %t", l.what, refused)
		case refused: // it proves nothing that its definitions do not say
		case v.Accepted || v.Code != l.code:
			t.Errorf("a mesh with %s: %+v, want %s", l.what, v, l.code)
		default:
			want = append(want, string(l.code))
		}
		asker.write(attestation, signed)
	}
	if diff := cmp.Diff(want, asker.records(bcp.DeclareHeard, len(want))); diff != "" {
		t.Errorf("what %s was told (-want +got):\n%s", asker.name, diff)
	}
}

// lies returns what the company shows.
func (c *company) lies(l *lie) (attestation, revocations []byte) {
	c.t.Helper()
	statement := c.statement()
	if l.code != "" {
		predicate(statement)["serial"] = "of-a-liar"
	}
	if l.statement != nil {
		l.statement(statement)
	}
	seal, list := c.seal, func() []byte { return c.list(nil) }
	if l.seal != nil {
		seal = l.seal
	}
	if l.list != nil {
		list = l.list
	}
	return seal(payload(c.t, statement)), list()
}
