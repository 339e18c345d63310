package subjects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The gateway answers in an inbox of just the sender, in the account of its role.
//
// covers A-REPLYPEER
func TestAnswer(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]string{
		"_INBOX.main.x":                        "bcp.v1.inbox.controller.main.x",
		"_INBOX.main.x.1":                      "bcp.v1.inbox.controller.main.x.1",
		"_INBOX.main":                          "",
		"_INBOX.main.":                         "",
		"_INBOX.main..x":                       "",
		"_INBOX.main.*":                        "",
		"_INBOX.main.x.>":                      "",
		"_INBOX.main.a b":                      "",
		"_INBOX.maine.x":                       "",
		"_INBOX.peer.x":                        "",
		"_INBOX_main.x":                        "",
		"_INBOX.x":                             "",
		"_R_.x":                                "",
		"":                                     "",
		"bcp.v1.inbox.controller.main.x":       "",
		"bcp.v1.query.peer.main":               "",
		"bcp.v1.deliver.controller.peer.other": "",
		"_INBOX.main." + strings.Repeat("x", 500): "bcp.v1.inbox.controller.main." + strings.Repeat("x", 500),
		"_INBOX.main." + strings.Repeat("x", 501): "",
	} {
		got := subjects.Answer(bcp.RoleController, "main", reply)
		expect(t, got, want, "%q", reply)
		failIf(t, got != "" && !subjects.Match(subjects.AnswersOf(bcp.RoleController, "main"), got),
			"%q is not one of its answers", got)
	}
	for role, want := range map[bcp.Role]string{
		bcp.RoleReader: "bcp.v1.inbox.reader.ann.x", bcp.RoleKeeper: "bcp.v1.inbox.keeper.ann.x",
		bcp.RoleApprover: "bcp.v1.inbox.person.ann.x", bcp.RoleAuditor: "bcp.v1.inbox.person.ann.x", bcp.RoleOperator: "bcp.v1.inbox.person.ann.x",
		bcp.RoleTool: "", bcp.RolePlanner: "", bcp.RoleDispatcher: "", 0: "",
	} {
		expect(t, subjects.Answer(role, "ann", "_INBOX.ann.x"), want, "%s", role)
	}
	for _, name := range []bcp.AgentName{"", "a.b", "*", ">", "gateway"} {
		expect(t, subjects.Answer(bcp.RoleReader, name, "_INBOX."+string(name)+".x"), "", "%q", name)
	}
	for subject, want := range map[string]bcp.AgentName{"_INBOX.ann.x": "ann", "_INBOX.ann": "", "_INBOX.*.x": "", "_INBOX.A.x": "", "_INBOX_ann.x": "", "x.ann.x": ""} {
		expect(t, subjects.InboxOwner(subject), want, "%q", subject)
	}
	key := "U" + strings.Repeat("A", 55)
	for reply, want := range map[string]string{
		"_INBOX." + key + ".x": "bcp.v1.inbox.join." + key + ".x", "_INBOX." + key: "", "_INBOX." + key + ".*": "", "_INBOX.UBBB.x": "", "_INBOX.main.x": "",
	} {
		expect(t, subjects.JoinAnswer(key, reply), want, "%q", reply)
	}
}

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	failIf(t, got != want, "%s: %+v, want %+v", fmt.Sprintf(what, args...), got, want)
}
