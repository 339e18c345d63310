package bcp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Finding is something that adds up across the agents and channels of a mesh,
// though each of them is as an operator may want it.
type Finding struct {
	// Code is one of the Finding constants.
	Code string
	// Agents are those involved; the first is the one to look at.
	Agents []AgentName
	// Text is one sentence that says what adds up, and what to do about it.
	Text string
}

// The codes of findings. The words are frozen.
const (
	FindingCombined   = "combined_budgets" // several tainted channels into a clean agent
	FindingTrifecta   = "lethal_trifecta"  // private data, untrusted input and a way out
	FindingSharedDisk = "shared_disk"      // a way around the mesh through files
)

// toolUse says what a tool is good for.
type toolUse uint8

const (
	usePrivate   toolUse = 1 << iota // shows private data: files, environment
	useUntrusted                     // brings in what outsiders wrote
	useOut                           // sends to outsiders
	useRead                          // reads files that another agent may have written
	useWrite                         // writes files that another agent may read
)

// toolUses are the tools that findings know, as `tools` lists them, in any
// case, and also with arguments in parentheses: Bash(git:*). Tools of MCP
// servers count as one; all others count for nothing, as does an agent that
// lists none.
//
// Beside tools, `network` counts as untrusted input and a way out unless it is
// absent or "none", and Bash is no way out where it is "none". Untrusted input
// is also `base_taint: high`, and a channel of category 2 or 3 whose answers
// are medium at worst; one of category 1 cannot carry an instruction.
var toolUses = []struct {
	name string
	use  toolUse
}{
	{"Read", usePrivate | useRead},
	{"Grep", usePrivate | useRead},
	{"Glob", usePrivate},
	{"NotebookRead", usePrivate | useRead},
	{"Bash", usePrivate | useOut | useRead | useWrite},
	{"Write", useWrite},
	{"Edit", useWrite},
	{"MultiEdit", useWrite},
	{"NotebookEdit", useWrite},
	{"WebFetch", useUntrusted | useOut},
	{"WebSearch", useUntrusted},
	{"SendMessage", useOut},
	{"web_fetch", useUntrusted | useOut},
	{"Mailbox", usePrivate | useUntrusted},
	{"files", usePrivate | useUntrusted | useRead},
	{mcpTools, useUntrusted | useOut},
}

// mcpTools stands for all tools of MCP servers, but for those of this protocol.
const mcpTools = "MCP tools"

const networkNone = "none"

// toolsFor returns the tools of an agent that are good for a use, in the order
// of the table and spelled as there.
func toolsFor(a *Agent, wanted toolUse) []string {
	var found []string
	for _, known := range toolUses {
		if known.use&wanted == 0 || known.name == "Bash" && wanted == useOut && normalNetwork(a) == networkNone {
			continue
		}
		if slices.ContainsFunc(a.Tools, func(tool string) bool {
			tool, _, _ = strings.Cut(tool, "(")
			tool = strings.TrimSpace(tool)
			return strings.EqualFold(tool, known.name) || known.name == mcpTools && strings.HasPrefix(strings.ToLower(tool), "mcp__") && ProtocolTool(tool) == ""
		}) {
			found = append(found, known.name)
		}
	}
	return found
}

func normalNetwork(a *Agent) string { return strings.ToLower(strings.TrimSpace(a.Network)) }

// reachesOut reports whether an agent's runtime has a network: whatever the
// word for it is, but none.
func reachesOut(a *Agent) bool { return normalNetwork(a) != "" && normalNetwork(a) != networkNone }

func findings(m *Mesh, g *graph, f *Flow) []Finding {
	var all []Finding
	for i := range m.Agents {
		all = append(all, combined(m, g, f, i)...)
	}
	for i := range m.Agents {
		all = append(all, trifecta(m, g, f, i)...)
	}
	return append(all, sharedDisks(m, f)...)
}

// combined finds a clean agent whose channels each have a budget, and whose
// operator has not said what all of them may carry together.
func combined(m *Mesh, g *graph, f *Flow, i int) []Finding {
	if f.Agents[i].Base != TaintLow || m.Agents[i].TotalBudget > 0 {
		return nil
	}
	agents := []AgentName{m.Agents[i].Name}
	var nominal, capacity Bits
	bounded := 0
	for _, e := range g.asks[i] {
		if f.Agents[e.peer].Answers == TaintLow || e.channel.Budget <= 0 {
			continue
		}
		agents = append(agents, m.Agents[e.peer].Name)
		nominal = Plus(nominal, e.channel.Budget)
		if e.channel.CapacityBudget > 0 {
			capacity = Plus(capacity, e.channel.CapacityBudget)
			bounded++
		}
	}
	channels := len(agents) - 1
	if channels < 2 {
		return nil
	}
	sum := nominal.Words() + " an epoch"
	switch {
	case bounded == channels:
		sum += " (capacity " + capacity.Rounded() + ")"
	case bounded > 0:
		sum += fmt.Sprintf(" (capacity %s on %d of them, without a bound on the rest)", capacity.Rounded(), bounded)
	}
	return []Finding{{FindingCombined, agents, fmt.Sprintf(
		"%s has channels from %d agents whose answers are tainted (%s): whoever writes what they read can combine %s; set total_budget_bits to what all of them may carry together",
		agents[0], channels, nameList(agents[1:]), sum)}}
}

// Legs are the three legs of the lethal trifecta, each with what gives it to an
// agent: tools, keys of its definition, agents that it hears.
type Legs struct {
	Private   []string // data that outsiders may not have
	Untrusted []string // input that outsiders write
	Out       []string // ways to outsiders
}

// All reports whether the agent has all three: a text can make it send the data away.
func (l Legs) All() bool { return len(l.Private) > 0 && len(l.Untrusted) > 0 && len(l.Out) > 0 }

// findLegs returns the legs of an agent, and the agents whose text is one.
func findLegs(m *Mesh, g *graph, f *Flow, i int) (legs Legs, hears []AgentName) {
	a := &m.Agents[i]
	legs = Legs{toolsFor(a, usePrivate), toolsFor(a, useUntrusted), toolsFor(a, useOut)}
	if reachesOut(a) {
		legs.Untrusted, legs.Out = append(legs.Untrusted, "network"), append(legs.Out, "network")
	}
	if f.Agents[i].Base == TaintHigh {
		legs.Untrusted = append(legs.Untrusted, "base_taint high")
	}
	for _, e := range g.asks[i] {
		if f.Agents[e.peer].Answers > TaintLow && e.channel.MaxCategory > 1 {
			hears = append(hears, m.Agents[e.peer].Name)
		}
	}
	if len(hears) > 0 {
		legs.Untrusted = append(legs.Untrusted, "text from "+nameList(hears))
	}
	return legs, hears
}

// trifecta finds an agent that text can make send away what it knows.
func trifecta(m *Mesh, g *graph, f *Flow, i int) []Finding {
	a := &m.Agents[i]
	legs, hears := findLegs(m, g, f, i)
	f.Agents[i].legs = legs
	if !legs.All() {
		return nil
	}
	agents := append([]AgentName{a.Name}, hears...)
	ownInput := len(legs.Untrusted) > min(1, len(hears))
	remedy := "give one of the three to another agent, across a channel"
	if !ownInput {
		remedy = "lower max_category of its channels to 1, or give the private data or the way out to another agent"
	}
	return []Finding{{FindingTrifecta, agents, fmt.Sprintf(
		"%s has private data (%s), untrusted input (%s) and a way out (%s), so that a text can make it send the data away; %s",
		a.Name, strings.Join(legs.Private, ", "), strings.Join(legs.Untrusted, ", "), strings.Join(legs.Out, ", "), remedy)}}
}

// sharedDisks finds tainted agents that can leave files where clean ones read.
func sharedDisks(m *Mesh, f *Flow) []Finding {
	var clean []AgentName
	for i := range m.Agents {
		if f.Agents[i].Base == TaintLow && len(toolsFor(&m.Agents[i], useRead)) > 0 {
			clean = append(clean, m.Agents[i].Name)
		}
	}
	if len(clean) == 0 {
		return nil
	}
	var all []Finding
	for i := range m.Agents {
		a := &m.Agents[i]
		writes := toolsFor(a, useWrite)
		if f.Agents[i].Base == TaintLow || len(writes) == 0 {
			continue
		}
		all = append(all, Finding{FindingSharedDisk, append([]AgentName{a.Name}, clean[:min(len(clean), listed)]...), fmt.Sprintf(
			"%s is tainted and can write files (%s), and clean agents can read files (%s): on one disk that is a way around the gateway; keep their disks apart, or take %s away from %[1]s",
			a.Name, strings.Join(writes, ", "), nameList(clean), strings.Join(writes, " and "))})
	}
	return all
}

// listed is how many names a text shows.
const listed = 4

func nameList(names []AgentName) string {
	var words []string
	for i, name := range names {
		if i == listed {
			words = append(words, strconv.Itoa(len(names)-listed)+" more")
			break
		}
		words = append(words, string(name))
	}
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return strings.Join(words, "")
}
