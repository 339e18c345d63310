package notify

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func office() *bcp.Mesh {
	return &bcp.Mesh{
		Name: "office", TimeZone: time.UTC, Approvers: []bcp.AgentName{"ann", "bob"}, Auditors: []bcp.AgentName{"cid"},
		Agents: []bcp.Agent{{Name: "mailer", Reader: true}, {Name: "main", Controller: true}},
		Channels: []bcp.Channel{{
			ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "mailer"}, Approvers: []bcp.AgentName{"ann"},
		}},
	}
}

func everything() *bcp.Route {
	return &bcp.Route{Name: "desk", Severity: bcp.SeverityInfo, Topics: []bcp.NoticeTopic{bcp.TopicHeld, bcp.TopicAlerts, bcp.TopicCredentials}}
}

// noError ends a test on an error.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
