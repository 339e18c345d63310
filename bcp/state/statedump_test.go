package state

import (
	"fmt"
	"slices"
	"strings"
)

// dump writes down everything that a state remembers, but for what it is built
// from and the memo of compiled specs.
func dump(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "last %+v\nhead %x origin %d endings %v decided %v waiting %v noticed %v alerts %v\n",
		s.last, s.head, s.origin, s.endings, s.decided, s.waiting, s.noticed, s.alerts)
	saved, err := s.watch.Save()
	fmt.Fprintf(&b, "watch %s %v suspended %v\n", saved, err, s.suspended)
	fmt.Fprintf(&b, "share %v\n", s.share)
	sortedLines(&b, s.envelopes, func(e *envelope) string { return fmt.Sprintf("%+v", *e) })
	fmt.Fprintf(&b, "foreign %v\n", s.foreign)
	sortedLines(&b, s.agents, func(a *agentState) string {
		return fmt.Sprintf("%v %v %d %v %d %+v %+v %+v %+v %+v %v %v %v", a.reported, a.exposure, a.told, a.forgot, a.renewed, a.refusals, a.gathered, a.reports, a.session, a.arrivals, a.unavailable, a.sources, a.notices)
	})
	for _, c := range s.crons {
		fmt.Fprintf(&b, "cron %s %s %d %d\n", c.agent, c.Schedule, c.last, c.due)
	}
	sortedLines(&b, s.channels, func(ch *channelState) string {
		var c strings.Builder
		fmt.Fprintf(&c, "opening %+v kept %+v flow %+v queue %d %d\n", ch.opening, ch.kept, ch.flow, ch.ends, ch.holds)
		fmt.Fprintf(&c, "epoch %+v window %v alerted %d %d %+v session %q %d %d %d %d %v pending %d\n", ch.epoch,
			ch.window.parts, ch.alerted, ch.exhausted, ch.spending, ch.session, ch.escalations, ch.armed, ch.arming, ch.armingAt, ch.failed, ch.pending)
		for _, saved := range ch.savePushes() {
			fmt.Fprintf(&c, "  pushes %+v\n", saved)
		}
		sortedLines(&c, ch.pools, func(p *pool) string { return fmt.Sprintf("%+v", *p) })
		for _, out := range ch.outbox {
			fmt.Fprintf(&c, "  out %+v\n", out)
		}
		return c.String()
	})
	sortedLines(&b, s.queries, func(q *queryState) string {
		c := *q
		c.validator = nil
		return fmt.Sprintf("%+v %v", c, q.validator != nil)
	})
	sortedLines(&b, s.items, func(it *itemState) string { return fmt.Sprintf("%+v", *it) })
	for key, f := range s.firsts.all() {
		fmt.Fprintf(&b, "%x: %+v\n", key, f)
	}
	timers := make([]string, 0, len(s.deadline))
	for _, t := range s.deadline {
		timers = append(timers, fmt.Sprintf("%+v", t))
	}
	slices.Sort(timers)
	fmt.Fprintln(&b, timers)
	return b.String()
}

func sortedLines[K comparable, V any](b *strings.Builder, m map[K]V, line func(V) string) {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%v: %s\n", k, line(v)))
	}
	slices.Sort(lines)
	fmt.Fprintln(b, strings.Join(lines, ""))
}
