package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// dump writes down everything that a state remembers, and what follows from that under its
// definitions, but for the memo of compiled specs.
func dump(s *State) string {
	var b strings.Builder
	b.WriteString(dumpRecords(s))
	fmt.Fprintf(&b, "crossed %v\n", s.crossed)
	for _, c := range s.crons {
		fmt.Fprintf(&b, "cron %s %s %d\n", c.agent, c.Schedule, c.due)
	}
	sortedLines(&b, s.open, func(q *queryState) string { return fmt.Sprintf("%v %+v", q.validator != nil, q.prices) })
	sortedLines(&b, s.openWith, func(with map[bcp.QueryID]*queryState) string { return fmt.Sprint(slices.Sorted(maps.Keys(with))) })
	dumpTimers(&b, s, func(timer) bool { return true })
	return b.String()
}

// dumpRecords writes down what the records alone make.
func dumpRecords(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "last %+v\nhead %x origin %d endings %v decided %v waiting %v noticed %v alerts %v\n",
		s.last, s.head, s.origin, s.endings, s.decided, s.waiting, s.noticed, s.alerts)
	saved, err := bcp.AppendSaved(nil, s.watch)
	fmt.Fprintf(&b, "watch %q %v suspended %v\n", saved, err, s.suspended)
	fmt.Fprintf(&b, "share %v roles %v endorsed %+v\n", s.share, s.roles, s.endorsed)
	sortedLines(&b, s.envelopes, func(e *envelope) string { return fmt.Sprintf("%+v", *e) })
	sortedLines(&b, s.allAgents, dumpAgent)
	fmt.Fprintf(&b, "begun %d %v idle %d\n", s.begun, s.prompted, s.idle)
	sortedLines(&b, s.allChannels, dumpChannel)
	sortedLines(&b, s.queries, func(q *queryState) string {
		c := *q
		c.validator, c.prices = nil, bcp.Prices{}
		return fmt.Sprintf("%+v", c)
	})
	sortedLines(&b, s.items, func(it *itemState) string { return fmt.Sprintf("%+v", *it) })
	for key, f := range s.firsts.all() {
		fmt.Fprintf(&b, "%x: %+v\n", key, f)
	}
	dumpTimers(&b, s, func(t timer) bool { return t.cron == 0 && !t.void })
	return b.String()
}

// dumpAgent is nothing for one that no record names, as dumpChannel is.
func dumpAgent(a *agentState) string {
	line := func(a *agentState) string {
		return fmt.Sprintf("%v %v %d %v %d %+v %+v %+v %+v %+v %v %v %v", a.reported, a.exposure, a.told, a.forgot, a.renewed, a.refusals, a.gathered, a.reports, a.session, a.arrivals, a.unavailable, a.sources, a.notices)
	}
	if line(a) == line(newAgentState(bcp.Agent{})) {
		return ""
	}
	return line(a)
}

func dumpChannel(ch *channelState) string {
	line := func(ch *channelState) string {
		var c strings.Builder
		window := ch.window
		if !window.recorded {
			window.span = 0
		}
		fmt.Fprintf(&c, "opening %+v kept %+v flow %+v queue %d %d\n", ch.opening, ch.kept, ch.flow, ch.ends, ch.holds)
		fmt.Fprintf(&c, "epoch %+v window %v alerted %d %d %+v session %q %d %d %d %d %v pending %d\n", ch.epoch,
			window, ch.alerted, ch.exhausted, ch.spending, ch.session, ch.escalations, ch.armed, ch.arming, ch.armingAt, ch.failed, ch.pending)
		for _, id := range slices.Sorted(maps.Keys(ch.pushes)) {
			if p := ch.pushes[id]; !p.empty() {
				fmt.Fprintf(&c, "  pushes %s %v %d %d %+v\n", id, p.times, p.released, p.before, p.batches)
			}
		}
		sortedLines(&c, ch.pools, func(p *pool) string { return fmt.Sprintf("%+v", *p) })
		for _, out := range ch.outbox {
			fmt.Fprintf(&c, "  out %+v\n", out)
		}
		return c.String()
	}
	if line(ch) == line(newChannelState(bcp.Channel{}, nil)) {
		return ""
	}
	return line(ch)
}

func dumpTimers(b *strings.Builder, s *State, shown func(timer) bool) {
	timers := make([]string, 0, len(s.deadline))
	for _, t := range s.deadline {
		if !s.obsolete(t) && shown(t) {
			timers = append(timers, fmt.Sprintf("%+v", t))
		}
	}
	slices.Sort(timers)
	fmt.Fprintln(b, slices.Compact(timers))
}

func sortedLines[K comparable, V any](b *strings.Builder, m map[K]V, line func(V) string) {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		if line := line(v); line != "" {
			lines = append(lines, fmt.Sprintf("%v: %s\n", k, line))
		}
	}
	slices.Sort(lines)
	fmt.Fprintln(b, strings.Join(lines, ""))
}
