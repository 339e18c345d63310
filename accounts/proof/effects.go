package proof

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// effects checks who can make a tool act. Trusted parties are not exempt: a call must
// come only from the dispatcher of its kernel and tool. Without tools there is nothing
// to prove.
func (v *prover) effects() error {
	all := slices.Concat(v.principals, v.trusted)
	tools := map[*account][]*principal{}
	for _, p := range all {
		if p.agent.role == bcp.RoleTool {
			tools[p.account] = append(tools[p.account], p)
		}
	}
	if len(tools) == 0 {
		return nil
	}
	made := map[*principal][]publisher{}
	for _, from := range all {
		if from.agent.role == bcp.RoleDispatcher {
			v.dispatches(from)
		}
		found := map[string]bool{}
		err := v.walk(from, func(s *station) {
			for _, to := range tools[s.account] {
				for _, calls := range to.calls() {
					if r := s.region.intersect(calls); !r.empty() {
						v.called(from, to, s, r, made, found)
					}
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publisher is who can make some calls.
type publisher struct {
	who   *principal
	calls region
}

// calls returns the subjects on which a tool service can be made to act: its
// subscriptions, except its own inbox and the requests of the service protocol.
func (p *principal) calls() []region {
	own := parsePatterns([]string{subjects.InboxesOf(p.agent.agent), subjects.ServiceRequests})
	var list []region
	for _, r := range p.subscribe {
		list = append(list, r.without(own))
	}
	return list
}

// called notes that from can make the calls in r.
func (v *prover) called(from, to *principal, s *station, r region, made map[*principal][]publisher, found map[string]bool) {
	add := func(to string, r region, who string) {
		if !found[to] {
			found[to] = true
			v.hole(s.hole(from, Effects, to, r, Step{Account: s.account.name, Subject: r.pattern.String(), How: "subscribe", Who: who}))
		}
	}
	if from.agent.role != bcp.RoleDispatcher {
		add(to.name, r, to.name)
		return
	}
	for _, other := range made[to] {
		if !other.who.same(from) {
			if both := r.intersect(other.calls); !both.empty() {
				add(to.name+", as "+other.who.name+" does", both, to.name)
			}
		}
	}
	made[to] = append(made[to], publisher{from, r})
}

// same reports whether both are one dispatcher, under two of its keys.
func (p *principal) same(other *principal) bool {
	return p.account == other.account && p.agent == other.agent
}

// dispatches finds what a dispatcher may publish besides the one call for which it
// is named.
func (v *prover) dispatches(from *principal) {
	for _, r := range from.publish {
		call, err := subjects.Parse(r.pattern.String())
		if err == nil && call.Kind == subjects.KindCall && subjects.Dispatcher(call.Kernel, call.Agent, call.Tool) == from.agent.agent {
			continue
		}
		v.hole(Hole{Claim: Effects, From: from.name, To: "more than its call", Way: []Step{
			{Account: from.account.name, Subject: r.pattern.String(), How: "publish", Who: from.name},
		}})
		return
	}
}
