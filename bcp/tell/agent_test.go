package tell_test

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// What an agent's model takes stands beside how the agent is, with the budgets that it has.
//
// covers P15.3
func TestAgentsModel(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]*status.ModelUse{
		"": nil, "its model takes 1 token": {Tokens: 1}, "its model takes 20 tokens of 100": {Tokens: 20, TokenBudget: 100},
		"its model takes 20 tokens, 0.5 USD": {Tokens: 20, USD: bcp.Dollar / 2}, "its model takes 20 tokens, 0 USD of 2": {Tokens: 20, CostBudget: 2 * bcp.Dollar},
	} {
		got := tell.Agent(&status.Agent{State: status.Connected, Model: u}, time.Now())
		failIf(t, got != want, "%+v: %q, want %q", u, got, want)
	}
}
