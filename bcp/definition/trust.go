package definition

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Other organisations: whose keys are trusted, and what is required of their agents.

var trustKeys = []Key{
	{Level: LevelTrust, Name: "organisation", Type: TypeOrganisation, Required: true, Rule: "DUAL-90", field: of(func(t *bcp.Trust) any { return &t.Organisation }),
		Doc: "Whose key it is."},
	{Level: LevelTrust, Name: "key", Type: TypeText, Min: 1, Max: 1000, Required: true, Rule: "DUAL-90",
		Doc: "A public ed25519 key, in PEM or its base64 alone."},
	{Level: LevelTrust, Name: "until", Type: TypeText, Min: 1, Max: 20, DefaultRule: "for good", Rule: "DUAL-93",
		Doc: "When it is no longer trusted, such as 2027-01-01T00:00:00Z."},

	{Level: LevelRequirement, Name: "name", Type: TypeText, Min: 1, Max: 64, Required: true, Rule: "P14.2",
		Doc: "The name for requires_role: letters, digits, hyphens and underscores."},
	{Level: LevelRequirement, Name: "architectures", Type: TypeTexts, Min: 1, Max: 64, DefaultRule: "dual_llm", Rule: "DUAL-91",
		Doc: "Accepted architectures."},
	{Level: LevelRequirement, Name: "orchestrators", Type: TypeTexts, Min: 1, Max: 64, DefaultRule: "deterministic_interpreter", Rule: "DUAL-91",
		Doc: "Accepted types of orchestrators."},
	{Level: LevelRequirement, Name: "invariants", Type: TypeObjects, Child: LevelInvariant, Min: 0, Max: 64, DefaultRule: "none", Rule: "DUAL-92",
		Doc: "Invariants that its contracts must have."},
	{Level: LevelRequirement, Name: "evidence", Type: TypeObject, Child: LevelEvidence, DefaultRule: "none", Rule: "DUAL-92",
		Doc: "What its attestation must show."},

	{Level: LevelInvariant, Name: "predicate", Type: TypeWord, Words: contract.PredicateNames(), Required: true, Rule: "DUAL-92",
		Doc: "Its predicate (contracts.md)."},
	{Level: LevelInvariant, Name: "args", Type: TypeTexts, Min: 1, Max: 8, DefaultRule: "any", Rule: "DUAL-92",
		Doc: "Its arguments. A set of words is one text, such as \"[user_query, tool_signatures]\"."},
	{Level: LevelInvariant, Name: "level", Type: TypeWord, Words: []string{"monitored", "parser", "architectural"}, Required: true, Rule: "DUAL-92",
		Doc: "The level that is promised, or a weaker one."},

	{Level: LevelEvidence, Name: "permission_proof", Type: TypeBoolean, DefaultRule: "none is needed", Rule: "DUAL-92",
		Doc: "A permission proof without holes."},
	{Level: LevelEvidence, Name: "max_age", Type: TypeDuration, Min: 1, Max: 7 * day, DefaultRule: "as old as the attestation may be", Rule: "DUAL-93",
		Doc: "How old the attestation may be."},
}

// trust reads whose keys are trusted, and what may be required.
func (b *builder) trust(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	for i, o := range b.mesh.get("trust").objects {
		if t, ok := b.trusted(o, index("trust", i)); ok {
			if t.Organisation == m.Organisation {
				b.meshSource.errorf(o.at("organisation"), CodeTrust, join(index("trust", i), "organisation"), "this is the mesh's own organisation: a mesh requires nothing of its own agents")
			}
			m.Trust = append(m.Trust, t)
		}
	}
	for i, o := range b.mesh.get("role_requirements").objects {
		at := index("role_requirements", i)
		r, ok := buildRequirement(o)
		_, known := m.Requirement(r.Name)
		_, err := bcp.ParseClientID(r.Name)
		switch {
		case !o.has("name"):
		case err != nil:
			b.meshSource.errorf(o.at("name"), CodeTrust, join(at, "name"), "expected 1 to 64 letters, digits, hyphens and underscores")
		case known:
			b.meshSource.errorf(o.at("name"), CodeDuplicate, join(at, "name"), "there is a requirement %s already", quote(r.Name))
		case !ok:
			b.meshSource.errorf(o.at("invariants"), CodeTrust, join(at, "invariants"), "these are no arguments of the predicate; docs/contracts.md lists them")
		default:
			m.RoleRequirements = append(m.RoleRequirements, r)
		}
	}
}

// ed25519Prefix begins the SPKI of an ed25519 key (RFC 8410); 32 bytes of key follow.
var ed25519Prefix = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}

func (b *builder) trusted(o *object, at string) (bcp.Trust, bool) {
	var t bcp.Trust
	o.fill(&t)
	text := strings.TrimSpace(o.get("key").text)
	text = strings.TrimSuffix(strings.TrimPrefix(text, "-----BEGIN PUBLIC KEY-----"), "-----END PUBLIC KEY-----")
	der, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(text), ""))
	raw, isKey := bytes.CutPrefix(der, ed25519Prefix)
	if o.has("key") && (err != nil || !isKey || len(raw) != len(t.Key)) {
		b.meshSource.errorf(o.at("key"), CodeTrust, join(at, "key"), "expected a public ed25519 key in PEM: bcpmesh role attest --key prints that of a mesh")
		return t, false
	}
	copy(t.Key[:], raw)
	if until := o.get("until").text; until != "" {
		if t.Until, err = time.Parse(time.RFC3339, until); err != nil || t.Until.UTC().Format(time.RFC3339) != until {
			b.meshSource.errorf(o.at("until"), CodeTrust, join(at, "until"), "expected a moment such as 2027-01-01T00:00:00Z")
			return t, false
		}
	}
	return t, o.has("organisation") && o.has("key")
}

// buildRequirement writes a requirement as package contract reads it.
func buildRequirement(o *object) (bcp.RoleRequirement, bool) {
	type invariant struct {
		Predicate string `json:"predicate"`
		Args      []any  `json:"args,omitempty"`
		Level     string `json:"level"`
	}
	type evidence struct {
		Proof  bool   `json:"permission_proof"`
		MaxAge string `json:"max_age,omitempty"`
	}
	var document struct {
		Name          string      `json:"name"`
		Architectures []string    `json:"architectures,omitempty"`
		Orchestrators []string    `json:"orchestrators,omitempty"`
		Invariants    []invariant `json:"invariants,omitempty"`
		Evidence      *evidence   `json:"evidence,omitempty"`
	}
	document.Name, document.Architectures, document.Orchestrators = o.get("name").text, o.texts("architectures"), o.texts("orchestrators")
	for _, i := range o.get("invariants").objects {
		v := invariant{Predicate: i.get("predicate").word, Level: i.get("level").word}
		for _, text := range i.texts("args") {
			inner, opened := strings.CutPrefix(text, "[")
			inner, closed := strings.CutSuffix(inner, "]")
			if opened && closed {
				v.Args = append(v.Args, strings.FieldsFunc(inner, func(c rune) bool { return c == ',' || c == ' ' }))
			} else {
				v.Args = append(v.Args, text)
			}
		}
		document.Invariants = append(document.Invariants, v)
	}
	for _, e := range o.get("evidence").objects {
		document.Evidence = &evidence{Proof: e.get("permission_proof").boolean}
		if age := e.get("max_age").duration; age > 0 {
			document.Evidence.MaxAge = age.String()
		}
	}
	text, err := json.Marshal(document)
	if err != nil {
		return bcp.RoleRequirement{Name: document.Name}, false
	}
	_, ok := contract.ParseRequirement(text)
	return bcp.RoleRequirement{Name: document.Name, Document: text}, ok
}

// checkRequired refuses requirements that are not there, and those that nobody can meet.
func (b *builder) checkRequired(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	names := []string{bcp.DualLLMRole}
	for _, r := range m.RoleRequirements {
		names = append(names, r.Name)
	}
	check := func(s *source, p position, at, name string) {
		switch {
		case name != "" && !slices.Contains(names, name):
			s.errorf(p, CodeTrust, at, "there is no role requirement %s%s", quote(name), didYouMean(name, names))
		case name != "" && (len(m.Trust) == 0 || m.Organisation == ""):
			s.errorf(p, CodeTrust, at, "nobody can be accepted: mesh.yaml needs organisation, and the keys of others in trust")
		}
	}
	for _, a := range b.agents {
		for i, c := range a.object.get("bcp_channels").objects {
			check(a.source, c.at("requires_role"), join(index("bcp_channels", i), "requires_role"), c.get("requires_role").text)
		}
		for _, k := range a.object.get("kernel").objects {
			requesters := k.get("requesters").named
			for _, r := range k.get("requires_role").named {
				if !slices.ContainsFunc(requesters, func(q named) bool { return q.name == r.name }) {
					a.source.errorf(r.position, CodeTrust, r.path, "%s is no requester of the kernel", quote(r.name))
				}
				for i, e := range r.texts {
					check(a.source, e.position, fmt.Sprintf("%s[%d]", r.path, i), e.text)
				}
			}
		}
	}
}
