package definition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// The public key of the seed that is 32 zero bytes, as openssl writes it.
const trustedKey = "MCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik="

const trustMesh = `organisation: org1.example
trust:
  - organisation: org2.example
    key: |
      -----BEGIN PUBLIC KEY-----
      ` + trustedKey + `
      -----END PUBLIC KEY-----
    until: 2027-01-01T00:00:00Z
  - {organisation: org2.example, key: ` + trustedKey + `}
role_requirements:
  - name: strict
    architectures: [dual_llm]
    invariants:
      - {predicate: never_receives, args: [planner, tool_outputs], level: monitored}
      - {predicate: function_of, args: [planner.output, "[user_query, tool_signatures]"], level: architectural}
    evidence: {permission_proof: true, max_age: 24h}
`

const (
	askingFile    = "---\nname: main\nbcp_channels: [{peer: pat, role: controller, max_category: 1, budget_bits: 9, requires_role: strict}]\n---\n"
	answeringFile = "---\nname: pat\nbcp_channels: [{peer: main, role: reader}]\n---\n"
)

func trustFiles(mesh, main string) map[string][]byte {
	return map[string][]byte{"mesh.yaml": []byte(mesh), "agents/main.md": []byte(main), "agents/pat.md": []byte(answeringFile)}
}

// Whose keys are trusted and what is required comes from mesh.yaml, and is what package
// contract reads.
//
// covers P14.2, DUAL-91, DUAL-92
func TestTrust(t *testing.T) {
	t.Parallel()
	m, report := definition.Parse(trustFiles(trustMesh, askingFile))
	stopIf(t, m == nil, "%v", report.Errors)
	failIf(t, len(m.Trust) != 2 || m.Trust[0].Key != m.Trust[1].Key || m.Trust[0].Key[0] != 0x3b || !m.Trust[0].Until.Equal(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) || !m.Trust[1].Until.IsZero(),
		"%+v", m.Trust)
	r, known := m.Requirement("strict")
	parsed, ok := contract.ParseRequirement(r.Document)
	failIf(t, !known || !ok || len(parsed.Demands) != 2 || len(parsed.Demands[1].Args) != 2 || !parsed.Proof || parsed.MaxAge != 24*time.Hour,
		"%s: %+v", r.Document, parsed)
	ch, _ := m.Channel(bcp.ChannelKey{Controller: "main", Reader: "pat"})
	failIf(t, ch.ReaderRole != "strict" || ch.ControllerRole != "" || !m.RolesRequired()["pat"] || m.RolesRequired()["main"],
		"%+v", ch)
}

// covers P14.2
func TestTrustIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"no key":                  {"key: " + trustedKey, "key: none", "expected a public ed25519 key in PEM"},
		"another kind of key":     {"key: MCow", "key: MCoA", "expected a public ed25519 key in PEM"},
		"a key that is too short": {"2ik=}", "2g==}", "expected a public ed25519 key in PEM"},
		"no moment":               {"2027-01-01T00:00:00Z", "2027-01-01", "expected a moment such as"},
		"a moment elsewhere":      {"2027-01-01T00:00:00Z", `"2027-01-01T01+01:00"`, "expected a moment such as"},
		"its own organisation":    {"organisation: org1.example", "organisation: org2.example", "this is the mesh's own organisation"},
		"a requirement twice":     {"- name: strict", "- name: strict\n  - name: strict", "has the same name"},
		"the built-in one":        {"- name: strict", "- name: dual-llm\n  - name: strict", "there is a requirement \"dual-llm\" already"},
		"arguments of another":    {"tool_outputs]", "weather]", "these are no arguments of the predicate"},
		"one that is missing":     {"- name: strict", "- name: strictly", "there is no role requirement \"strict\"; did you mean \"strictly\"?"},
		"nobody to trust":         {"organisation: org1.example\n", "", "nobody can be accepted"},
	} {
		text := strings.Replace(trustMesh, c.from, c.to, 1)
		stopIf(t, text == trustMesh, "%s: nothing is changed", name)
		m, report := definition.Parse(trustFiles(text, askingFile))
		failIf(t, m != nil || len(report.Errors) == 0 || !strings.Contains(report.Errors[0].String(), c.want),
			"%s: %v", name, report.Errors)
	}
}
