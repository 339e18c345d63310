package bcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// flowMesh reads a mesh of a tiny notation. A line is an agent, with words for
// its taint, tools, `net:` its network and `total:` its budget of bits; or a
// channel, CONTROLLER < READER CATEGORY BUDGET, and a capacity budget or none.
func flowMesh(t testing.TB, notation string) *Mesh {
	t.Helper()
	m := &Mesh{}
	bits := func(text string) Bits {
		b, err := ParseBits(text)
		noError(t, err)
		return b
	}
	for line := range strings.Lines(notation) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case len(words) > 1 && words[1] == "<":
			words = append(words, []string{"1", "1", "0"}[len(words)-3:]...)
			stopIf(t, len(words[3]) != 1, "no category in %q", line)
			m.Channels = append(m.Channels, Channel{
				ChannelKey:  ChannelKey{Controller: AgentName(words[0]), Reader: AgentName(words[2])},
				MaxCategory: Category(words[3][0] - '0'), Budget: bits(words[4]), CapacityBudget: bits(words[5]),
			})
			continue
		}
		a := Agent{Name: AgentName(words[0])}
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

// drawMesh makes any mesh of at most eight agents.
func drawMesh(t *rapid.T) *Mesh {
	m := &Mesh{}
	n := rapid.IntRange(1, 8).Draw(t, "agents")
	tools := []string{"Read", "Write", "Bash", "WebFetch", "mcp__a__b", "Other"}
	for i := range n {
		m.Agents = append(m.Agents, Agent{
			Name:      AgentName(rune('a' + i)),
			BaseTaint: Taint(rapid.IntRange(0, 4).Draw(t, "taint")),
			Tools:     rapid.SliceOfN(rapid.SampledFrom(tools), 0, 3).Draw(t, "tools"),
			Network:   rapid.SampledFrom([]string{"", "none", "outbound"}).Draw(t, "network"),
		})
	}
	for range rapid.IntRange(0, 16).Draw(t, "channels") {
		m.Channels = append(m.Channels, drawChannel(t, n))
	}
	slices.SortFunc(m.Channels, func(a, b Channel) int { return a.ChannelKey.Compare(b.ChannelKey) })
	return m
}

// drawChannel makes a channel, perhaps of an agent that is not there.
func drawChannel(t *rapid.T, agents int) Channel {
	name := rapid.Map(rapid.IntRange(0, agents), func(i int) AgentName { return AgentName(rune('a' + i)) })
	return Channel{
		ChannelKey:  ChannelKey{Controller: name.Draw(t, "controller"), Reader: name.Draw(t, "reader")},
		MaxCategory: Category(rapid.IntRange(0, 3).Draw(t, "category")),
		Budget:      rapid.SampledFrom([]Bits{0, 1, Bit, MaxBits * Bit, 1<<63 - 1}).Draw(t, "budget"),
	}
}

// naiveFlow applies P8.2 to all channels until nothing changes any more.
func naiveFlow(m *Mesh) map[AgentName]Taint {
	exposure, answer := map[AgentName]Taint{}, map[AgentName]Taint{}
	for _, a := range m.Agents {
		exposure[a.Name], answer[a.Name] = TaintLow, a.BaseTaint.StepDown()
	}
	for changed := true; changed; {
		changed = false
		for _, c := range m.Channels {
			_, known := exposure[c.Controller]
			if taint := answer[c.Reader]; known && taint > exposure[c.Controller] {
				exposure[c.Controller], changed = taint, true
				answer[c.Controller] = MaxTaint(answer[c.Controller], taint)
			}
		}
	}
	return exposure
}

// Nobody is exposed to less or more than channels carry; every finding is about agents of the mesh.
//
// covers BCP-15, P8.1, P8.2
func TestFlowIsTheLeastFixpoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawMesh(t)
		f := FlowOf(m)
		exposure := naiveFlow(m)
		for _, a := range f.Agents {
			if a.Exposure != exposure[a.Name] {
				t.Errorf("%s has %s, want %s", a.Name, a.Exposure, exposure[a.Name])
			}
			if want := MaxTaint(a.Base.StepDown(), a.Exposure); a.Answers != want {
				t.Errorf("answers of %s have %s, want %s", a.Name, a.Answers, want)
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
	for _, f := range []*Flow{FlowOf(nil), FlowOf(&Mesh{}), {}} {
		failIf(t, len(f.Agents)+len(f.Findings) > 0, "of nothing follows %+v", f)
	}
}

// Long meshes take no long time.
func TestFlowOfLongChain(t *testing.T) {
	t.Parallel()
	const n = 10_000
	m := &Mesh{Agents: []Agent{{Name: "a0", BaseTaint: TaintHigh}}}
	for i := 1; i < n; i++ {
		m.Agents = append(m.Agents, Agent{Name: AgentName(fmt.Sprintf("a%d", i)), BaseTaint: TaintLow})
		m.Channels = append(m.Channels, Channel{ChannelKey: ChannelKey{Controller: m.Agents[i].Name, Reader: m.Agents[i-1].Name}, MaxCategory: 2, Budget: Bit})
	}
	if f := FlowOf(m); f.Agents[n-1].Exposure != TaintMedium || len(f.Findings) != 0 {
		t.Errorf("the last has %s, %d findings", f.Agents[n-1].Exposure, len(f.Findings))
	}
}
