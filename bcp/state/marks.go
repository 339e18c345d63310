package state

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// definitionDigests cover what [State.Apply] reads of the definitions, and so what a
// checkpoint depends on. Only future decisions read the rest: budgets, limits and
// people change without a word of history.
type definitionDigests struct {
	mesh     bcp.Digest
	channels map[bcp.ChannelKey]bcp.Digest
}

func hashMark(values ...any) bcp.Digest {
	return sha256.Sum256([]byte(fmt.Sprintf(strings.Repeat("%#v\n", len(values)), values...)))
}

// readMarks has a line for each thing that Apply reads: TestMarks changes every
// field of the definitions and looks whether a replay differs.
func (s *State) readMarks(c Config) definitionDigests {
	mesh := []any{Versions(c.Version), s.rules.Digest(), int64(s.mesh.IdleTimeout), fmt.Sprint(s.mesh.TimeZone), c.Constraints != nil}
	for _, name := range slices.Sorted(maps.Keys(s.mesh.Vocabularies)) {
		mesh = append(mesh, name, s.mesh.Vocabularies[name])
	}
	for i := range s.crons { // by their places in the list
		cron := &s.crons[i]
		mesh = append(mesh, cron.agent, cron.role, cron.Schedule, cron.Message)
	}
	m := definitionDigests{mesh: hashMark(mesh...), channels: make(map[bcp.ChannelKey]bcp.Digest)}
	for key, ch := range s.channels {
		d := &ch.definition
		channel := []any{int64(d.ReleaseInterval), int64(d.BudgetWindow), int64(d.AlertBits), uint8(d.OnAnomaly), d.PreserveCase,
			ch.settings.ReleaseSlots, ch.settings.ApprovalSlots}
		for _, id := range slices.Sorted(maps.Keys(ch.pushes)) { // so many times are remembered
			if count := ch.pushes[id].rate.Count; count > 0 {
				channel = append(channel, id, count)
			}
		}
		m.channels[key] = hashMark(channel...)
	}
	return m
}

// undefinedNames are in the history and not in the definitions: their state is not
// known here, and a checkpoint cannot tell it to definitions that have them.
type undefinedNames struct {
	agents   map[bcp.AgentName]bool
	channels map[bcp.ChannelKey]bool
}

func newUndefinedNames() undefinedNames {
	return undefinedNames{make(map[bcp.AgentName]bool), make(map[bcp.ChannelKey]bool)}
}

// noteUndefined leaves out who is named without a trace: what credentials are of, people,
// and whose channel is erased that had nothing.
func (s *State) noteUndefined(d *bcp.Decision) {
	names := [...]bcp.AgentName{d.Agent, d.Controller, d.Reader, d.Target}
	switch {
	case d.Kind == bcp.KindCredential, d.Kind == bcp.KindErase:
		clear(names[:])
	case d.Role != 0 && !d.Role.IsAgent() && d.Role != bcp.RoleKeeper:
		names[0] = ""
	}
	for _, name := range names {
		if name != "" && s.agents[name] == nil {
			s.foreign.agents[name] = true
		}
	}
	if key, ok := d.Channel(); ok && s.channels[key] == nil {
		s.foreign.channels[key] = true
	}
}
