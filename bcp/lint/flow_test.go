package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// flowMesh reads a mesh of a tiny notation. A line is an agent, with words for
// its taint, tools, `net:` its network and `total:` its budget of bits; or a
// channel, CONTROLLER < READER CATEGORY BUDGET, and a capacity budget or none.
func flowMesh(t testing.TB, notation string) *bcp.Mesh {
	t.Helper()
	m := &bcp.Mesh{}
	bits := func(text string) bcp.Bits {
		b, err := bcp.ParseBits(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for line := range strings.Lines(notation) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case len(words) > 1 && words[1] == "<":
			words = append(words, []string{"1", "1", "0"}[len(words)-3:]...)
			if len(words[3]) != 1 {
				t.Fatalf("no category in %q", line)
			}
			m.Channels = append(m.Channels, bcp.Channel{
				ChannelKey:  bcp.ChannelKey{Controller: bcp.AgentName(words[0]), Reader: bcp.AgentName(words[2])},
				MaxCategory: bcp.Category(words[3][0] - '0'), Budget: bits(words[4]), CapacityBudget: bits(words[5]),
			})
			continue
		}
		a := bcp.Agent{Name: bcp.AgentName(words[0])}
		for _, word := range words[1:] {
			if network, ok := strings.CutPrefix(word, "net:"); ok {
				a.Network = network
			} else if total, ok := strings.CutPrefix(word, "total:"); ok {
				a.TotalBudget = bits(total)
			} else if a.BaseTaint.UnmarshalText([]byte(word)) != nil {
				a.Tools = append(a.Tools, word)
			}
		}
		m.Agents = append(m.Agents, a)
	}
	return m
}

// exposures are the agents with an exposure above low, one a line.
func exposures(f *Flow) string {
	var lines []string
	for i, a := range f.Agents {
		if way := f.Way(i); len(way) > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: %s", a.Name, a.Exposure, wayText(way)))
		}
	}
	return strings.Join(lines, "\n")
}

// covers BCP-15, P8.1, P8.2
func TestFlowReachesTheFixpoint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ mesh, want string }{
		"no channel":         {"web high", ""},
		"one step":           {"main low\nweb high\nmain < web", "main medium: web > main"},
		"medium steps down":  {"main low\napi medium\nmain < api", ""},
		"low stays":          {"main low\ndb low\nmain < db", ""},
		"unknown is high":    {"main low\nweb\nmain < web", "main medium: web > main"},
		"chain of clean":     {"a low\nb low\nc low\nweb high\na < b\nb < c\nc < web", "a medium: web > c > b > a\nb medium: web > c > b\nc medium: web > c"},
		"never downstream":   {"main low\nmail low\nweb high\nmail < main\nmain < web", "main medium: web > main\nmail medium: web > main > mail"},
		"own taint is ahead": {"a low\nb high\nweb high\na < b\nb < web", "a medium: b > a\nb medium: web > b"},
		"shortest of two":    {"a low\nb low\nc low\nweb high\na < b\nb < c\nc < web\nb < web", "a medium: web > b > a\nb medium: web > b\nc medium: web > c"},
		"first by name":      {"a low\nx high\nw high\na < x\na < w", "a medium: w > a"},
		"back to itself":     {"a high\nb low\na < b\nb < a", "a medium: a > b > a\nb medium: a > b"},
		"clean loop":         {"a low\nb low\na < b\nb < a", ""},
		"loop behind":        {"a low\nb low\nweb high\na < b\nb < a\nb < web", "a medium: web > b > a\nb medium: web > b"},
		"nobody":             {"main low\nmain < ghost\nghost < main", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := FlowOf(flowMesh(t, tt.mesh))
			wanted := strings.Split(tt.want, "\n")
			slices.Sort(wanted)
			got := strings.Split(exposures(f), "\n")
			slices.Sort(got)
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Error(diff)
			}
			for i, a := range f.Agents {
				if want := bcp.MaxTaint(a.Base.StepDown(), a.Exposure); a.Answers != want {
					t.Errorf("answers of %s have %s, want %s", a.Name, a.Answers, want)
				}
				if (a.Exposure == bcp.TaintLow) != (f.Way(i) == nil) {
					t.Errorf("%s has %s by way of %v", a.Name, a.Exposure, f.Way(i))
				}
			}
		})
	}
	for _, f := range []*Flow{FlowOf(nil), FlowOf(&bcp.Mesh{}), {}} {
		if len(f.Agents)+len(f.Findings) > 0 || f.Way(0) != nil || f.Way(-1) != nil {
			t.Errorf("of nothing follows %+v", f)
		}
	}
}

// drawMesh makes any mesh of at most eight agents.
func drawMesh(t *rapid.T) *bcp.Mesh {
	m := &bcp.Mesh{}
	n := rapid.IntRange(1, 8).Draw(t, "agents")
	tools := []string{"Read", "Write", "Bash", "WebFetch", "mcp__a__b", "Other"}
	for i := range n {
		m.Agents = append(m.Agents, bcp.Agent{
			Name:      bcp.AgentName(rune('a' + i)),
			BaseTaint: bcp.Taint(rapid.IntRange(0, 4).Draw(t, "taint")),
			Tools:     rapid.SliceOfN(rapid.SampledFrom(tools), 0, 3).Draw(t, "tools"),
			Network:   rapid.SampledFrom([]string{"", "none", "outbound"}).Draw(t, "network"),
		})
	}
	for range rapid.IntRange(0, 16).Draw(t, "channels") {
		m.Channels = append(m.Channels, drawChannel(t, n))
	}
	slices.SortFunc(m.Channels, func(a, b bcp.Channel) int { return a.ChannelKey.Compare(b.ChannelKey) })
	return m
}

func drawChannel(t *rapid.T, agents int) bcp.Channel {
	name := rapid.Map(rapid.IntRange(0, agents-1), func(i int) bcp.AgentName { return bcp.AgentName(rune('a' + i)) })
	return bcp.Channel{
		ChannelKey:  bcp.ChannelKey{Controller: name.Draw(t, "controller"), Reader: name.Draw(t, "reader")},
		MaxCategory: bcp.Category(rapid.IntRange(0, 3).Draw(t, "category")),
		Budget:      rapid.SampledFrom([]bcp.Bits{0, 1, bcp.Bit, bcp.MaxBits * bcp.Bit, 1<<63 - 1}).Draw(t, "budget"),
	}
}

// naiveFlow applies P8.2 to all channels until nothing changes any more. In
// round k it has what comes through at most k channels.
func naiveFlow(m *bcp.Mesh) (exposure map[bcp.AgentName]bcp.Taint, round map[bcp.AgentName]int) {
	exposure, round = map[bcp.AgentName]bcp.Taint{}, map[bcp.AgentName]int{}
	answer := map[bcp.AgentName]bcp.Taint{}
	for _, a := range m.Agents {
		exposure[a.Name], answer[a.Name] = bcp.TaintLow, a.BaseTaint.StepDown()
	}
	for changed, k := true, 1; changed; k++ {
		changed = false
		before := map[bcp.AgentName]bcp.Taint{}
		for name, taint := range answer {
			before[name] = taint
		}
		for _, c := range m.Channels {
			if taint := before[c.Reader]; taint > exposure[c.Controller] {
				exposure[c.Controller], round[c.Controller], changed = taint, k, true
				answer[c.Controller] = bcp.MaxTaint(answer[c.Controller], taint)
			}
		}
	}
	return exposure, round
}

// Every way is one that channels carry, from an agent that is tainted by
// itself, and none is shorter; every finding is about agents of the mesh.
//
// covers P8.2
func TestFlowIsTheLeastFixpoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t)
		f := FlowOf(m)
		exposure, round := naiveFlow(m)
		for i, a := range f.Agents {
			if a.Exposure != exposure[a.Name] {
				t.Errorf("%s has %s, want %s", a.Name, a.Exposure, exposure[a.Name])
			}
			way := f.Way(i)
			if a.Exposure == bcp.TaintLow {
				continue
			}
			if len(way) != round[a.Name]+1 || way[len(way)-1] != a.Name {
				t.Fatalf("way of %s is %v, want %d channels", a.Name, way, round[a.Name])
			}
			if source, ok := m.Agent(way[0]); !ok || source.BaseTaint.StepDown() != a.Exposure {
				t.Errorf("the source of %v has %s", way, source.BaseTaint)
			}
			for j := range way[1:] {
				if _, ok := m.Channel(bcp.ChannelKey{Controller: way[j+1], Reader: way[j]}); !ok {
					t.Errorf("way %v without a channel", way)
				}
			}
		}
		for _, finding := range f.Findings {
			if len(finding.Agents) == 0 || finding.Code == "" || finding.Text == "" {
				t.Errorf("finding %+v", finding)
			}
			for _, name := range finding.Agents {
				if _, ok := m.Agent(name); !ok {
					t.Errorf("finding about %s, which is not there", name)
				}
			}
		}
	})
}

// Agents that reach each other are in one loop finding, and nobody else is.
//
// covers P8.2
func TestFlowFindsLoops(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t)
		n := len(m.Agents)
		reach := make([][]bool, n)
		for i := range reach {
			reach[i] = make([]bool, n)
		}
		for _, c := range m.Channels {
			reach[c.Reader[0]-'a'][c.Controller[0]-'a'] = true
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		var loops [][]bcp.AgentName
		for _, f := range FlowOf(m).Findings {
			if f.Code != FindingLoop {
				continue
			}
			loops = append(loops, f.Agents)
			for i, name := range f.Agents {
				if _, ok := m.Channel(bcp.ChannelKey{Controller: f.Agents[(i+1)%len(f.Agents)], Reader: name}); !ok {
					t.Errorf("loop %v without a channel", f.Agents)
				}
			}
		}
		for i := range n {
			both := func(agent bcp.AgentName) bool { j := agent[0] - 'a'; return reach[i][j] && reach[j][i] }
			found, looped := 0, false
			for _, loop := range loops {
				if both(loop[0]) {
					found++
				}
			}
			for j := range n {
				looped = looped || i != j && reach[i][j] && reach[j][i]
			}
			if looped && found != 1 || !looped && found != 0 {
				t.Errorf("%c: in a loop %v, findings %d of %v", 'a'+i, looped, found, loops)
			}
		}
	})
}

// Long meshes take no long time, and no long text.
func TestFlowOfLongChain(t *testing.T) {
	t.Parallel()
	const n = 10_000
	m := &bcp.Mesh{Agents: []bcp.Agent{{Name: "a0", BaseTaint: bcp.TaintHigh}}}
	for i := 1; i < n; i++ {
		m.Agents = append(m.Agents, bcp.Agent{Name: bcp.AgentName(fmt.Sprintf("a%d", i)), BaseTaint: bcp.TaintLow})
		m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: m.Agents[i].Name, Reader: m.Agents[i-1].Name}, MaxCategory: 2, Budget: bcp.Bit})
	}
	if f := FlowOf(m); len(f.Way(n-1)) != n || len(f.Findings) != n-2 {
		t.Errorf("the way has %d agents, %d findings", len(f.Way(n-1)), len(f.Findings))
	}
	m.Channels = append(m.Channels, bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: "a0", Reader: m.Agents[n-1].Name}, MaxCategory: 2, Budget: bcp.Bit})
	f := FlowOf(m)
	if len(f.Findings) != 1 || len(f.Findings[0].Agents) != n || !strings.Contains(f.Findings[0].Text, "(a0 > a1 > a2 > a3 > ... > a9998 > a9999 > a0)") {
		t.Errorf("%d findings: %.300s", len(f.Findings), f.Findings[0].Text)
	}
}
