package conformance_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/conformance"
)

// The document has each check, with the words of the source, and no other.
func TestDocumentHasTheChecks(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, role := range []bcp.Role{bcp.RoleReader, bcp.RoleController} {
		for _, rule := range conformance.Rules(role) {
			want = append(want, rule.ID+" "+rule.Text)
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^\| ([A-Z]+-[0-9]{2}) \| (.+) \| [^|]+ \|$`).FindAllStringSubmatch(string(document), -1) {
		got = append(got, line[1]+" "+line[2])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the document has\n%q\nand the source\n%q", got, want)
	}
}
