package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Snapshot is what a State holds at one moment, in figures alone. Metrics are
// made of it.
type Snapshot struct {
	Decisions uint64    // the number of the newest, 0 before the first
	Last      time.Time // its journal time, zero before the first
	// Channels and Controllers are those of the definitions, in their order.
	Channels    []ChannelSnapshot
	Controllers []ControllerSnapshot
	// Commands tells of each agent with a command whether it can be started.
	Commands []CommandSnapshot
}

// ChannelSnapshot is one channel. All bits are of the epoch that the next charge
// belongs to, except those of the window.
type ChannelSnapshot struct {
	bcp.ChannelKey
	Epoch        uint64
	Budget, Left bcp.Bits
	// PushBudget is the part of Budget that pushes may take, Pushed what they
	// took.
	PushBudget, Pushed bcp.Bits
	// CapacityBudget is 0 where the channel has none, WindowBudget where it is
	// switched off.
	CapacityBudget, CapacityLeft bcp.Bits
	WindowBudget, WindowLeft     bcp.Bits

	OpenQueries int // accepted, and without an answer: also those at their gate
	Undelivered int // deliveries that the Controller has not acknowledged
	Held        []HeldSnapshot
}

// HeldSnapshot is what waits for a person on one channel: there is one for each
// kind, in the order of [bcp.ItemKinds].
type HeldSnapshot struct {
	Kind   bcp.ItemKind
	Items  int
	Oldest time.Time // zero where there is none
}

// ControllerSnapshot is one Controller.
type ControllerSnapshot struct {
	Controller bcp.AgentName
	Open       bool // its session, which is neither closed nor idle
}

// CommandSnapshot is one agent with a command.
type CommandSnapshot struct {
	Agent       bcp.AgentName
	Unavailable bool // the command could not be started, and the agent is not there
}

// Snapshot returns the figures of now. They follow from the journal alone, so
// that they are the same after a restart.
func (s *State) Snapshot(now time.Time) Snapshot {
	snapshot := Snapshot{Decisions: s.last.Seq}
	if s.last.Seq > 0 {
		snapshot.Last = time.Unix(0, s.last.Time).UTC()
	}
	held := s.held()
	for i := range s.mesh.Channels {
		key := s.mesh.Channels[i].ChannelKey
		snapshot.Channels = append(snapshot.Channels, s.channelSnapshot(s.channels[key], s.now(bcp.Moment{Now: now}), held[key]))
	}
	for i := range s.mesh.Agents {
		definition := &s.mesh.Agents[i]
		a := s.agents[definition.Name]
		if definition.Controller {
			session := s.sessionAt(a, now.UnixNano())
			open := session.openAt(now.UnixNano(), int64(s.mesh.IdleTimeout))
			snapshot.Controllers = append(snapshot.Controllers, ControllerSnapshot{definition.Name, open})
		}
		if definition.Supervised() {
			snapshot.Commands = append(snapshot.Commands, CommandSnapshot{definition.Name, a.unavailable})
		}
	}
	return snapshot
}

// held counts the items of each channel, in the order of ItemKinds.
func (s *State) held() map[bcp.ChannelKey][]HeldSnapshot {
	held := make(map[bcp.ChannelKey][]HeldSnapshot)
	for _, it := range s.items {
		kinds := held[it.Channel()]
		if kinds == nil {
			kinds = noneHeld()
			held[it.Channel()] = kinds
		}
		for i := range kinds {
			if kinds[i].Kind != it.Kind {
				continue
			}
			kinds[i].Items++
			if kinds[i].Oldest.IsZero() || it.Since.Before(kinds[i].Oldest) {
				kinds[i].Oldest = it.Since
			}
		}
	}
	return held
}

func noneHeld() []HeldSnapshot {
	kinds := make([]HeldSnapshot, 0, len(bcp.ItemKinds()))
	for _, kind := range bcp.ItemKinds() {
		kinds = append(kinds, HeldSnapshot{Kind: kind})
	}
	return kinds
}

func (s *State) channelSnapshot(ch *channelState, now int64, held []HeldSnapshot) ChannelSnapshot {
	if held == nil {
		held = noneHeld()
	}
	epoch := ch.decisionEpoch(&bcp.Decision{Time: now})
	definition, pool := &ch.definition, ch.pool(epoch)
	c := ChannelSnapshot{
		ChannelKey: definition.ChannelKey, Epoch: epoch,
		Budget: definition.Budget, Left: max(0, definition.Budget-pool.Spent()),
		PushBudget: definition.PushBudget, Pushed: pool.Pushed,
		CapacityBudget: definition.CapacityBudget, CapacityLeft: max(0, definition.CapacityBudget-pool.SpentCapacity()),
		WindowBudget: definition.WindowBudget, WindowLeft: max(0, definition.WindowBudget-ch.window.sum(now)-ch.reserved()),
		Undelivered: len(ch.outbox), Held: held,
	}
	for _, p := range ch.pools {
		c.OpenQueries += p.open
	}
	return c
}
