package notify

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
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

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
