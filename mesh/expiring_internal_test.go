package mesh

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Credentials in the last tenth of their life are told once, unless the agent has others
// that last; those that nobody recorded are told again.
//
// covers P4.6
func TestExpiringIsToldOnce(t *testing.T) {
	t.Parallel()
	store := must(accounts.Create(t.TempDir()))
	def := &bcp.Mesh{Agents: []bcp.Agent{{Name: "mailer", Reader: true}, {Name: "main", Controller: true}, {Name: "other", Reader: true}},
		Channels: []bcp.Channel{{ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "mailer"}}, {ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "other"}}}}
	must(accounts.Compile(store, subjects.Permissions(def), time.Now()))
	issue := func(agent bcp.AgentName, role bcp.Role, life time.Duration) {
		t.Helper()
		must(store.Issue(agent, role, life))
	}
	issue("mailer", bcp.RoleReader, 40*time.Hour)
	issue("main", bcp.RoleController, 40*time.Hour)
	issue("main", bcp.RoleController, 400*time.Hour)
	issue("other", bcp.RoleReader, 23*time.Hour) // made anew by a program
	var told []bcp.AgentName
	recorded := true
	e := expiring{store: store, log: hclog.NewNullLogger(), told: map[string]time.Time{}, tell: func(alert bcp.Decision, done func()) {
		told = append(told, alert.Agent)
		if recorded {
			done()
		}
	}}
	for _, tt := range []struct {
		after    time.Duration
		recorded bool
		want     []bcp.AgentName
	}{
		{time.Hour, true, nil},
		{35 * time.Hour, true, nil},
		{37 * time.Hour, false, []bcp.AgentName{"mailer"}},
		{37 * time.Hour, true, []bcp.AgentName{"mailer"}},
		{38 * time.Hour, true, nil},
		{41 * time.Hour, true, nil},
		{380 * time.Hour, true, []bcp.AgentName{"main"}},
	} {
		told, recorded = nil, tt.recorded
		e.now = func() time.Time { return time.Now().Add(tt.after) }
		if e.look(t.Context()); !slices.Equal(told, tt.want) {
			t.Errorf("after %s told of %v, not %v", tt.after, told, tt.want)
		}
	}
}
