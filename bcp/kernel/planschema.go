package kernel

import (
	_ "embed"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// planSchema is the JSON Schema of a plan: what [ParsePlan] reads, as far as a schema can
// say it.
//
//go:embed plan.schema.json
var planSchema []byte

// AppendPlanSchema appends the JSON Schema of a plan, for planners. steers says that
// content may steer plans, asks that they may ask the requester.
func AppendPlanSchema(dst []byte, steers, asks bool) []byte {
	v, err := readValue(planSchema, 2*wire.MaxDepth) // it nests deeper than messages do
	if err != nil {
		panic(err)
	}
	definitions := v.member("$defs")
	steps := definitions.member("steps")
	kinds := steps.member("items").member("oneOf")
	kinds.list = slices.DeleteFunc(kinds.list, func(step Value) bool {
		switch StepKind(step.member("properties").member("kind").member("const").text) {
		case WhenStep, EachStep:
			return !steers
		case AskStep:
			return !asks
		}
		return false
	})
	if !steers { // no step has steps
		*v.member("properties").member("steps") = *steps
		at := slices.Index(definitions.keys, "steps")
		definitions.keys, definitions.list = slices.Delete(definitions.keys, at, at+1), slices.Delete(definitions.list, at, at+1)
	}
	return v.AppendJSON(dst)
}
