package subjects

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const inboxes = "_INBOX_"

// OwnReply reports whether the answer to a message goes to an inbox of its sender.
// Who sends is what the subject says: the server lets nobody else publish on it. Of
// a subject that names no sender, the answer goes to some inbox.
func OwnReply(subject, reply string) bool {
	if !strings.HasPrefix(reply, inboxes) {
		return false
	}
	s, err := Parse(subject)
	if err != nil {
		return true
	}
	sender := s.Sender()
	return sender == "" || strings.HasPrefix(reply, InboxPrefix(sender)+".")
}

// Sender is the agent or person who may publish on the subject, or the empty string
// where that is the gateway, or the subject does not say.
func (s Subject) Sender() bcp.AgentName {
	switch s.Kind {
	case KindAsk, KindSession:
		return s.Controller
	case KindPush:
		return s.Reader
	case KindReply, KindApproval, KindEgress, KindUsage, KindRun, KindRole:
		return s.Agent
	case KindControl:
		if !slices.Contains(bcp.AuditorActs(), s.Event) { // which auditors may ask for too
			return bcp.Operator
		}
	}
	return ""
}
