package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// facts has all data of a page: the mesh's replies, and the newest decisions. It is
// immutable.
type facts struct {
	now        time.Time
	fault      string // why the data may be old; empty if it is not
	definition *bcp.Mesh
	flow       *bcp.Flow // of definition, or nil
	known      *known
	entries    []*entry // oldest first
	Total      uint64   // number of decisions up to the last of entries
	channels   []*channel
	Agents     []*agent // by name
}

// channel is everything known about a channel.
type channel struct {
	key      bcp.ChannelKey
	Forecast *bcp.Forecast   // or nil
	Line     *bcp.LedgerLine // the newest, or nil
	Taint    bcp.Taint       // of its deliveries
	day      bcp.Bits        // nominal, of the last 24 hours
	verdicts map[bcp.Outcome]int
	entries  []*entry // oldest first
}

// agent is everything known about an agent.
type agent struct {
	Name               bcp.AgentName
	controller, reader bool
	Taint              bcp.Taint     // of its answers as a Reader, of its input as a Controller
	Definition         *bcp.Agent    // or nil
	Status             *status.Agent // nil if the viewer may not know
	Violations         int
	now                time.Time
}

func newFacts(now time.Time, definition *bcp.Mesh, said *known, entries []*entry) *facts {
	f := &facts{now: now, definition: definition, known: said, entries: entries}
	if definition != nil {
		f.flow = bcp.FlowOf(definition)
	}
	f.findChannels()
	f.findAgents()
	return f
}

func (f *facts) findChannels() {
	found := map[bcp.ChannelKey]*channel{}
	at := func(key bcp.ChannelKey) *channel {
		if found[key] == nil {
			found[key] = &channel{key: key, verdicts: map[bcp.Outcome]int{}}
		}
		return found[key]
	}
	k := f.known
	for j := range k.forecasts {
		c := &k.forecasts[j]
		at(bcp.ChannelKey{Controller: c.Controller, Reader: c.Reader}).Forecast = c
	}
	for j := range k.ledger {
		l := &k.ledger[j]
		c := at(bcp.ChannelKey{Controller: l.Controller, Reader: l.Reader})
		if c.Line == nil || l.Seq > c.Line.Seq {
			c.Line = l
		}
	}
	for _, e := range f.entries {
		key, ok := e.Channel()
		if !ok {
			continue
		}
		c := at(key)
		c.entries = append(c.entries, e)
		c.verdicts[tell.Verdict(&e.Decision)]++
		if line, ok := e.Line(); ok {
			if c.Line == nil || line.Seq > c.Line.Seq {
				c.Line = &line
			}
			if e.Kind != bcp.KindAsk && !e.Prepaid && f.now.Sub(e.At()) < 24*time.Hour {
				c.day += e.Nominal
			}
		}
		if e.Delivery != "" && e.Taint != bcp.TaintUnknown {
			c.Taint = e.Taint
		}
	}
	for _, c := range found {
		if f.flow != nil {
			if i := slices.IndexFunc(f.flow.Agents, func(a bcp.AgentFlow) bool { return a.Name == c.key.Reader }); i >= 0 {
				c.Taint = bcp.MaxTaint(f.flow.Agents[i].Answers, c.Taint)
			}
		}
		f.channels = append(f.channels, c)
	}
	slices.SortFunc(f.channels, func(a, b *channel) int {
		return cmp.Or(cmp.Compare(a.key.Controller, b.key.Controller), cmp.Compare(a.key.Reader, b.key.Reader))
	})
}

func (f *facts) findAgents() {
	found := map[bcp.AgentName]*agent{}
	at := func(name bcp.AgentName) *agent {
		if found[name] == nil {
			found[name] = &agent{Name: name, now: f.now}
		}
		return found[name]
	}
	for _, c := range f.channels {
		at(c.key.Controller).controller = true
		r := at(c.key.Reader)
		r.reader, r.Taint = true, bcp.MaxTaint(r.Taint, c.Taint)
	}
	if f.definition != nil {
		for i := range f.definition.Agents {
			d := &f.definition.Agents[i]
			a := at(d.Name)
			a.Definition, a.controller, a.reader = d, a.controller || d.Controller, a.reader || d.Reader
			if i < len(f.flow.Agents) {
				a.Taint = f.flow.Agents[i].Answers
				if !a.reader {
					a.Taint = f.flow.Agents[i].Exposure
				}
			}
		}
	}
	k := f.known
	for i := range k.agents {
		at(k.agents[i].Agent).Status = &k.agents[i]
	}
	for i := range k.sessions {
		s := &k.sessions[i]
		if a := at(s.Controller); f.definition == nil {
			a.Taint = bcp.MaxTaint(a.Taint, s.Exposure)
		}
	}
	for _, e := range f.entries {
		if a := found[e.Agent]; a != nil && e.Kind == bcp.KindViolation {
			a.Violations++
		}
	}
	for _, a := range found {
		f.Agents = append(f.Agents, a)
	}
	slices.SortFunc(f.Agents, func(a, b *agent) int { return cmp.Compare(a.Name, b.Name) })
}

// balance is that of the newest epoch of a channel.
func (c *channel) balance() (b bcp.Balance) {
	if c.Line != nil {
		b = c.Line.Balance
	}
	return b
}

// budget returns the room in one budget for the next query.
func (c *channel) budget(check bcp.Check) (b bcp.BudgetRoom, ok bool) {
	if c.Forecast == nil {
		return b, false
	}
	for _, room := range []*bcp.Room{&c.Forecast.Queries, &c.Forecast.Pushes} {
		for _, b := range room.Budgets {
			if b.Key == check.Info().Key {
				return b, true
			}
		}
	}
	return b, false
}

// Held counts the items that wait for a person on all channels.
func (f *facts) Held() (n int) {
	for i := range f.known.sessions {
		for _, c := range f.known.sessions[i].Channels {
			n += c.Held
		}
	}
	return n
}

// since counts the wanted ones of the newest decisions that are not older than a time.
func (f *facts) since(d time.Duration, wanted func(*entry) bool) (n int) {
	for _, e := range slices.Backward(f.entries) {
		if f.now.Sub(e.At()) > d {
			break
		}
		if wanted(e) {
			n++
		}
	}
	return n
}

func (f *facts) name() string {
	if f.definition == nil || f.definition.Name == "" {
		return "mesh"
	}
	return f.definition.Name
}

// describeFault says why the data may be old, or nothing.
func describeFault(connected, unread bool, said *known) string {
	if !connected {
		return "The mesh cannot be reached. This page shows what was known before. Check whether the mesh runs (bcpmesh status), and load the page again."
	}
	switch {
	case said != nil && said.err != nil:
		return "The mesh does not answer. Budgets, sessions and agents are missing or old. Check it with bcpmesh doctor, and load the page again."
	case unread:
		return "New decisions of the audit cannot be read. Check the mesh with bcpmesh doctor, and load the page again."
	}
	return ""
}
