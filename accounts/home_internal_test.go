package accounts

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// However a mesh is edited, and whoever is given creds in between: no channel could be
// charged on two shards, and no agent speak on two. Before the first creds every edit is
// taken.
//
// covers P4.5, BCP-34
func TestNoChannelIsChargedOnTwoShards(t *testing.T) {
	t.Parallel()
	names := []bcp.AgentName{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		var st state
		given := map[bcp.AgentName]bool{}
		charged, spoke := map[bcp.ChannelKey]int{}, map[bcp.AgentName]int{}
		var served *bcp.Mesh // as last compiled
		serve := func() {
			for _, c := range served.Channels {
				agent, _ := served.Agent(c.Controller)
				if at, ok := charged[c.ChannelKey]; ok && at != agent.Shard {
					t.Fatalf("the channel of %s and %s could be charged on shard %d and on shard %d", c.Controller, c.Reader, at, agent.Shard)
				}
				if given[c.Controller] || given[c.Reader] {
					charged[c.ChannelKey] = agent.Shard
				}
			}
			for _, agent := range served.Agents {
				if !given[agent.Name] {
					continue
				}
				if at, ok := spoke[agent.Name]; ok && at != agent.Shard {
					t.Fatalf("%s was on shard %d and is on shard %d", agent.Name, at, agent.Shard)
				}
				spoke[agent.Name] = agent.Shard
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"edit": func(t *rapid.T) {
				m := &bcp.Mesh{}
				for _, name := range names {
					if rapid.IntRange(0, 4).Draw(t, "there") > 0 {
						m.Agents = append(m.Agents, bcp.Agent{Name: name, Controller: true, Reader: true, Shard: rapid.IntRange(0, 1).Draw(t, "shard")})
					}
				}
				for i := range m.Agents {
					for j := range m.Agents {
						if a, b := &m.Agents[i], &m.Agents[j]; i != j && a.Shard == b.Shard && rapid.IntRange(0, 3).Draw(t, "channel") == 0 {
							m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: a.Name, Reader: b.Name}})
						}
					}
				}
				next := stored(t, st)
				err := next.assignHomes(subjects.Permissions(m), rapid.IntRange(0, 9).Draw(t, "to a cluster") == 0)
				if err != nil {
					if len(given) == 0 && len(st.settled()) == 0 {
						t.Fatalf("nobody was given anything: %v", err)
					}
					return
				}
				st, served = next, m
				serve()
			},
			"issue": func(t *rapid.T) {
				if served == nil || len(served.Agents) == 0 {
					return
				}
				agent := rapid.SampledFrom(served.Agents).Draw(t, "agent")
				who := party{agent.Name, rapid.SampledFrom([]bcp.Role{bcp.RoleController, bcp.RoleReader}).Draw(t, "role")}
				if at := ShardOf(st.assignHome(who)); at != agent.Shard {
					t.Fatalf("creds of %s would be of shard %d, and it is on shard %d", who.agent, at, agent.Shard)
				}
				st.keepHomes(who)
				st = stored(t, st)
				given[agent.Name] = true
				serve()
			},
			"": func(*rapid.T) {},
		})
	})
}

// stored is the state as it is read again.
func stored(t *rapid.T, st state) (read state) {
	content, err := json.Marshal(st)
	if err == nil {
		err = json.Unmarshal(content, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}
