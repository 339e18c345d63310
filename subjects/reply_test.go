package subjects_test

import (
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
		if got != want {
			t.Errorf("%q: %q", reply, got)
		}
		if got != "" && !subjects.Match(subjects.AnswersOf(bcp.RoleController, "main"), got) {
			t.Errorf("%q is not one of its answers", got)
		}
	}
	for role, want := range map[bcp.Role]string{
		bcp.RoleReader: "bcp.v1.inbox.reader.ann.x", bcp.RoleKeeper: "bcp.v1.inbox.keeper.ann.x",
		bcp.RoleApprover: "bcp.v1.inbox.person.ann.x", bcp.RoleAuditor: "bcp.v1.inbox.person.ann.x", bcp.RoleOperator: "bcp.v1.inbox.person.ann.x",
		bcp.RoleTool: "", bcp.RolePlanner: "", bcp.RoleDispatcher: "", 0: "",
	} {
		if got := subjects.Answer(role, "ann", "_INBOX.ann.x"); got != want {
			t.Errorf("%s: %q", role, got)
		}
	}
	for _, name := range []bcp.AgentName{"", "a.b", "*", ">", "gateway"} {
		if got := subjects.Answer(bcp.RoleReader, name, "_INBOX."+string(name)+".x"); got != "" {
			t.Errorf("%q: %q", name, got)
		}
	}
	for subject, want := range map[string]bcp.AgentName{"_INBOX.ann.x": "ann", "_INBOX.ann": "", "_INBOX.*.x": "", "_INBOX.A.x": "", "_INBOX_ann.x": "", "x.ann.x": ""} {
		if got := subjects.InboxOwner(subject); got != want {
			t.Errorf("%q: %q", subject, got)
		}
	}
	key := "U" + strings.Repeat("A", 55)
	for reply, want := range map[string]string{
		"_INBOX." + key + ".x": "bcp.v1.inbox.join." + key + ".x", "_INBOX." + key: "", "_INBOX." + key + ".*": "", "_INBOX.UBBB.x": "", "_INBOX.main.x": "",
	} {
		if got := subjects.JoinAnswer(key, reply); got != want {
			t.Errorf("%q: %q", reply, got)
		}
	}
}
