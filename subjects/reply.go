package subjects

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const inboxes = "_INBOX_"

// OwnReply reports whether a message's reply subject is in an inbox of its sender.
// The subject identifies the sender, since the server lets nobody else publish on
// it. If it does not, the reply may go to any inbox.
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

// Sender returns the agent or person who may publish on the subject, or the empty
// string if that is the gateway, or the subject does not say.
func (s Subject) Sender() bcp.AgentName {
	switch s.Kind {
	case KindAsk, KindSession:
		return s.Controller
	case KindPush:
		return s.Reader
	case KindReply, KindApproval, KindEgress, KindUsage, KindRun, KindRole:
		return s.Agent
	case KindControl:
		if !slices.Contains(bcp.AuditorActs(), s.Event) { // which auditors may request too
			return bcp.Operator
		}
	}
	return ""
}
