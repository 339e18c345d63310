package mesh

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// covers A-FLOODRESP
func TestFlooderIsDisconnectedOnceInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var kicked []uint64
		c := newClients(&bcp.Mesh{Agents: []bcp.Agent{{Name: "mailer", Reader: true, MaxConnections: 8}}}, func(id server.ClientID) error {
			mu.Lock()
			defer mu.Unlock()
			kicked = append(kicked, id.Number)
			return nil
		}, hclog.NewNullLogger())
		connect := func(agent bcp.AgentName, id uint64) {
			c.update(server.Connection{Party: server.Party{Agent: agent, Role: bcp.RoleReader}, Connected: true, ClientID: server.ClientID{Number: id}})
		}
		expect := func(when string, want ...uint64) {
			t.Helper()
			c.kickAll("mailer", bcp.RoleReader)
			synctest.Wait()
			if slices.Sort(kicked); !slices.Equal(kicked, want) {
				t.Errorf("%s: disconnected %v, not %v", when, kicked, want)
			}
		}
		connect("mailer", 1)
		connect("mailer", 2)
		connect("clerk", 3)
		expect("at once", 1, 2)
		for id := range uint64(2) {
			c.update(server.Connection{Party: server.Party{Agent: "mailer", Role: bcp.RoleReader}, ClientID: server.ClientID{Number: id + 1}})
		}
		connect("mailer", 4) // is counted for what the others said
		time.Sleep(spared - time.Nanosecond)
		expect("before its time", 1, 2)
		time.Sleep(time.Nanosecond)
		expect("then", 1, 2, 4)
		noError(t, c.stop())
	})
}

// Credentials that two clients fight for, or that are used on two hosts, are told
// once; a half-open connection that is replaced, several clients of one host, and
// another file of the same agent are not.
//
// covers A-RECONN, A-REVOKED, P1.3
func TestCopiedCredentialsAreNoticed(t *testing.T) {
	t.Parallel()
	type connect struct {
		key, host string
		after     time.Duration
		ends      bool // at once
	}
	for name, tt := range map[string]struct {
		most     int
		connects []connect
		want     []string
	}{
		"a fight":            {1, []connect{{"U", "a", 0, false}, {"U", "b", 0, false}, {"U", "a", 0, false}, {"U", "b", 0, false}, {"U", "a", 0, false}}, []string{"", "", "", "a, b", ""}},
		"a fight of one":     {1, []connect{{"U", "a", 0, false}, {"U", "a", 0, false}, {"U", "a", 0, false}, {"U", "a", 0, false}}, []string{"", "", "", "a"}},
		"a slow fight":       {1, []connect{{"U", "a", 0, false}, {"U", "b", 30 * time.Second, false}, {"U", "a", 30 * time.Second, false}, {"U", "b", 30 * time.Second, false}}, []string{"", "", "", ""}},
		"just a fight":       {1, []connect{{"U", "a", 0, false}, {"U", "b", time.Second, false}, {"U", "a", 29 * time.Second, false}, {"U", "b", 30 * time.Second, false}}, []string{"", "", "", "a, b"}},
		"half-open, twice":   {1, []connect{{"U", "a", 0, false}, {"U", "b", 0, false}, {"U", "a", 0, false}}, []string{"", "", ""}},
		"restarts":           {1, []connect{{"U", "a", 0, true}, {"U", "a", 0, true}, {"U", "a", 0, true}, {"U", "a", 0, true}}, []string{"", "", "", ""}},
		"two files":          {1, []connect{{"U", "a", 0, false}, {"V", "b", 0, false}, {"U", "a", 0, false}, {"V", "b", 0, false}, {"U", "a", 0, false}}, []string{"", "", "", "", ""}},
		"two hosts":          {2, []connect{{"U", "a", 0, false}, {"U", "b", 0, false}}, []string{"", "a, b"}},
		"two of one host":    {2, []connect{{"U", "a", 0, false}, {"U", "a", 0, false}}, []string{"", ""}},
		"two files, 2 hosts": {2, []connect{{"U", "a", 0, false}, {"V", "b", 0, false}}, []string{"", ""}},
		"told again":         {2, []connect{{"U", "a", 0, false}, {"U", "b", 0, true}, {"U", "b", tellAgain - 1, true}, {"U", "b", 1, true}}, []string{"", "a, b", "", "a, b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClients(&bcp.Mesh{Agents: []bcp.Agent{{Name: "mailer", Reader: true, MaxConnections: tt.most}}}, func(server.ClientID) error { return nil }, hclog.NewNullLogger())
				for i, k := range tt.connects {
					time.Sleep(k.after)
					e := server.Connection{Party: server.Party{Agent: "mailer", Role: bcp.RoleReader}, ClientID: server.ClientID{Number: uint64(i)}, UserKey: k.key, Host: k.host, Connected: true}
					got := c.update(e)
					failIf(t, got != tt.want[i], "connection %d: %q, want %q", i+1, got, tt.want[i])
					if e.Connected = false; k.ends {
						c.update(e)
					}
				}
				noError(t, c.stop())
			})
		})
	}
}
