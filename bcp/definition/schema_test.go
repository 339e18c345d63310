package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// The table is complete enough to make documents of: every key has a sentence,
// a source and a default or is required, and no key stands there twice.
//
// covers P1.3
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range definition.Schema() {
		at := fmt.Sprintf("%s of %s", k.Name, k.Level)
		failIf(t, seen[at], "%s is listed twice", at)
		seen[at] = true
		field := fmt.Sprintf("field %p %T", k.Field, k.Field)
		failIf(t, seen[field], "%s: another key has its field", at)
		seen[field] = true
		failIf(t, k.Level == nil || k.Type == nil || k.Rule == "" || !strings.HasSuffix(k.Doc, "."),
			"%s: level, type, rule or sentence is missing", at)
		readerEntry := k.Level == definition.LevelChannel && k.Required && k.DefaultRule != ""
		failIf(t, (k.Default != "") == (k.DefaultRule != "") != (k.Required && !readerEntry),
			"%s: expected one of a default, a rule for the default, and required", at)
		failIf(t, (k.Type == definition.TypeWord) && len(k.Words) == 0 || slices.Contains([]*definition.Type{definition.TypeObjects, definition.TypeObject, definition.TypeNamedObjects}, k.Type) != (k.Child != nil),
			"%s: words or child do not fit the type", at)
	}
	failIf(t, len(seen) < 2*200, "%d keys", len(seen))
}

// A default that is written out loads to the same mesh as an absent key.
//
// covers P1.3
func TestWrittenDefaultsAreTheDefaults(t *testing.T) {
	t.Parallel()
	written := map[*definition.Level]string{}
	for _, k := range definition.Schema() {
		if k.Default != "" {
			written[k.Level] += k.Name + ": " + k.Default + "\n"
		}
	}
	channel := "max_category: 2, budget_bits: 7"
	plain, _ := mustParse(t, "a.md", controller("a", "b", channel), "b.md", reader("b", "", "a"))
	inFlow := strings.ReplaceAll(strings.TrimSpace(written[definition.LevelChannel]), "\n", ", ")
	full, _ := mustParse(t,
		"mesh.yaml", written[definition.LevelMesh],
		"a.md", strings.Replace(controller("a", "b", channel+", "+inFlow), "name: a\n", "name: a\n"+written[definition.LevelAgent], 1),
		"b.md", reader("b", "", "a"),
	)
	plain.Files, full.Files = nil, nil
	failIf(t, fmt.Sprintf("%+v", plain) != fmt.Sprintf("%+v", full), "\n%+v\n%+v", plain, full)
	failIf(t, len(written) != 9, "defaults at %d levels", len(written))
}
