package bcp_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// Conditions look at every answer.
//
// covers P3.7, P12.2
func TestConditionsLookAtEveryAnswer(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeBoolean}}}
	never := func(string, []bcp.Variable) (bcp.Constraint, error) { return refusing{}, nil }
	raw := []byte(`{"b":true}`)
	if got := compiled(t, spec, bcp.Settings{}).Validate(raw, bcp.JSON); got.Outcome != bcp.Accept {
		t.Fatal(bcptest.Describe(got))
	}
	filtered := compiled(t, spec, bcp.Settings{Constraints: never, Subscriptions: 1, PublishWhen: "b"})
	if got := filtered.Validate(raw, bcp.JSON); got.Reason != bcp.ReasonFiltered {
		t.Error(bcptest.Describe(got))
	}
	spec.Constraints = []string{"b"}
	if got := compiled(t, spec, bcp.Settings{Constraints: never}).Validate(raw, bcp.JSON); got.Outcome != bcp.Hold {
		t.Error(bcptest.Describe(got))
	}
}

// refusing is a condition that never holds.
type refusing struct{}

func (refusing) Holds([]bcp.Value) (bool, error) { return false, nil }
