package gateway

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Every kind of decision is released by something, and every subject that the gateway
// listens to has what is done with its messages.
//
// covers P10
func TestEveryKindHasItsHandler(t *testing.T) {
	t.Parallel()
	kinds := bcp.DecisionKinds()
	expect(t, len(releasers), len(kinds)+1, "rows of releasers")
	for _, kind := range kinds {
		failIf(t, int(kind) >= len(releasers) || releasers[kind] == nil, "nothing releases decisions of the kind %s", kind)
	}
	for _, subject := range []string{
		subjects.Ask("main", "mailer"), subjects.Push("mailer", "main", "alerts"), subjects.Session("main"), subjects.Egress("main"), subjects.Usage("main"),
		subjects.Approval("ann", subjects.VerbList), subjects.Control(bcp.ControlReload), subjects.Role("peer", "peer"), subjects.Run("main", "desk", "all"),
		subjects.Reply(bcp.RoleReader, "mailer", "q1", 0), subjects.Reply(bcp.RoleController, "main", "d1", 0), subjects.Reply(bcp.RoleReader, "mailer", "h1", 0),
		subjects.Reply(bcp.RoleReader, "mailer", "r1", 0), subjects.Reply(bcp.RoleReader, "mailer", "n1", 0),
		subjects.Reply(bcp.RolePlanner, "plan", "p1", 1), subjects.Reply(bcp.RoleSubplanner, "plan", "p1", 1), subjects.Reply(bcp.RoleTool, "tool", "c1", 1),
	} {
		s, err := subjects.Parse(subject)
		failIf(t, err != nil || requestOn(&s) == nil, "nothing is done with messages on %q: %v", subject, err)
	}
	for _, kind := range []subjects.Kind{subjects.KindQuery, subjects.KindDeliver, subjects.KindCommit, subjects.KindAudit, subjects.KindAlert, subjects.KindPlan, subjects.KindCall, 0, 255} {
		failIf(t, requestOn(&subjects.Subject{Kind: kind}) != nil, "the gateway takes what others send of the kind %s", kind)
	}
}
