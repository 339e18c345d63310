package gateway

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// A challenge may be answered within a minute, once, by whom it was given to; what it was
// about is known afterwards, too.
//
// covers P14.1, DUAL-105
func TestChallengesEnd(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after  time.Duration
		agent  bcp.AgentName
		before int // takings before
		ok     bool
	}{
		{0, "mail", 0, true},
		{nonceLife - 1, "mail", 0, true},
		{nonceLife, "mail", 0, false},
		{0, "web", 0, false},
		{0, "mail", 1, false},
	} {
		g := &Gateway{config: Config{State: state.Config{Mesh: &bcp.Mesh{Organisation: "org1.example"}}}}
		message, code := g.challenge(begin, "mail", bcp.DualLLMRole)
		stopIf(t, code != "" || len(message.Nonce) < 26 || message.Asker != "org1.example", "%+v: %s", message, code)
		for range c.before {
			g.takeChallenge(begin, c.agent)
		}
		got := g.takeChallenge(begin.Add(c.after), c.agent)
		failIf(t, (got.nonce == message.Nonce) != c.ok || !c.ok && got.nonce != "", "%+v: %q", c, got.nonce)
	}
}
