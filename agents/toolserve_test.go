package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
)

// Arguments that are none of the handler's type were not acted on, and say so.
//
// covers KER-27
func TestToolFunc(t *testing.T) {
	t.Parallel()
	var got []string
	handler := agents.ToolFunc(func(_ context.Context, _ agents.Call, mail struct{ To, Body string }) (any, error) {
		got = append(got, mail.To+":"+mail.Body)
		return true, nil
	})
	result, err := handler(t.Context(), agents.Call{Args: []byte(`{"to":"kim","body":"noon"}`)})
	failIf(t, result != true || err != nil || len(got) != 1 || got[0] != "kim:noon", "%v, %v, %q", result, err, got)
	for _, args := range []string{"", "[]", `{"to":1}`, `{"to":"kim","bcc":"eve"}`, `{"to":"kim","to":"eve"}`} {
		var not *agents.NotPerformedError
		_, err := handler(t.Context(), agents.Call{Args: []byte(args)})
		failIf(t, !errors.As(err, &not), "%s: %v", args, err)
	}
	expect(t, len(got), 1, "it acted on %q", got)
}
