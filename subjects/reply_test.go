package subjects_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// An answer goes to an inbox of whoever the subject names; an act that auditors may ask
// for too names nobody, and its answer goes to some inbox.
//
// covers A-REPLYPEER
func TestOwnReply(t *testing.T) {
	t.Parallel()
	figures := map[string]bool{}
	for _, act := range bcp.AuditorActs() {
		figures[act] = true
	}
	for _, act := range bcp.ControlActs() {
		subject := subjects.Control(act)
		for reply, want := range map[string]bool{
			"_INBOX_operator.x": true, "_INBOX_alice.x": figures[act], "_INBOX_.x": figures[act],
			"": false, "bcp.v1.deliver.controller.main.mail": false, "_R_.x": false, "_INBOX.x": false,
		} {
			if got := subjects.OwnReply(subject, reply); got != want {
				t.Errorf("%s with the reply subject %q: %t", subject, reply, got)
			}
		}
	}
}
