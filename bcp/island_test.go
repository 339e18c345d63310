package bcp_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// meshOfPairs is a mesh of agents a0, a1 and so on with channels between pairs of them.
func meshOfPairs(agents int, pairs [][2]int) *bcp.Mesh {
	m := &bcp.Mesh{}
	name := func(i int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("a%03d", i)) }
	for i := range agents {
		m.Agents = append(m.Agents, bcp.Agent{Name: name(i)})
	}
	for _, p := range pairs {
		if p[0] != p[1] {
			m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: name(p[0]), Reader: name(p[1])}})
		}
	}
	slices.SortFunc(m.Channels, func(a, b bcp.Channel) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
	})
	m.Channels = slices.CompactFunc(m.Channels, func(a, b bcp.Channel) bool { return a.ChannelKey == b.ChannelKey })
	return m
}

// Every agent is in exactly one island and every channel inside one; an island is
// connected; the order is that of the first agents.
//
// covers P4.5
func TestIslands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		agents := rapid.IntRange(1, 30).Draw(t, "agents")
		end := rapid.IntRange(0, agents-1)
		m := meshOfPairs(agents, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]int { return [2]int{end.Draw(t, "from"), end.Draw(t, "to")} }), 0, 40).Draw(t, "pairs"))
		all := m.Islands()
		if diff := gocmp.Diff(all, m.Islands()); diff != "" {
			t.Fatalf("another time it is another: %s", diff)
		}
		home := map[bcp.AgentName]int{}
		channels := 0
		for i, island := range all {
			if len(island.Agents) == 0 || !slices.IsSorted(island.Agents) || i > 0 && all[i-1].Agents[0] >= island.Agents[0] {
				t.Fatalf("not in order: %v", all)
			}
			for _, name := range island.Agents {
				if _, twice := home[name]; twice {
					t.Fatalf("%s is in two islands", name)
				}
				home[name] = i
			}
			channels += len(island.Channels)
			reached := map[bcp.AgentName]bool{island.Agents[0]: true}
			for range island.Agents {
				for _, key := range island.Channels {
					if reached[key.Controller] || reached[key.Reader] {
						reached[key.Controller], reached[key.Reader] = true, true
					}
				}
			}
			if len(reached) != len(island.Agents) {
				t.Fatalf("%v is not connected", island)
			}
		}
		if len(home) != agents || channels != len(m.Channels) {
			t.Fatalf("%d of %d agents and %d of %d channels are in islands", len(home), agents, channels, len(m.Channels))
		}
		for _, c := range m.Channels {
			if home[c.Controller] != home[c.Reader] {
				t.Fatalf("%v is between two islands", c.ChannelKey)
			}
		}
	})
}

// What would be left of an island without an agent that joins it.
//
// covers P4.5
func TestIslandsWithout(t *testing.T) {
	t.Parallel()
	star := meshOfPairs(5, [][2]int{{2, 0}, {2, 1}, {3, 2}, {0, 1}})
	island := star.Islands()[0]
	if len(island.Channels) != 4 {
		t.Errorf("it has the channels %v", island.Channels)
	}
	parts := island.Without("a002")
	if len(parts) != 2 || len(parts[0].Agents) != 2 || len(parts[0].Channels) != 1 || len(parts[1].Channels) != 0 {
		t.Errorf("without it there are %v", parts)
	}
	if alone := star.Islands()[1]; len(alone.Without("a004")) != 0 {
		t.Errorf("without the only agent of %v something is left", alone)
	}
}
