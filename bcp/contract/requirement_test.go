package contract_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

func revocations(number int) fields {
	return fields{"number": number, "issued": "2026-03-01T00:00:00Z", "next": "2026-03-01T12:00:00Z", "serials": []any{"a-9"}, "keys": []any{}}
}

// A list of revocations is signed by its organisation, and names it.
// covers DUAL-93
func TestOpenRevocations(t *testing.T) {
	t.Parallel()
	trust := []bcp.Trust{{Organisation: "org1.example", Key: public(signingKey)}, {Organisation: "org2.example", Key: public(otherKey)}}
	build := func(change func(s, list fields), key ed25519.PrivateKey) []byte {
		list := revocations(7)
		s := fields{"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://bcpmesh.dev/attestation/revocations/v1"}
		s["subject"], s["predicate"] = []any{fields{"name": "org1.example", "digest": fields{"sha256": sha(marshal(t, list))}}}, list
		change(s, list)
		return sealed(t, contract.PayloadType, marshal(t, s), []ed25519.PrivateKey{key})
	}
	none := func(fields, fields) {}
	for _, c := range []struct {
		name         string
		envelope     []byte
		organisation string
		want         contract.VerdictCode
	}{
		{"right", build(none, signingKey), "org1.example", ""},
		{"of another organisation", build(none, otherKey), "org2.example", contract.WrongAgent},
		{"signed by another", build(none, otherKey), "org1.example", contract.BadSignature},
		{"of nobody", build(none, signingKey), "org3.example", contract.UnknownOrganisation},
		{"an attestation", newAttested(t).envelope(), "org1.example", contract.MalformedAttestation},
		{"a list more", build(func(_, list fields) { list["note"] = "x" }, signingKey), "org1.example", contract.MalformedAttestation},
		{"a digest of another list", build(func(_, list fields) { list["number"] = 8 }, signingKey), "org1.example", contract.WrongAgent},
		{"a number below 0", build(func(_, list fields) { list["number"] = -1 }, signingKey), "org1.example", contract.MalformedAttestation},
	} {
		list, code := contract.OpenRevocations(c.envelope, c.organisation, trust, issued, verify)
		failIf(t, code != c.want || (list.Number == 7) != (c.want == ""),
			"%s: %q, list %d, want %q", c.name, code, list.Number, c.want)
	}
	for n, want := range map[int]bool{1000: true, 1001: false} {
		list := revocations(1)
		list["serials"] = strings.Split(strings.Repeat("s,", n-1)+"s", ",")
		_, ok := contract.ParseRevocations(marshal(t, list))
		failIf(t, ok != want, "%d serials: %t", n, ok)
	}
}

// Requirements are read strictly. The built-in one asks for the draft's six
// invariants at their levels.
// covers DUAL-92
func TestRequirements(t *testing.T) {
	t.Parallel()
	r := contract.DualLLMRequirement()
	failIf(t, len(r.Demands) != 6 || !r.Proof || r.MaxAge != 24*time.Hour, "%+v", r)
	for text, want := range map[string]bool{
		`{}`: true,
		`{"name":"x","architectures":["dual_llm"],"orchestrators":["deterministic_interpreter"],"invariants":[{"predicate":"never_receives","args":["planner","tool_outputs"],"level":"architectural"}],"evidence":{"permission_proof":true,"max_age":"24h"}}`: true,
		`{"invariants":[{"predicate":"never_receives","level":"monitored"}]}`:                    true,
		`{"invariants":[{"predicate":"never_receives","level":"declared"}]}`:                     false,
		`{"invariants":[{"predicate":"is_safe","level":"monitored"}]}`:                           false,
		`{"invariants":[{"predicate":"never_receives","args":["planner"],"level":"monitored"}]}`: false,
		`{"invariants":[{"predicate":"never_receives"}]}`:                                        false,
		`{"evidence":{"max_age":"0s"}}`:                                                          false,
		`{"evidence":{"max_age":24}}`:                                                            false,
		`{"evidence":{"permission_proof":"yes"}}`:                                                false,
		`{"evidence":{"weather":true}}`:                                                          false,
		`{"architectures":"dual_llm"}`:                                                           false,
		`{"unknown":1}`:                                                                          false,
		`[]`:                                                                                     false,
	} {
		_, ok := contract.ParseRequirement([]byte(text))
		failIf(t, ok != want, "%s: %t", text, ok)
	}
	demands := func(n int) []byte {
		return []byte(`{"invariants":[` + strings.Repeat(`{"predicate":"gated","level":"monitored"},`, n-1) + `{"predicate":"gated","level":"monitored"}]}`)
	}
	_, ok := contract.ParseRequirement(demands(64))
	failIf(t, !ok, "64 invariants are refused")
	_, ok = contract.ParseRequirement(demands(65))
	failIf(t, ok, "65 invariants are accepted")
}

// Asking for more never accepts an agent that was refused.
// covers DUAL-92
func TestRequirementsAreMonotone(t *testing.T) {
	t.Parallel()
	envelope := newAttested(t).envelope()
	base := examination(t, envelope)
	rapid.Check(t, func(rt *rapid.T) {
		e := base
		e.Requirement = contract.Requirement{}
		was := true
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "more") {
			case 0:
				e.Requirement.Proof = true
			case 1:
				age := time.Duration(rapid.IntRange(1, 24).Draw(rt, "hours")) * time.Hour
				if e.Requirement.MaxAge == 0 || age < e.Requirement.MaxAge {
					e.Requirement.MaxAge = age
				}
			default:
				e.Requirement.Demands = append(e.Requirement.Demands, contract.Demand{
					Name: rapid.SampledFrom(contract.PredicateNames()).Draw(rt, "predicate"), Level: contract.Level(rapid.IntRange(1, 3).Draw(rt, "level")),
				})
			}
			is := contract.JudgeAttestation(&e).Accepted
			stopIf(rt, is && !was, "more is required, and it is accepted: %+v", e.Requirement)
			was = is
		}
	})
}

func TestAgentIDs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"agent-a@org1.example": true, "a@b": true, "agent-a": false, "@org1.example": false, "agent-a@": false, "a@b@c": false,
		"Agent@org1.example": false, "a@Org1.example": false, "a@-b": false, "a@b-": false, "a@b..c": false, "a@b.": false, "a@b c": false,
		"a@" + strings.Repeat("b", 63): true, "a@" + strings.Repeat("b", 64): false,
		"a@" + strings.Repeat("b.", 126) + "b": true, "a@" + strings.Repeat("b.", 126) + "bb": false,
	} {
		id, ok := contract.ParseAgentID(text)
		failIf(t, ok != want || ok && id.String() != text, "%q: %t, %s", text, ok, id)
	}
}
