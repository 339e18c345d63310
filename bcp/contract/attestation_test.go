package contract_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

var (
	signingKey = ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
	otherKey   = ed25519.NewKeyFromSeed([]byte("fedcba9876543210fedcba9876543210"))
	issued     = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
)

func public(key ed25519.PrivateKey) (k [32]byte) {
	copy(k[:], key.Public().(ed25519.PublicKey))
	return k
}

func verify(key [32]byte, message, signature []byte) bool {
	return ed25519.Verify(key[:], message, signature)
}

func sha(b []byte) string { d := sha256.Sum256(b); return hex.EncodeToString(d[:]) }

// attested is an attestation before it is signed.
type attested struct {
	t           testing.TB
	declaration map[string]any
	statement   map[string]any
	predicate   map[string]any
	payloadType string
	sign        []ed25519.PrivateKey
	payload     []byte // in place of what the others say
	keepDigest  bool   // of another declaration
}

type fields = map[string]any

func newAttested(t testing.TB) *attested {
	ref := func(name string) string { return "sha256:" + sha(builtin(t, name)) }
	a := &attested{t: t, payloadType: contract.PayloadType, sign: []ed25519.PrivateKey{signingKey}}
	a.declaration = fields{"agent:id": "agent-a@org1.example", "agent:role_declaration": fields{
		"architecture": "dual_llm",
		"planner":      fields{"model_family": "claude-sonnet", "contract_ref": ref("planner-v1")},
		"processor":    fields{"model_family": "claude-haiku", "contract_ref": "https://org1.example/contracts/processor-v1#sha256=" + sha(builtin(t, "processor-v1"))},
		"orchestrator": fields{"type": "deterministic_interpreter", "contract_ref": ref("orchestrator-v1")},
	}}
	a.predicate = fields{
		"evidence": fields{"permission_proof": fields{"claims": 8, "holes": 0, "jwts": "aa"}, "build": "test", "definitions": "bb"},
		"keys":     []any{"UKEY", "UOTHER"}, "issued": "2026-03-01T00:00:00Z", "expires": "2026-03-02T00:00:00Z", "serial": "a-1",
	}
	a.statement = fields{"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://bcpmesh.dev/attestation/role/v1"}
	a.statement["subject"] = []any{fields{"name": "agent-a@org1.example", "digest": fields{}}}
	return a
}

func (a *attested) role(role string) map[string]any {
	return a.declaration["agent:role_declaration"].(fields)[role].(fields)
}

func (a *attested) subject() map[string]any { return a.statement["subject"].([]any)[0].(fields) }

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	noError(t, err)
	return b
}

func sealed(t testing.TB, payloadType string, payload []byte, sign []ed25519.PrivateKey) []byte {
	signatures := []any{}
	for _, key := range sign {
		signatures = append(signatures, fields{"keyid": "hint", "sig": base64.StdEncoding.EncodeToString(ed25519.Sign(key, contract.PAE(payloadType, payload)))})
	}
	return marshal(t, fields{"payloadType": payloadType, "payload": base64.StdEncoding.EncodeToString(payload), "signatures": signatures})
}

func (a *attested) envelope() []byte {
	a.predicate["declaration"] = a.declaration
	a.statement["predicate"] = a.predicate
	if digest, ok := a.subject()["digest"].(fields); ok && !a.keepDigest {
		digest["sha256"] = sha(marshal(a.t, a.declaration))
	}
	payload := a.payload
	if payload == nil {
		payload = marshal(a.t, a.statement)
	}
	return sealed(a.t, a.payloadType, payload, a.sign)
}

// examination is one that accepts.
func examination(t testing.TB, envelope []byte) contract.Examination {
	e := contract.Examination{
		Envelope: envelope, Agent: "agent-a@org1.example", Trust: []bcp.Trust{{Organisation: "org1.example", Key: public(signingKey)}},
		Revocations: contract.Revocations{Number: 7, Issued: issued, Next: issued.Add(12 * time.Hour), Serials: []string{"a-9"}},
		LastNumber:  7, Now: issued.Add(6 * time.Hour), Requirement: contract.DualLLMRequirement(), Verify: verify,
	}
	for _, b := range contract.Builtins() {
		e.Contracts = append(e.Contracts, []byte(b.Bytes))
	}
	return e
}

// Each check of an attestation has its code, and a case that fails by it alone.
// covers DUAL-85, DUAL-86, DUAL-87, DUAL-88, DUAL-89, DUAL-90, DUAL-91, DUAL-92, DUAL-93, DUAL-105
func TestJudgeAttestation(t *testing.T) {
	t.Parallel()
	type both = func(a *attested, e *contract.Examination)
	set := func(m func(a *attested) map[string]any, key string, v any) both {
		return func(a *attested, _ *contract.Examination) { m(a)[key] = v }
	}
	predicate := func(a *attested) map[string]any { return a.predicate }
	declaration := func(a *attested) map[string]any { return a.declaration }
	roles := func(a *attested) map[string]any { return a.declaration["agent:role_declaration"].(fields) }
	part := func(role string) func(a *attested) map[string]any {
		return func(a *attested) map[string]any { return a.role(role) }
	}
	evidence := func(a *attested) map[string]any { return a.predicate["evidence"].(fields) }
	judge := func(change func(e *contract.Examination)) both {
		return func(_ *attested, e *contract.Examination) { change(e) }
	}
	demand := func(name string, level contract.Level) both {
		return judge(func(e *contract.Examination) { e.Requirement.Demands = []contract.Demand{{Name: name, Level: level}} })
	}
	write := func(change func(a *attested)) both {
		return func(a *attested, _ *contract.Examination) { change(a) }
	}
	keys := func(n int) both { return set(predicate, "keys", strings.Split(strings.Repeat("U,", n-1)+"U", ",")) }
	signedBy := func(keys ...ed25519.PrivateKey) both { return write(func(a *attested) { a.sign = keys }) }
	// edited has the agent keep another contract of a role, which the examiner has.
	edited := func(role string, change func(m map[string]any)) both {
		return func(a *attested, e *contract.Examination) {
			b := edit(t, role+"-v1", change)
			a.role(role)["contract_ref"], e.Contracts = "sha256:"+sha(b), append(e.Contracts, b)
		}
	}
	org2 := bcp.Trust{Organisation: "org2.example", Key: public(otherKey)}
	for _, c := range []struct {
		name   string
		change both
		want   contract.VerdictCode
	}{
		{"all is right", func(*attested, *contract.Examination) {}, ""},
		{"two signatures, one by a stranger", signedBy(otherKey, signingKey), ""},
		{"more evidence", set(evidence, "weather", fields{"fine": true}), ""},
		{"a key that rotates", judge(func(e *contract.Examination) {
			e.Trust = append([]bcp.Trust{{Organisation: "org1.example", Key: public(otherKey)}}, e.Trust...)
		}), ""},

		{"another type of payload", write(func(a *attested) { a.payloadType = "application/json" }), contract.MalformedAttestation},
		{"no statement", write(func(a *attested) { a.payload = []byte(`{}`) }), contract.MalformedAttestation},
		{"another statement", write(func(a *attested) { a.statement["_type"] = "https://in-toto.io/Statement/v0.1" }), contract.MalformedAttestation},
		{"another predicate", write(func(a *attested) { a.statement["predicateType"] = "https://slsa.dev/provenance/v1" }), contract.MalformedAttestation},
		{"two subjects", write(func(a *attested) { a.statement["subject"] = []any{a.subject(), a.subject()} }), contract.MalformedAttestation},
		{"an unknown key", set(predicate, "note", "x"), contract.MalformedAttestation},
		{"no serial", write(func(a *attested) { delete(a.predicate, "serial") }), contract.MalformedAttestation},
		{"a moment with a zone", set(predicate, "issued", "2026-03-01T01:00:00+01:00"), contract.MalformedAttestation},
		{"an agent without an organisation", set(declaration, "agent:id", "agent-a"), contract.MalformedAttestation},
		{"no planner", write(func(a *attested) { delete(roles(a), "planner") }), contract.MalformedAttestation},
		{"no model family", set(part("processor"), "model_family", ""), contract.MalformedAttestation},
		{"no type", write(func(a *attested) { delete(a.role("orchestrator"), "type") }), contract.MalformedAttestation},
		{"65 keys", keys(65), contract.MalformedAttestation},
		{"64 keys", keys(64), ""},
		{"nine signatures", signedBy(slices.Repeat([]ed25519.PrivateKey{signingKey}, 9)...), contract.MalformedAttestation},
		{"eight signatures", signedBy(slices.Repeat([]ed25519.PrivateKey{signingKey}, 8)...), ""},

		{"nobody is trusted", judge(func(e *contract.Examination) { e.Trust = nil }), contract.UnknownOrganisation},
		{"another organisation is trusted", judge(func(e *contract.Examination) { e.Trust[0].Organisation = "org2.example" }), contract.UnknownOrganisation},
		{"trust has ended", judge(func(e *contract.Examination) { e.Trust[0].Until = e.Now }), contract.UnknownOrganisation},
		{"trust ends in a moment", judge(func(e *contract.Examination) { e.Trust[0].Until = e.Now.Add(1) }), ""},

		{"no signature", signedBy(), contract.BadSignature},
		{"a stranger's signature", signedBy(otherKey), contract.BadSignature},
		{"another trusted organisation's signature", func(a *attested, e *contract.Examination) {
			a.sign, e.Trust = []ed25519.PrivateKey{otherKey}, append(e.Trust, org2)
		}, contract.BadSignature},
		{"nobody can check", judge(func(e *contract.Examination) { e.Verify = nil }), contract.BadSignature},

		{"the first moment", judge(func(e *contract.Examination) { e.Now = issued }), ""},
		{"before the first moment", judge(func(e *contract.Examination) { e.Now, e.Revocations.Issued = issued.Add(-1), issued.Add(-time.Hour) }), contract.NotCurrent},
		{"the last moment", judge(func(e *contract.Examination) {
			e.Now, e.Revocations.Next = issued.Add(24*time.Hour-1), issued.Add(48*time.Hour)
		}), ""},
		{"expired", judge(func(e *contract.Examination) {
			e.Now, e.Revocations.Next = issued.Add(24*time.Hour), issued.Add(48*time.Hour)
		}), contract.NotCurrent},
		{"good for seven days", set(predicate, "expires", "2026-03-08T00:00:00Z"), ""},
		{"good for a second more", set(predicate, "expires", "2026-03-08T00:00:01Z"), contract.NotCurrent},
		{"no list of revocations", judge(func(e *contract.Examination) { e.Revocations, e.LastNumber = contract.Revocations{}, 0 }), contract.NotCurrent},
		{"a list of tomorrow", judge(func(e *contract.Examination) { e.Revocations.Issued = e.Now.Add(1) }), contract.NotCurrent},
		{"the next list is due", judge(func(e *contract.Examination) { e.Revocations.Next = e.Now }), contract.NotCurrent},
		{"the next list is nearly due", judge(func(e *contract.Examination) { e.Revocations.Next = e.Now.Add(1) }), ""},
		{"a list that goes back", judge(func(e *contract.Examination) { e.LastNumber = 8 }), contract.NotCurrent},

		{"revoked", set(predicate, "serial", "a-9"), contract.Revoked},
		{"a revoked key, and nobody says which speaks", judge(func(e *contract.Examination) { e.Revocations.Keys = []string{"UOTHER"} }), contract.Revoked},

		{"another agent", judge(func(e *contract.Examination) { e.Agent = "agent-b@org1.example" }), contract.WrongAgent},
		{"another subject", write(func(a *attested) { a.subject()["name"] = "agent-b@org1.example" }), contract.WrongAgent},
		{"another declaration", func(a *attested, _ *contract.Examination) {
			a.keepDigest = true
			a.subject()["digest"] = fields{"sha256": strings.Repeat("0", 63) + "1"}
		}, contract.WrongAgent},

		{"another architecture", set(roles, "architecture", "single_llm"), contract.UnknownArchitecture},
		{"an orchestrator that is a model", set(part("orchestrator"), "type", "llm"), contract.UnknownArchitecture},
		{"an architecture of theirs", func(a *attested, e *contract.Examination) {
			roles(a)["architecture"], e.Requirement.Architectures = "camel", []string{"dual_llm", "camel"}
		}, ""},
		{"no architecture will do", judge(func(e *contract.Examination) { e.Requirement.Architectures = []string{} }), contract.UnknownArchitecture},

		{"a URL without a digest", set(part("planner"), "contract_ref", "https://org1.example/contracts/planner-v2"), contract.ContractMissing},
		{"the orchestrator's URL without a digest", set(part("orchestrator"), "contract_ref", "https://org1.example/o"), contract.ContractMissing},
		{"a digest in upper case", set(part("planner"), "contract_ref", "sha256:"+strings.ToUpper(sha(builtin(t, "planner-v1")))), contract.ContractMissing},
		{"a contract that nobody has", set(part("planner"), "contract_ref", "sha256:"+strings.Repeat("0", 64)), contract.ContractMissing},
		{"an orchestrator's contract that nobody asks for", set(part("orchestrator"), "contract_ref", "sha256:"+strings.Repeat("0", 64)), ""},
		{"an orchestrator's contract that is asked for", func(a *attested, e *contract.Examination) {
			a.role("orchestrator")["contract_ref"] = "sha256:" + strings.Repeat("0", 64)
			e.Requirement.Demands = []contract.Demand{{Name: "gated", Level: contract.Monitored}}
		}, contract.ContractMissing},
		{"the other role's contract", set(part("planner"), "contract_ref", "sha256:"+sha(builtin(t, "processor-v1"))), contract.ContractMissing},
		{"a contract with a defect", edited("planner", func(m map[string]any) { m["contract:version"] = "2.0" }), contract.ContractMissing},

		{"a weaker level", edited("planner", func(m map[string]any) {
			m["contract:invariants"].([]any)[1].(map[string]any)["enforcement"] = "runtime_monitored"
		}), contract.ContractWeak},
		{"a stronger level", edited("planner", func(m map[string]any) { first(m)["enforcement"] = "architectural" }), ""},
		{"an invariant less", edited("planner", func(m map[string]any) { m["contract:invariants"] = m["contract:invariants"].([]any)[:2] }), contract.ContractWeak},
		{"an invariant without a predicate", edited("planner", func(m map[string]any) { first(m)["formal"] = "planner is nice" }), contract.ContractWeak},
		{"a promise for another role", func(a *attested, e *contract.Examination) {
			e.Requirement.Demands = []contract.Demand{{Name: "has_none", Level: contract.Architectural}}
			edited("planner", func(m map[string]any) {
				first(m)["formal"], first(m)["predicate"] = "x", fields{"name": "has_none", "args": []any{"processor", "tools"}}
				first(m)["enforcement"] = "architectural"
			})(a, e)
			edited("processor", func(m map[string]any) { m["contract:invariants"] = m["contract:invariants"].([]any)[1:] })(a, e)
		}, contract.ContractWeak},
		{"a level that none declares", demand("conforms", contract.Architectural), contract.ContractWeak},
		{"a level that one declares", demand("conforms", contract.Parser), ""},
		{"a predicate that is none", demand("is_safe", contract.Monitored), contract.ContractWeak},

		{"no proof", set(evidence, "permission_proof", fields{"claims": 0, "holes": 0, "jwts": "aa"}), contract.EvidenceMissing},
		{"no evidence", write(func(a *attested) { delete(a.predicate, "evidence") }), contract.EvidenceMissing},
		{"evidence without a proof", set(evidence, "permission_proof", nil), contract.MalformedAttestation},
		{"evidence of another kind", set(predicate, "evidence", fields{"build": "test"}), contract.EvidenceMissing},
		{"a proof with a hole", set(evidence, "permission_proof", fields{"claims": 8, "holes": 1, "jwts": "aa"}), contract.EvidenceMissing},
		{"no proof, and none is asked for", func(a *attested, e *contract.Examination) {
			a.predicate["evidence"], e.Requirement.Proof = fields{}, false
		}, ""},
		{"evidence as old as allowed", judge(func(e *contract.Examination) { e.Requirement.MaxAge = 6 * time.Hour }), ""},
		{"evidence older than allowed", judge(func(e *contract.Examination) { e.Requirement.MaxAge = 6*time.Hour - 1 }), contract.EvidenceMissing},

		// The first check that fails gives the code.
		{"everything is wrong", func(a *attested, e *contract.Examination) {
			a.sign, a.predicate["evidence"], e.Agent = nil, fields{}, "x@y"
		}, contract.BadSignature},
		{"nearly everything is wrong", func(a *attested, e *contract.Examination) {
			a.predicate["serial"], a.predicate["evidence"], e.Agent = "a-9", fields{}, "x@y"
		}, contract.Revoked},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAttested(t)
			e := examination(t, nil)
			c.change(a, &e)
			e.Envelope = a.envelope()
			got := contract.JudgeAttestation(&e)
			failIf(t, got.Code != c.want || got.Accepted != (c.want == ""),
				"accepted %t, code %q, want %q", got.Accepted, got.Code, c.want)
			failIf(t, got.Accepted != !got.Until.IsZero() || got.Accepted && !got.Until.After(e.Now), "until %s", got.Until)
		})
	}
	for _, code := range contract.VerdictCodes() {
		failIf(t, code.Text() == string(code), "%s has no text", code)
	}
}

// Who answers a challenge has one of the agent's keys, for this nonce, this asker and
// this attestation.
// covers DUAL-93, DUAL-105
func TestProofOfAKey(t *testing.T) {
	t.Parallel()
	envelope := newAttested(t).envelope()
	statement := string(contract.ProofStatement("n1", "desk", envelope))
	want := "bcpmesh role 1\nnonce n1\nattestation " + sha(envelope) + "\nto desk\n"
	stopIf(t, statement != want, "%q", statement)
	// A signature stands for itself: who has the key, and what was signed.
	signs := func(key, statement string) []byte { return []byte(key + " signed " + statement) }
	check := func(key string, statement, signature []byte) bool {
		return string(signature) == string(signs(key, string(statement)))
	}
	for _, c := range []struct {
		name   string
		change func(e *contract.Examination)
		want   contract.VerdictCode
	}{
		{"right", func(*contract.Examination) {}, ""},
		{"no proof", func(e *contract.Examination) { e.Proof = contract.Proof{} }, contract.NoProof},
		{"a key that is not the agent's", func(e *contract.Examination) {
			e.Proof = contract.Proof{Key: "UEVE", Signature: signs("UEVE", statement)}
		}, contract.NoProof},
		{"an answer to another nonce", func(e *contract.Examination) { e.Challenge.Nonce = "n2" }, contract.NoProof},
		{"an answer to somebody else", func(e *contract.Examination) { e.Challenge.Asker = "eve" }, contract.NoProof},
		{"nobody can check", func(e *contract.Examination) { e.Challenge.Verify = nil }, contract.NoProof},
		{"a revoked key", func(e *contract.Examination) { e.Revocations.Keys = []string{"UKEY"} }, contract.Revoked},
		{"the other key is revoked", func(e *contract.Examination) { e.Revocations.Keys = []string{"UOTHER"} }, ""},
		{"a revoked key, and no challenge", func(e *contract.Examination) { e.Revocations.Keys, e.Challenge = []string{"UOTHER"}, nil }, contract.Revoked},
	} {
		e := examination(t, envelope)
		e.Challenge = &contract.Challenge{Nonce: "n1", Asker: "desk", Verify: check}
		e.Proof = contract.Proof{Key: "UKEY", Signature: signs("UKEY", statement)}
		c.change(&e)
		expect(t, contract.JudgeAttestation(&e).Code, c.want, "%s", c.name)
	}
}

// An acceptance ends with what ends first of all that it rests on.
func TestAcceptanceEnds(t *testing.T) {
	t.Parallel()
	envelope := newAttested(t).envelope()
	at := func(hours int) time.Time { return issued.Add(time.Duration(hours) * time.Hour) }
	for _, c := range []struct {
		next, trust time.Time
		age         time.Duration
		want        time.Time
	}{
		{at(48), time.Time{}, 0, at(24)},
		{at(12), time.Time{}, 0, at(12)},
		{at(12), at(9), 0, at(9)},
		{at(12), at(9), 7 * time.Hour, at(7).Add(1)},
	} {
		e := examination(t, envelope)
		e.Revocations.Next, e.Trust[0].Until, e.Requirement.MaxAge = c.next, c.trust, c.age
		got := contract.JudgeAttestation(&e)
		failIf(t, !got.Accepted || !got.Until.Equal(c.want),
			"%t until %s, want %s (%s)", got.Accepted, got.Until, c.want, got.Code)
		e.Now = got.Until
		failIf(t, contract.JudgeAttestation(&e).Accepted, "it is accepted at its end, %s", got.Until)
		e.Now = got.Until.Add(-1)
		failIf(t, !contract.JudgeAttestation(&e).Accepted, "it is not accepted before its end, %s", got.Until)
	}
}

// An attestation in which one byte of the payload or of the signature is changed is
// never accepted.
// covers DUAL-90, DUAL-105
func TestEachByteIsSigned(t *testing.T) {
	t.Parallel()
	a := newAttested(t)
	whole := a.envelope()
	var envelope struct {
		Type       string `json:"payloadType"`
		Payload    []byte `json:"payload"`
		Signatures []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	}
	noError(t, json.Unmarshal(whole, &envelope))
	judge := func(payload, signature []byte) contract.Acceptance {
		e := examination(t, marshal(t, fields{"payloadType": envelope.Type, "payload": payload, "signatures": []any{fields{"sig": signature}}}))
		return contract.JudgeAttestation(&e)
	}
	signature := envelope.Signatures[0].Sig
	got := judge(envelope.Payload, signature)
	stopIf(t, !got.Accepted, "unchanged: %s", got.Code)
	changed := func(b []byte, i int) []byte {
		c := append([]byte{}, b...)
		c[i] ^= 1
		return c
	}
	for i := range envelope.Payload {
		failIf(t, judge(changed(envelope.Payload, i), signature).Accepted, "accepted with byte %d of the payload changed", i)
	}
	for i := range signature {
		expect(t, judge(envelope.Payload, changed(signature, i)).Code, contract.BadSignature, "byte %d of the signature changed", i)
	}
	// Of the envelope's own bytes only the hint may change.
	hint := strings.Index(string(whole), "hint")
	for i := range whole {
		e := examination(t, changed(whole, i))
		expect(t, contract.JudgeAttestation(&e).Accepted, (i >= hint && i < hint+len("hint")), "byte %d of the envelope changed: accepted", i)
	}
}

// Envelopes are bounded, and their base64 has one spelling in each alphabet.
func TestEnvelopeLimits(t *testing.T) {
	t.Parallel()
	whole := newAttested(t).envelope()
	pad := func(n int) []byte { return append(append([]byte{}, whole...), strings.Repeat(" ", n-len(whole))...) }
	_, ok := contract.ParseEnvelope(pad(contract.MaxEnvelope))
	failIf(t, !ok, "64 KiB are refused")
	_, ok = contract.ParseEnvelope(pad(contract.MaxEnvelope + 1))
	failIf(t, ok, "a byte more is accepted")
	for payload, want := range map[string]bool{
		"-_8=": true, "+/8=": true, "+_8=": false, "+/8": false, "+/9=": false, "+/8=\\n": false, "+ /8=": false, "": false, "!": false,
	} {
		b := []byte(`{"payloadType":"` + contract.PayloadType + `","payload":"` + payload + `","signatures":[]}`)
		e, ok := contract.ParseEnvelope(b)
		failIf(t, ok != want || ok && string(e.Payload) != "\xfb\xff", "%q: %t, %x", payload, ok, e.Payload)
	}
}

// The bytes of a signature are those of DSSE's specification.
func TestPAE(t *testing.T) {
	t.Parallel()
	expect(t, string(contract.PAE("http://example.com/HelloWorld", []byte("hello world"))), "DSSEv1 29 http://example.com/HelloWorld 11 hello world", "PAE")
}

// Whatever bytes come as an attestation, nothing is accepted that nobody signed.
// covers DUAL-105
func FuzzJudgeAttestation(f *testing.F) {
	whole := newAttested(f).envelope()
	envelope, ok := contract.ParseEnvelope(whole)
	stopIf(f, !ok, "the seed is no envelope")
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"sig":""}]}`), envelope.Payload)
	f.Add([]byte(nil), marshal(f, revocations(7)))
	f.Fuzz(func(t *testing.T, envelope, payload []byte) {
		e := examination(t, envelope)
		e.Verify = func([32]byte, []byte, []byte) bool { return false }
		a := contract.JudgeAttestation(&e)
		stopIf(t, a.Accepted || a.Code == "", "accepted: %s", envelope)
		// A statement that its organisation signed may say anything; reading it ends.
		e = examination(t, sealed(t, contract.PayloadType, payload, []ed25519.PrivateKey{signingKey}))
		contract.JudgeAttestation(&e)
		contract.OpenRevocations(e.Envelope, "org1.example", e.Trust, e.Now, verify)
		contract.ParseRevocations(payload)
		contract.ParseRequirement(payload)
	})
}

// The zero values see, reach and show nothing.
func TestZeroValuesDeny(t *testing.T) {
	t.Parallel()
	var c contract.Contract
	var r contract.Requirement
	switch {
	case contract.Verify(c, contract.Facts{}).OK:
		t.Error("no contract holds")
	case contract.Between("", "") != contract.NoPassage || contract.Between("", contract.Planner) != contract.NoPassage:
		t.Error("no role reaches another")
	case contract.Level(0) != contract.Declared || contract.Predicate{}.String() != "unverified":
		t.Error("a zero value shows something")
	case contract.JudgeAttestation(&contract.Examination{Requirement: r}).Accepted:
		t.Error("nothing is accepted")
	case new(contract.Acceptance).Accepted:
		t.Error("the zero acceptance accepts")
	}
	_, known := contract.ParseRole("")
	failIf(t, known, "no word is a role")
	for _, word := range []string{"", "declared", "invalid"} {
		_, known := contract.ParseLevel(word)
		failIf(t, known, "%q is a level that can be demanded", word)
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}

// fataler is a test of Go, or of rapid.
type fataler = bcptest.TB
