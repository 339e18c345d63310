package proof

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxStations bounds the ways of one principal; real ones have a dozen.
	maxStations = 4096
	// maxHops is how many accounts a way passes.
	maxHops = 16
)

// ErrTangled says that there are more paths than the limit: nothing is proved.
var ErrTangled = errors.New("the accounts are too complex to prove anything about")

// Prove follows everything that every principal may publish through imports,
// exports and mappings, and compares what it reaches with the policy. It is
// pure. If it cannot follow something exactly, it overestimates: a report
// without holes is a proof, but a reported hole may, rarely, not exist.
//
// For a set without an account the error is [ErrNoTokens].
func Prove(c Claims, p Policy) (Report, error) {
	if len(c.Accounts) == 0 {
		return Report{}, ErrNoTokens
	}
	v := &prover{world: shape(c, p), through: parsePatterns(p.Through)}
	var reached []reach
	for _, from := range v.principals {
		v.report.Principals = append(v.report.Principals, from.name)
		r, err := v.follow(from)
		if err != nil {
			return Report{}, err
		}
		reached = append(reached, r)
		v.listen(from)
	}
	if err := v.effects(); err != nil {
		return Report{}, err
	}
	if err := newRoles(v).judge(reached); err != nil {
		return Report{}, err
	}
	for _, a := range v.order {
		for _, l := range slices.Concat(a.services, a.streams) {
			if l.to.operator != a.operator && !l.to.unknown {
				v.hole(Hole{Claim: Meshes, From: a.name + " " + a.key, To: l.to.name + " " + l.to.key, Way: []Step{
					{Account: a.name, Subject: l.by.from.String(), How: "publish", Who: "anybody"},
					{Account: l.to.name, Subject: l.by.apply(l.by.from).String(), How: l.how()},
				}})
			}
		}
	}
	for _, t := range v.trusted {
		v.report.Trusted = append(v.report.Trusted, t.name)
	}
	for _, k := range v.keys {
		v.hole(Hole{Claim: Issuers, From: k.public, To: k.account.name, Way: []Step{{Account: k.account.name, How: "key", Who: k.what + " (" + k.public + ")"}}})
	}
	n := len(v.principals)
	v.report.Accounts, v.report.Pairs, v.report.Refused = len(v.order), n*(n-1), v.refused
	order := All()
	slices.SortStableFunc(v.report.Holes, func(a, b Hole) int { return slices.Index(order, a.Claim) - slices.Index(order, b.Claim) })
	return v.report, nil
}

type prover struct {
	*world
	through []pattern
	report  Report
}

func (v *prover) hole(h Hole) { v.report.Holes = append(v.report.Holes, h) }

// station is a set of subjects on which the messages of one principal arrive in
// one account.
type station struct {
	account *account
	region  region
	before  *station // nil for the publication itself
	by      mapping  // from the region before
	how     string
	hops    int
	over    *link // the import by which it arrived
	heard   bool  // it arrived as a stream: only subscriptions receive it
}

// reach is what one principal reaches by publishing.
type reach struct {
	from     *principal
	stations []*station
	hits     []hit
}

// hit is another agent that receives some of what arrives at a station.
type hit struct {
	to     *principal
	at     *station
	region region
}

// follow checks everything that from can reach by publishing.
func (v *prover) follow(from *principal) (reach, error) {
	r := reach{from: from}
	found := map[string]bool{}
	err := v.walk(from, func(s *station) {
		v.report.Ways++
		r.stations = append(r.stations, s)
		r.hits = v.arrive(from, s, found, r.hits)
	})
	return r, err
}

// walk visits every station of what from publishes.
func (v *prover) walk(from *principal, visit func(*station)) error {
	var first []*station
	for _, r := range from.publish {
		first = append(first, &station{account: from.account, region: r, how: "publish"})
	}
	return v.walkFrom(first, visit)
}

// walkFrom visits stations and all after them.
func (v *prover) walkFrom(first []*station, visit func(*station)) error {
	var queue []*station
	seen := map[string]bool{}
	add := func(s *station) {
		if s.region.empty() {
			return
		}
		key := fmt.Sprint(s.account.key, s.heard, s.region)
		if !seen[key] {
			seen[key] = true
			queue = append(queue, s)
		}
	}
	for _, s := range first {
		add(s)
	}
	for i := 0; i < len(queue); i++ {
		if i >= maxStations || queue[i].hops > maxHops {
			return ErrTangled
		}
		visit(queue[i])
		v.spread(queue[i], add)
	}
	return nil
}

// spread adds the stations after s.
func (v *prover) spread(s *station, add func(*station)) {
	if s.heard {
		return
	}
	// What a client publishes is mapped before its permission is looked at.
	if s.how == "service" {
		for _, m := range s.account.mappings {
			add(&station{account: s.account, region: m.image(s.region), before: s, by: m, how: "mapping", hops: s.hops, over: s.over})
		}
	}
	for i := range s.account.services {
		l := &s.account.services[i]
		add(&station{account: l.to, region: l.by.image(s.region), before: s, by: l.by, how: "service", hops: s.hops + 1, over: l})
	}
	for i := range s.account.streams {
		l := &s.account.streams[i]
		add(&station{account: l.to, region: l.by.image(s.region), before: s, by: l.by, how: "stream", hops: s.hops + 1, over: l, heard: true})
	}
}

// arrive compares one station with the claims, and adds its receivers to hits.
// found limits each hole to one path.
func (v *prover) arrive(from *principal, s *station, found map[string]bool, hits []hit) []hit {
	hole := func(c Claim, to string, r region, last Step) {
		key := string(c) + to + s.account.key
		if r.empty() || found[key] {
			return
		}
		found[key] = true
		v.hole(s.hole(from, c, to, r, last))
	}
	for _, to := range s.account.users {
		if to == from {
			continue
		}
		for _, r := range to.subscribe {
			both := s.region.intersect(r)
			if both.empty() {
				continue
			}
			hits = append(hits, hit{to, s, both})
			hole(Agents, to.name, both, Step{Account: s.account.name, Subject: both.pattern.String(), How: "subscribe", Who: to.name})
		}
	}
	outside := s.region
	if s.account.guarded {
		outside = outside.without(from.entrances).without(v.through)
	}
	taken := func(c Claim, patterns []pattern, what string) {
		for _, p := range patterns {
			both := outside.restrict(p)
			hole(c, what+" of "+s.account.name, both, Step{Account: s.account.name, Subject: both.pattern.String(), How: "request", Who: what})
		}
		outside = outside.without(patterns)
	}
	taken(System, systemSubjects, "the system")
	switch {
	case s.account.system:
		taken(System, []pattern{everything}, "the system")
	case s.account.unknown:
		taken(Agents, []pattern{everything}, "whoever is in an account that was not given")
	}
	if s.account.jetStream || s.account.guarded {
		taken(Streams, streamSubjects, "JetStream")
	}
	if s.account.guarded {
		taken(Gateway, []pattern{everything}, "the gateway")
		if s.over != nil && s.over.trace {
			r := s.region
			hole(Hearing, "a trace of "+s.account.name, r, Step{Account: s.account.name, Subject: r.pattern.String(), How: "request", Who: "a trace"})
		}
	}
	// Who may publish on the server's own reply subjects answers for others.
	if s.before == nil {
		forged := s.region.restrict(pattern{"_R_", anyTail})
		for _, a := range v.order {
			for i := range a.services {
				if a.services[i].to == s.account {
					hole(Agents, "whoever asks from "+a.name, forged, Step{Account: a.name, Subject: forged.pattern.String(), How: "request", Who: "whoever asks"})
				}
			}
		}
	}
	return hits
}

// listen checks what an agent may subscribe to that is for others.
func (v *prover) listen(to *principal) {
	a := to.account
	found := map[string]bool{}
	hole := func(from string, r region, way ...Step) {
		if r.empty() || found[from] {
			return
		}
		found[from] = true
		last := Step{Account: a.name, Subject: r.pattern.String(), How: "subscribe", Who: to.name}
		v.hole(Hole{Claim: Hearing, From: from, To: to.name, Way: append(way, last)})
	}
	own := slices.Concat(to.outlets, v.through)
	for _, r := range to.subscribe {
		if a.guarded {
			foreign := r.without(own)
			hole("the gateway", foreign, Step{Account: a.name, Subject: foreign.pattern.String(), How: "publish", Who: "the gateway"})
		}
		for _, other := range a.users {
			if other == to {
				continue
			}
			for _, theirs := range other.subscribe {
				both := r.intersect(theirs)
				if both.empty() {
					continue
				}
				both = both.without(shared(to, other)).without(v.through)
				hole(other.name, both, Step{Account: a.name, Subject: both.pattern.String(), How: "subscribe", Who: other.name})
			}
		}
	}
	for _, exporter := range v.order {
		for i := range exporter.streams {
			if l := &exporter.streams[i]; l.to == a {
				v.checkStream(to, exporter, l, own, hole)
			}
		}
	}
}

// shared is what both may receive: alerts are for everybody who gets any, and a
// person has one inbox in all roles.
func shared(a, b *principal) []pattern {
	var both []pattern
	if a.agent.person() && b.agent.person() && a.agent.agent == b.agent.agent {
		both = parsePatterns([]string{subjects.InboxesOf(a.agent.agent)})
	}
	for _, p := range a.outlets {
		for _, q := range b.outlets {
			if slices.Equal(p, q) {
				both = append(both, p)
			}
		}
	}
	return both
}

// checkStream looks at one stream into an agent's account.
func (v *prover) checkStream(to *principal, exporter *account, l *link, own []pattern, hole func(string, region, ...Step)) {
	for _, r := range to.subscribe {
		near := l.by.image(region{pattern: l.by.from}).intersect(r)
		if near.empty() {
			continue
		}
		source := region{pattern: l.by.origin(l.by.from, near.pattern)}
		way := func(subject pattern, how, who string) []Step {
			return []Step{
				{Account: exporter.name, Subject: subject.String(), How: how, Who: who},
				{Account: l.to.name, Subject: l.by.apply(subject).String(), How: "stream"},
			}
		}
		if exporter.guarded {
			if foreign := source.without(own); !foreign.empty() {
				hole("the gateway", near, way(foreign.pattern, "publish", "the gateway")...)
			}
		}
		for _, other := range exporter.users {
			for _, theirs := range other.subscribe {
				if both := source.intersect(theirs).without(v.through); !both.empty() {
					hole(other.name, near, way(both.pattern, "subscribe", other.name)...)
				}
			}
		}
	}
}

// hole records the path to s, and finds a subject to test it with. r is the
// forbidden part of s's region.
func (s *station) hole(from *principal, c Claim, to string, r region, last Step) Hole {
	h := Hole{Claim: c, From: from.name, To: to, Way: []Step{last}}
	p, first := r.pattern, s
	var by []mapping // from the first station on
	for {
		h.Way = append([]Step{{Account: first.account.name, Subject: p.String(), How: first.how}}, h.Way...)
		if first.before == nil {
			break
		}
		by = append([]mapping{first.by}, by...)
		p, first = first.by.origin(first.before.region.pattern, p), first.before
	}
	h.Way[0].Who = from.name
	for _, example := range p.examples(slices.Concat(first.region.except, r.except)) {
		if !first.region.contains(example) {
			continue
		}
		arrives := example
		for _, m := range by {
			if arrives = arrives.intersect(m.from); arrives == nil {
				break
			}
			arrives = m.apply(arrives)
		}
		if arrives != nil && r.contains(arrives) {
			h.Publish, h.Arrives = example.String(), arrives.String()
			break
		}
	}
	return h
}
