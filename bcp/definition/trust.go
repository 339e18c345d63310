package definition

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Other organisations: whose keys are trusted, and what is required of their agents.

// trust reads whose keys are trusted, and what may be required.
func (b *builder) trust(m *bcp.Mesh) {
	for _, t := range b.mesh.TrustEntries {
		t.complete()
		if t.Organisation == m.Organisation {
			t.errorf("organisation", CodeTrust, "this is the mesh's own organisation: a mesh requires nothing of its own agents")
		}
		m.Trust = append(m.Trust, t.Trust)
	}
	for _, r := range b.mesh.RequirementEntries {
		document, ok := r.document()
		_, known := m.Requirement(r.Name)
		_, err := bcp.ParseClientID(r.Name)
		switch {
		case err != nil:
			r.errorf("name", CodeTrust, "expected 1 to 64 letters, digits, hyphens and underscores")
		case known:
			r.errorf("name", CodeDuplicate, "there is a requirement %s already", quote(r.Name))
		case !ok:
			r.errorf("invariants", CodeTrust, "these are no arguments of the predicate; docs/contracts.md lists them")
		default:
			m.RoleRequirements = append(m.RoleRequirements, bcp.RoleRequirement{Name: r.Name, Document: document})
		}
	}
}

// ed25519Prefix begins the SPKI of an ed25519 key (RFC 8410); 32 bytes of key follow.
var ed25519Prefix = []byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}

func (t *trustForm) complete() {
	text := strings.TrimSpace(t.KeyText)
	text = strings.TrimSuffix(strings.TrimPrefix(text, "-----BEGIN PUBLIC KEY-----"), "-----END PUBLIC KEY-----")
	der, err := base64.StdEncoding.Strict().DecodeString(strings.Join(strings.Fields(text), ""))
	raw, isKey := bytes.CutPrefix(der, ed25519Prefix)
	if err != nil || !isKey || len(raw) != len(t.Key) {
		t.errorf("key", CodeTrust, "expected a public ed25519 key in PEM: bcpmesh role attest --key prints that of a mesh")
	}
	copy(t.Key[:], raw)
	if t.UntilText == "" {
		return
	}
	if t.Until, err = time.Parse(time.RFC3339, t.UntilText); err != nil || t.Until.UTC().Format(time.RFC3339) != t.UntilText {
		t.errorf("until", CodeTrust, "expected a moment such as 2027-01-01T00:00:00Z")
	}
}

// document writes a requirement as package contract reads it.
func (r *requirementForm) document() (text []byte, ok bool) {
	for _, i := range r.Invariants {
		for _, text := range i.Texts {
			inner, opened := strings.CutPrefix(text, "[")
			inner, closed := strings.CutSuffix(inner, "]")
			if opened && closed {
				i.Args = append(i.Args, strings.FieldsFunc(inner, func(c rune) bool { return c == ',' || c == ' ' }))
			} else {
				i.Args = append(i.Args, text)
			}
		}
	}
	if r.Evidence != nil && r.Evidence.Age > 0 {
		r.Evidence.MaxAge = r.Evidence.Age.String()
	}
	text, err := json.Marshal(r)
	if err == nil {
		_, ok = contract.ParseRequirement(text)
	}
	return text, ok
}

// checkRequired refuses requirements that are not there, and those that nobody can meet.
func (b *builder) checkRequired(m *bcp.Mesh) {
	names := []string{bcp.DualLLMRole}
	for _, r := range m.RoleRequirements {
		names = append(names, r.Name)
	}
	check := func(o *object, at, name string) {
		switch {
		case name != "" && !slices.Contains(names, name):
			o.errorf(at, CodeTrust, "there is no role requirement %s%s", quote(name), didYouMean(name, names))
		case name != "" && (len(m.Trust) == 0 || m.Organisation == ""):
			o.errorf(at, CodeTrust, "nobody can be accepted: mesh.yaml needs organisation, and the keys of others in trust")
		}
	}
	for _, a := range b.agents {
		for _, c := range a.Channels {
			check(&c.object, "requires_role", c.ReaderRole)
		}
		if a.Kernel == nil {
			continue
		}
		for _, r := range a.Kernel.RoleLists {
			if !slices.ContainsFunc(a.Kernel.RequesterLists, func(q named[[]string]) bool { return q.At.name == r.At.name }) {
				a.source.errorf(r.At.position, CodeTrust, r.At.path, "%s is no requester of the kernel", quote(r.At.name))
			}
			for i, name := range r.Is {
				check(&a.Kernel.object, index("requires_role."+r.At.name, i), name)
			}
		}
	}
}
