package definition

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// endKey says which end of which channel an entry is.
type endKey struct {
	of, peer bcp.AgentName
	role     bcp.Role
}

func (c *channelForm) key() endKey { return endKey{c.agent.Name, c.Peer, c.Role} }

// channels pairs the entries that name each other (PROTOCOL P1.4).
func (b *builder) channels(m *bcp.Mesh) {
	ends, byKey := b.ends()
	b.controllers = make(map[bcp.ChannelKey]*channelForm, len(ends))
	for _, c := range ends {
		other := bcp.RoleReader
		if c.Role == bcp.RoleReader {
			other = bcp.RoleController
		}
		counterpart := byKey[endKey{c.Peer, c.agent.Name, other}]
		switch {
		case counterpart == nil:
			b.noCounterpart(c, other)
		case c.Role == bcp.RoleController:
			ch := b.channel(m, c, counterpart)
			m.Channels = append(m.Channels, ch)
			b.controllers[ch.ChannelKey] = c
		}
	}
	slices.SortFunc(m.Channels, func(x, y bcp.Channel) int { return x.ChannelKey.Compare(y.ChannelKey) })
}

// ends returns the entries that can be paired, and reports those that no
// channel can have.
func (b *builder) ends() (ends []*channelForm, byKey map[endKey]*channelForm) {
	byKey = map[endKey]*channelForm{}
	for _, a := range b.agents {
		for _, c := range a.Channels {
			before := byKey[c.key()]
			switch {
			case !c.has("peer") || !c.has("role"):
				b.incomplete = true
			case c.Peer == a.Name:
				c.errorf("peer", CodeSelfChannel, "an agent has no channel to itself")
			case before != nil:
				c.errorf("peer", CodeDuplicate, "the entry of line %d has the same peer and role: put them together", before.node.Line)
			default:
				byKey[c.key()] = c
				ends = append(ends, c)
			}
		}
	}
	return ends, byKey
}

func (b *builder) noCounterpart(c *channelForm, other bcp.Role) {
	if b.incomplete {
		return // the other end may be in what could not be read
	}
	missing := "it has no entry with peer " + string(c.agent.Name) + " and role " + other.String()
	if _, known := b.find(c.Peer); !known {
		missing = "there is no such agent"
		if len(b.report.Warnings)+len(b.report.Errors) < maxSuggestions { // a search over all agents
			missing += didYouMean(string(c.Peer), b.names())
		}
	}
	if len(c.SubscriptionEntries) > 0 {
		c.errorf("peer", CodeNoCounterpart, "the subscriptions need the other end of the channel at %s: %s", c.Peer, missing)
		return
	}
	c.warnf("peer", CodeNoCounterpart, "no channel, since both ends must declare it; %s: %s", c.Peer, missing)
}

func (b *builder) names() []string {
	names := make([]string, len(b.agents))
	for i, a := range b.agents {
		names[i] = string(a.Name)
	}
	return names
}

// channel makes the channel of two ends; the smaller value of both holds.
func (b *builder) channel(m *bcp.Mesh, c, r *channelForm) bcp.Channel {
	ch := c.Channel
	ch.ChannelKey = bcp.ChannelKey{Controller: c.agent.Name, Reader: r.agent.Name}
	ch.ControllerRole = r.ReaderRole
	ch.MaxCategory = smaller(c, r, "max_category", c.MaxCategory, r.MaxCategory)
	ch.Budget = smaller(c, r, "budget_bits", c.Budget, r.Budget)
	ch.MaxCat2Queries = -1
	if c.has("max_cat2_queries") || r.has("max_cat2_queries") {
		ch.MaxCat2Queries = smaller(c, r, "max_cat2_queries", c.MaxCat2Queries, r.MaxCat2Queries)
	}
	defaultBits := func(key string, field *bcp.Bits, bits bcp.Bits) {
		if !c.has(key) {
			*field = bits
		}
	}
	defaultBits("window_budget_bits", &ch.WindowBudget, min(10*min(ch.Budget, bcp.MaxBits/10*bcp.Bit), bcp.MaxBits*bcp.Bit))
	defaultBits("push_budget_bits", &ch.PushBudget, ch.Budget)
	defaultBits("alert_bits", &ch.AlertBits, ch.Budget/5*4)
	if !c.has("approvers") {
		ch.Approvers = m.Approvers
	}
	b.checkChannel(m, c, ch)
	b.subscriptions(m, c, &ch)
	b.results(m, c, r, &ch)
	return ch
}

// smaller returns the smaller of what both entries say, or what one says.
func smaller[T cmp.Ordered](c, r *channelForm, key string, ofC, ofR T) T {
	switch {
	case !r.has(key):
		return ofC
	case !c.has(key):
		return ofR
	default:
		return min(ofC, ofR)
	}
}

func (b *builder) checkChannel(m *bcp.Mesh, c *channelForm, ch bcp.Channel) {
	if ch.CapacityBudget > 0 && ch.ReleaseInterval == 0 {
		c.errorf("capacity_budget_bits", CodeReleaseInterval, "a capacity budget needs a release_interval above 0s: without one the timing of answers is uncounted")
	}
	if ch.BaseCategory == 1 && c.agent.has("kernel") {
		c.errorf("base_category", CodeKernel, "a kernel justifies no escalation: with 1 each of its questions of category 2 would be refused")
	}
	b.checkApprovers(m, &c.object, c.Approvers)
	if list := ch.JustificationVocabulary; list != "" && len(m.Vocabularies[list]) == 0 && !b.incomplete {
		c.errorf("justification_vocabulary", CodeUnknownList, "expected the name of a word list of the mesh, got %s%s", quote(list), didYouMean(list, sortedKeys(m.Vocabularies)))
	}
	if ch.WindowBudget == 0 {
		c.warnf("window_budget_bits", CodeWindowOff, "the window is switched off: only the budget of an epoch limits the channel")
	}
	if c.has("push_budget_bits") && ch.PushBudget > ch.Budget {
		c.warnf("push_budget_bits", CodeNoEffect, "no effect: the budget of the channel is %s", ch.Budget.Words())
	}
	if c.has("alert_bits") && ch.AlertBits > ch.Budget {
		c.warnf("alert_bits", CodeNoEffect, "no effect: the budget of the channel is %s", ch.Budget.Words())
	}
	if ch.MaxCategory == 3 && len(ch.Approvers) == 0 && !b.incomplete {
		c.warnf("max_category", CodeNoApprovers, "nobody can approve category 3: mesh.yaml names no approvers")
	}
}

// checkApprovers finds people that are no approvers of the mesh.
func (b *builder) checkApprovers(m *bcp.Mesh, o *object, named []bcp.AgentName) {
	if !o.has("approvers") || b.incomplete {
		return
	}
	var people []string
	for _, p := range m.Approvers {
		people = append(people, string(p))
	}
	for i, name := range named {
		if !slices.Contains(m.Approvers, name) {
			o.errorf(index("approvers", i), CodeUnknownPerson, "expected one of the mesh's approvers, got %s%s", quote(string(name)), didYouMean(string(name), people))
		}
	}
}
