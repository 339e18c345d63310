package kernel_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

var update = flag.Bool("update", false, "rewrite docs/plan.schema.json")

// docs/plan.schema.json is all of the schema that planners are given.
func TestPlanSchemaIsWritten(t *testing.T) {
	t.Parallel()
	const file = "../../docs/plan.schema.json"
	want := append(kernel.AppendPlanSchema(nil, true, true), '\n')
	if *update {
		noError(t, os.WriteFile(file, want, 0o644))
	}
	got, err := os.ReadFile(file)
	failIf(t, err != nil || !bytes.Equal(got, want), "%v: go test ./bcp/kernel -run PlanSchemaIsWritten -update", err)
}

// The JSON Schema of a plan takes every plan that is right, and no plan whose form is
// wrong. What it cannot say (references, tools, a kind that is one of ours but with
// another key's form) is found when the plan is checked.
func TestPlanSchemaAgreesWithTheReader(t *testing.T) {
	t.Parallel()
	document := must(jsonschema.UnmarshalJSON(bytes.NewReader(kernel.AppendPlanSchema(nil, true, true))))
	compiler := jsonschema.NewCompiler()
	noError(t, compiler.AddResource("plan.json", document))
	schema := must(compiler.Compile("plan.json"))
	seen := map[bool]int{}
	for _, c := range planCases() {
		plan, err := jsonschema.UnmarshalJSON(strings.NewReader(c.plan))
		if err != nil {
			continue // what is no JSON is no matter of a schema
		}
		valid := schema.Validate(plan) == nil
		seen[valid]++
		form := c.code == kernel.Malformed || c.code == kernel.UnknownKind || c.code == kernel.BadID
		switch {
		case c.code == "" && !valid:
			t.Errorf("%s: a right plan is refused: %v", c.name, schema.Validate(plan))
		case form && valid && !beyondSchema[c.name]:
			t.Errorf("%s: a plan whose form is wrong (%s) is taken", c.name, c.code)
		}
	}
	failIf(t, seen[true] < 50 || seen[false] < 50,
		"%d plans were taken and %d refused: the check shows little", seen[true], seen[false])
}

// beyondSchema are the forms of plans that only the reader judges: spellings that are
// the same JSON, sizes of nesting and numbers.
var beyondSchema = map[string]bool{
	"a key twice": true, "a key twice, escaped": true, "steps twice": true, "negative zero": true, "an exponent": true, "a fraction of 16 digits": true,
	"a number beyond 64 bits": true, "half a surrogate": true, "bad UTF-8": true,
}
