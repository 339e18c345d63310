package definition_test

import (
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
