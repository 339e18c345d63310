package subjects_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A name of a user says whose it is, and nothing else is taken for one.
//
// covers A-WILD, BCP-19
func TestUserNameIsReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		agent bcp.AgentName
		role  bcp.Role
	}{
		"reader-researcher": {"researcher", bcp.RoleReader},
		"controller-a-b":    {"a-b", bcp.RoleController},
		"operator-operator": {"operator", bcp.RoleOperator},
		"reader":            {}, "reader-": {}, "-researcher": {}, "": {}, "gateway": {}, "monitor": {}, "join": {},
		"reader-*": {}, "reader-a.b": {}, "reader-gateway": {}, "Reader-a": {}, "reader-A": {}, "reader-a ": {}, "writer-a": {},
	} {
		agent, role, ok := subjects.ParseUserName(text)
		failIf(t, agent != want.agent || role != want.role || ok != (want.role != 0),
			"%q is of %q as %d, %t", text, agent, role, ok)
	}
	expect(t, subjects.UserName("a", 0), "", "nobody has the name")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`(reader|controller|approver|auditor|operator)-[a-z*.-]{0,6}`)).Draw(t, "name")
		agent, role, ok := subjects.ParseUserName(text)
		failIf(t, ok && subjects.UserName(agent, role) != text, "%q is not what is written for %s as %s", text, agent, role)
	})
}
