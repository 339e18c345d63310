package verify_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// The example that the page of the format speaks of verifies, in this version and
// in later ones.
//
// covers P11.2
func TestFrozenFile(t *testing.T) {
	t.Parallel()
	key := must(os.ReadFile("testdata/example.key"))(t)
	for name, first := range map[string]uint64{"testdata/example.bcpaudit": 1, "testdata/example-part.bcpaudit": 8} {
		file := must(os.ReadFile(name))(t)
		s, err := check(file, verify.Options{Keys: []string{strings.TrimSpace(string(key))}})
		failIf(t, err != nil || s.First != first || s.Last != 20 || s.Kinds[int(bcp.KindConnect)] == 0,
			"%s: %d to %d, %v", name, s.First, s.Last, err)
	}
}

// The page names every kind, in its place.
func TestFormatNamesTheKinds(t *testing.T) {
	t.Parallel()
	page := must(os.ReadFile("../../docs/audit-format.md"))(t)
	var kinds []string
	for _, k := range bcp.DecisionKinds() {
		kinds = append(kinds, k.String())
	}
	line := "\nKinds: " + strings.Join(kinds, ", ") + "."
	failIf(t, !strings.Contains(string(page), line), "docs/audit-format.md does not say %q", line)
}
