package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxCounted bounds the different subjects of one second's violations; beyond
// it they are counted without their subject.
const maxCounted = 256

// decideEvent decides about what the server told. What is only counted is so when
// it is released, so that a record that fails loses none and doubles none.
func (g *Gateway) decideEvent(e *event) (bcp.Decision, bool) {
	switch {
	case e.call != nil, g.onlyCounted(e):
		return bcp.Decision{}, false
	case e.kind == bcp.KindProcess:
		return g.state.DecideProcess(g.moment(), e.agent.Agent, e.process, e.note), true
	}
	return g.state.DecideEvent(g.moment(), e.kind, e.agent.Agent, e.agent.Role, "", 0), true
}

// count adds to what the next counting record says.
func (g *Gateway) count(c counted, n int) {
	if len(g.counts) == 0 {
		g.at(g.clock().Add(countingInterval), func() {})
	}
	if _, known := g.counts[c]; !known && len(g.counts) >= maxCounted {
		c.subject = ""
	}
	g.counts[c] += max(1, n)
}

// nextCounted decides about what was counted, once a second.
func (g *Gateway) nextCounted() (bcp.Decision, bool) {
	if g.clock().Sub(g.counted) < countingInterval {
		return bcp.Decision{}, false
	}
	for c, n := range g.counts {
		if _, taken := g.counting[c]; !taken {
			g.counting[c] = n
			return g.state.DecideEvent(g.moment(), c.kind, c.agent.Agent, c.agent.Role, c.subject, n), true
		}
	}
	return bcp.Decision{}, false
}

// countsRecorded forgets what the records of this batch say. Nothing was
// counted since they were decided.
func (g *Gateway) countsRecorded() {
	if len(g.counting) == 0 {
		return
	}
	for c := range g.counting {
		delete(g.counts, c)
	}
	clear(g.counting)
	g.counted = g.clock()
	if len(g.counts) > 0 {
		g.at(g.clock().Add(countingInterval), func() {})
	}
}
