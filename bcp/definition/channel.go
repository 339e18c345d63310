package definition

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// end is one entry of bcp_channels.
type end struct {
	agent  *agent
	object *object
	peer   bcp.AgentName
	role   bcp.Role
}

// endKey says which end of which channel an entry is.
type endKey struct {
	of, peer bcp.AgentName
	role     bcp.Role
}

func (e *end) key() endKey { return endKey{e.agent.name(), e.peer, e.role} }

// channels pairs the entries that name each other (PROTOCOL P1.4).
func (b *builder) channels(m *bcp.Mesh) {
	ends := b.ends()
	b.controllers = make(map[bcp.ChannelKey]*end, len(ends))
	byKey := make(map[endKey]*end, len(ends))
	for _, e := range ends {
		byKey[e.key()] = e
	}
	for _, e := range ends {
		other := bcp.RoleReader
		if e.role == bcp.RoleReader {
			other = bcp.RoleController
		}
		counterpart := byKey[endKey{e.peer, e.agent.name(), other}]
		switch {
		case counterpart == nil:
			b.noCounterpart(e, other)
		case e.role == bcp.RoleController:
			ch := b.channel(m, e, counterpart)
			m.Channels = append(m.Channels, ch)
			b.controllers[ch.ChannelKey] = e
		}
	}
	slices.SortFunc(m.Channels, func(x, y bcp.Channel) int {
		return cmp.Or(cmp.Compare(x.Controller, y.Controller), cmp.Compare(x.Reader, y.Reader))
	})
	b.warnTools(m)
}

// ends returns the entries that can be paired, and reports those that no
// channel can have.
func (b *builder) ends() []*end {
	first := map[endKey]position{}
	var ends []*end
	for _, a := range b.agents {
		for _, o := range a.object.get("bcp_channels").objects {
			if !o.has("peer") || !o.has("role") {
				b.incomplete = true
				continue
			}
			e := &end{agent: a, object: o, peer: bcp.AgentName(o.get("peer").text), role: buildRole(o)}
			if e.peer == a.name() {
				e.errorf("peer", CodeSelfChannel, "an agent has no channel to itself")
				continue
			}
			if before, again := first[e.key()]; again {
				e.errorf("peer", CodeDuplicate, "the entry of line %d has the same peer and role: put them together", before.line)
				continue
			}
			first[e.key()] = o.position
			ends = append(ends, e)
		}
	}
	return ends
}

func (e *end) errorf(key, code, format string, args ...any) {
	e.agent.source.errorf(e.object.at(key), code, join(e.object.path, key), format, args...)
}

func (e *end) warnf(key, code, format string, args ...any) {
	e.agent.source.warnf(e.object.at(key), code, join(e.object.path, key), format, args...)
}

func (b *builder) noCounterpart(e *end, other bcp.Role) {
	if b.incomplete {
		return // the other end may be in what could not be read
	}
	missing := "it has no entry with peer " + string(e.agent.name()) + " and role " + other.String()
	_, known := slices.BinarySearchFunc(b.agents, e.peer, func(a *agent, name bcp.AgentName) int { return cmp.Compare(a.name(), name) })
	if !known {
		missing = "there is no such agent"
		if len(b.report.Warnings)+len(b.report.Errors) < maxSuggestions { // a search over all agents
			missing += didYouMean(string(e.peer), b.names())
		}
	}
	if len(e.object.get("subscriptions").objects) > 0 {
		e.errorf("peer", CodeNoCounterpart, "the subscriptions need the other end of the channel at %s: %s", e.peer, missing)
		return
	}
	e.warnf("peer", CodeNoCounterpart, "no channel, since both ends must declare it; %s: %s", e.peer, missing)
}

func (b *builder) names() []string {
	names := make([]string, len(b.agents))
	for i, a := range b.agents {
		names[i] = string(a.name())
	}
	return names
}

// channel makes the channel of two ends; the smaller value of both holds.
func (b *builder) channel(m *bcp.Mesh, c, r *end) bcp.Channel {
	o := c.object
	budget := smaller(o, r.object, "budget_bits", func(v *value) bcp.Bits { return v.bits })
	ch := bcp.Channel{
		ChannelKey:     bcp.ChannelKey{Controller: c.agent.name(), Reader: r.agent.name()},
		MaxCategory:    bcp.Category(smaller(o, r.object, "max_category", func(v *value) int64 { return v.number })),
		Budget:         budget,
		MaxCat2Queries: -1,
		WindowBudget:   min(10*min(budget, bcp.MaxBits/10*bcp.Bit), bcp.MaxBits*bcp.Bit),
		PushBudget:     budget,
		AlertBits:      budget / 5 * 4,
		Approvers:      m.Approvers,
		ControllerRole: r.object.get("requires_role").text,
	}
	o.fill(&ch)
	if o.has("max_cat2_queries") || r.object.has("max_cat2_queries") {
		ch.MaxCat2Queries = int(smaller(o, r.object, "max_cat2_queries", func(v *value) int64 { return v.number }))
	}
	b.checkChannel(m, c, ch)
	b.subscriptions(m, c, r, &ch)
	b.results(m, c, r, &ch)
	return ch
}

// smaller returns the smaller of what both entries say, or what one says.
func smaller[T cmp.Ordered](a, b *object, key string, of func(*value) T) T {
	switch {
	case !b.has(key):
		return of(a.get(key))
	case !a.has(key):
		return of(b.get(key))
	default:
		return min(of(a.get(key)), of(b.get(key)))
	}
}

func (b *builder) checkChannel(m *bcp.Mesh, c *end, ch bcp.Channel) {
	if ch.CapacityBudget > 0 && ch.ReleaseInterval == 0 {
		c.errorf("capacity_budget_bits", CodeReleaseInterval, "a capacity budget needs a release_interval above 0s: without one the timing of answers is uncounted")
	}
	if ch.BaseCategory == 1 && c.agent.object.has("kernel") {
		c.errorf("base_category", CodeKernel, "a kernel justifies no escalation: with 1 each of its questions of category 2 would be refused")
	}
	b.checkApprovers(m, c.agent.source, c.object)
	if list := ch.JustificationVocabulary; list != "" && len(m.Vocabularies[list]) == 0 && !b.incomplete {
		c.errorf("justification_vocabulary", CodeUnknownList, "expected the name of a word list of the mesh, got %s%s", quote(list), didYouMean(list, slices.Sorted(maps.Keys(m.Vocabularies))))
	}
	if ch.WindowBudget == 0 {
		c.warnf("window_budget_bits", CodeWindowOff, "the window is switched off: only the budget of an epoch limits the channel")
	}
	if c.object.has("push_budget_bits") && ch.PushBudget > ch.Budget {
		c.warnf("push_budget_bits", CodeNoEffect, "no effect: the budget of the channel is %s", ch.Budget.Words())
	}
	if c.object.has("alert_bits") && ch.AlertBits > ch.Budget {
		c.warnf("alert_bits", CodeNoEffect, "no effect: the budget of the channel is %s", ch.Budget.Words())
	}
	if ch.MaxCategory == 3 && len(ch.Approvers) == 0 && !b.incomplete {
		c.warnf("max_category", CodeNoApprovers, "nobody can approve category 3: mesh.yaml names no approvers")
	}
}

// checkApprovers finds people that are no approvers of the mesh.
func (b *builder) checkApprovers(m *bcp.Mesh, s *source, o *object) {
	if !o.has("approvers") || b.incomplete {
		return
	}
	var people []string
	for _, p := range m.Approvers {
		people = append(people, string(p))
	}
	for i, e := range o.get("approvers").texts {
		if !slices.Contains(people, e.text) {
			s.errorf(e.position, CodeUnknownPerson, index(join(o.path, "approvers"), i), "expected one of the mesh's approvers, got %s%s", quote(e.text), didYouMean(e.text, people))
		}
	}
}

// warnTools warns of a Reader whose tools and subscriptions do not fit. Agents
// that list no tools are left alone.
func (b *builder) warnTools(m *bcp.Mesh) {
	const publish = bcp.ToolPublish
	if b.incomplete {
		return
	}
	targets := map[bcp.AgentName]bool{}
	for _, c := range m.Channels {
		targets[c.Reader] = targets[c.Reader] || len(c.Subscriptions) > 0
	}
	for i, a := range b.agents {
		agent := m.Agents[i]
		if !agent.Reader || agent.Builtin || len(agent.Tools) == 0 { // a model that the mesh runs may publish whatever it lists
			continue
		}
		targeted := targets[agent.Name]
		listed := slices.Contains(agent.ProtocolTools(), publish)
		switch {
		case listed && !targeted:
			a.source.warnf(a.object.at("tools"), CodeNoSubscription, "tools", "%s is listed, but no subscription names this agent", publish)
		case !listed && targeted:
			a.source.warnf(a.object.at("tools"), CodeCannotPublish, "tools", "a subscription names this agent, but its tools lack %s", publish)
		}
	}
}
