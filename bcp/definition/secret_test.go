package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A definition with a secret is refused, and what is like one is warned of, in its place and without a byte of it.
//
// covers ALF-48
func TestSecretsInDefinitions(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1", 10)
	for name, tt := range map[string]struct {
		file, content    string
		errors, warnings []string
	}{
		"token in a prompt":      {"a.md", "---\nname: a\n---\nLog in\n  with é " + token + ".\n", []string{"a.md:5:10: secret (github-token)"}, nil},
		"private key":            {"a.md", "---\nname: a\n---\n-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("QUJD", 20) + "\n-----END PRIVATE KEY-----\n", []string{"a.md:4:1: secret (pem)"}, nil},
		"password in a URL":      {"a.md", "---\nname: a\ncommand: [run, 'postgres://bob:hunter22@db.test/x']\ncommand_user: agent\n---\n", []string{"a.md:3:32: secret (url-password)"}, nil},
		"value of an assignment": {"a.md", "---\nname: a\n---\npassword: hunter22x\n", nil, []string{"a.md:4:11: secret_like (dotenv)"}},
		"hash":                   {"a.md", "---\nname: a\n---\nSee a6a3dcd4b8505961830606002c86b9a2390be46a.\n", nil, nil},
		"placeholder":            {"a.md", "---\nname: a\n---\nWrite password: YOUR_PASSWORD, or [REDACTED:github-token].\n", nil, nil},
		"in mesh.yaml":           {"mesh.yaml", "# " + token + "\nname: office\n", []string{"mesh.yaml:1:3: secret (github-token)"}, nil},
	} {
		files := map[string][]byte{"a.md": []byte("---\nname: a\n---\n"), tt.file: []byte(tt.content)}
		mesh, report := definition.Parse(files)
		expect(t, mesh == nil, tt.errors != nil, "%s: the mesh is %v, with %v", name, mesh, report.Errors)
		for _, which := range []struct {
			problems []definition.Problem
			want     []string
		}{{report.Errors, tt.errors}, {report.Warnings, tt.warnings}} {
			var got []string
			for _, p := range which.problems {
				if p.Code != definition.CodeSecret && p.Code != definition.CodeSecretLike {
					continue
				}
				kind := p.Message[strings.Index(p.Message, "(") : strings.Index(p.Message, ")")+1]
				got = append(got, fmt.Sprintf("%s:%d:%d: %s %s", p.File, p.Line, p.Column, p.Code, kind))
			}
			diff := cmp.Diff(which.want, got)
			failIf(t, diff != "", "%s (-want +got):\n%s", name, diff)
		}
	}
}

// Other problems quote what they found, but for a secret in it.
//
// covers ALF-48
func TestProblemsQuoteNoSecret(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1", 10)
	long := strings.Repeat("x", 29) + " " + token // cut inside the token
	_, report := definition.Parse(map[string][]byte{"a.md": []byte("---\nname: " + long + "\n" + long + ": 1\nbcp_channels: " + token + "\n---\n")})
	stopIf(t, len(report.Errors) < 4, "%v", report.Errors)
	for _, p := range report.Errors {
		failIf(t, strings.Contains(p.String(), "a1a1"), "%s", p)
	}
}
