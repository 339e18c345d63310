package state

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Snapshot is what a State holds at one moment, in figures alone. Metrics are
// made of it.
type Snapshot struct {
	Decisions uint64            // the number of the newest, 0 before the first
	Last      time.Time         // its journal time, zero before the first
	Channels  []ChannelSnapshot // of the definitions, in their order
	// Sessions tells of each Controller whether its session is open: neither closed nor idle.
	Sessions map[bcp.AgentName]bool
	// Unavailable tells of each agent with a command whether that could not be started, and
	// the agent is not there.
	Unavailable map[bcp.AgentName]bool
	Models      map[bcp.AgentName]ModelSnapshot // of each agent with a model
	Kernels     []bcp.AgentName                 // of the definitions
	Held        map[HeldKey]HeldSnapshot        // only keys of which something waits
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
}

// HeldKey says what waits for a person: items of a kind on a channel, or calls of the runs
// of a kernel, which is the Controller of a key without a Reader.
type HeldKey struct {
	bcp.ChannelKey
	Kind bcp.ItemKind
}

// HeldSnapshot counts items that wait for a person.
type HeldSnapshot struct {
	Items  int
	Oldest time.Time
}

// ModelSnapshot is why the model of an agent fails, and since when; no fault if it works.
type ModelSnapshot struct {
	bcp.ModelFault
	Since time.Time
}

// Snapshot returns the figures of now. They follow from the journal alone, so
// that they are the same after a restart.
func (s *State) Snapshot(now time.Time) Snapshot {
	snapshot := Snapshot{
		Decisions: s.last.Seq, Held: s.held(),
		Sessions: map[bcp.AgentName]bool{}, Unavailable: map[bcp.AgentName]bool{}, Models: map[bcp.AgentName]ModelSnapshot{},
	}
	if s.last.Seq > 0 {
		snapshot.Last = time.Unix(0, s.last.Time).UTC()
	}
	for i := range s.mesh.Channels {
		key := s.mesh.Channels[i].ChannelKey
		snapshot.Channels = append(snapshot.Channels, s.channelSnapshot(s.channels[key], s.now(bcp.Moment{Now: now})))
	}
	for i := range s.mesh.Agents {
		definition := &s.mesh.Agents[i]
		a := s.agents[definition.Name]
		if definition.Controller {
			session := s.sessionAt(a, now.UnixNano())
			snapshot.Sessions[definition.Name] = session.openAt(now.UnixNano(), int64(s.mesh.IdleTimeout))
		}
		if definition.Supervised() {
			snapshot.Unavailable[definition.Name] = a.unavailable
		}
		if definition.AsksModel() {
			fault, since := s.ModelFault(definition.Name)
			snapshot.Models[definition.Name] = ModelSnapshot{fault, since}
		}
	}
	for i := range s.mesh.Kernels {
		snapshot.Kernels = append(snapshot.Kernels, s.mesh.Kernels[i].Kernel)
	}
	return snapshot
}

// held counts what waits for a person: of a run one, whatever it asks about together.
func (s *State) held() map[HeldKey]HeldSnapshot {
	held := make(map[HeldKey]HeldSnapshot)
	count := func(key HeldKey, since time.Time) {
		h := held[key]
		if h.Items == 0 || since.Before(h.Oldest) {
			h.Oldest = since
		}
		h.Items++
		held[key] = h
	}
	for _, it := range s.items {
		if s.channels[it.Channel()] != nil {
			count(HeldKey{it.Channel(), it.Kind}, it.Since)
		}
	}
	s.runs.EachHeld(func(kernel bcp.AgentName, kind bcp.ItemKind, since time.Time) {
		count(HeldKey{bcp.ChannelKey{Controller: kernel}, kind}, since)
	})
	return held
}

func (s *State) channelSnapshot(ch *channelState, now int64) ChannelSnapshot {
	epoch := ch.decisionEpoch(&bcp.Decision{Time: now})
	definition, pool := &ch.definition, ch.pool(epoch)
	c := ChannelSnapshot{
		ChannelKey: definition.ChannelKey, Epoch: epoch,
		Budget: definition.Budget, Left: max(0, definition.Budget-pool.Spent()),
		PushBudget: definition.PushBudget, Pushed: pool.Pushed,
		CapacityBudget: definition.CapacityBudget, CapacityLeft: max(0, definition.CapacityBudget-pool.SpentCapacity()),
		WindowBudget: definition.WindowBudget, WindowLeft: max(0, definition.WindowBudget-ch.window.sum(now)-ch.reserved()),
		Undelivered: len(ch.outbox),
	}
	for _, p := range ch.pools {
		c.OpenQueries += p.open
	}
	return c
}

// Sessions returns the sessions of all Controllers, sorted by name.
func (s *State) Sessions(now time.Time) []bcp.SessionView {
	views := []bcp.SessionView{}
	for _, definition := range s.mesh.Agents {
		if !definition.Controller {
			continue
		}
		a := s.agents[definition.Name]
		session := s.sessionAt(a, now.UnixNano())
		v := bcp.SessionView{Controller: definition.Name, Status: "none", Taint: bcp.MaxTaint(definition.BaseTaint, a.reported), Sources: a.sources,
			Exposure: session.exposure, Channels: []bcp.SessionChannel{}}
		if session.begun {
			v.Session, v.Status, v.BegunBy = session.id, "open", "controller"
			v.Since, v.Touched = time.Unix(0, session.since).UTC(), time.Unix(0, min(session.touched, now.UnixNano())).UTC()
			switch {
			case session.closed:
				v.Status = "closed"
			case !session.openAt(now.UnixNano(), int64(s.mesh.IdleTimeout)):
				v.Status = "idle"
			}
			if session.byDelivery {
				v.BegunBy = "delivery"
			}
		}
		for _, ch := range a.asks {
			v.Channels = append(v.Channels, s.sessionChannel(ch, session.id, now))
		}
		views = append(views, v)
	}
	return views
}

func (s *State) sessionChannel(ch *channelState, session bcp.SessionID, at time.Time) bcp.SessionChannel {
	now := s.channelSnapshot(ch, at.UnixNano())
	c := bcp.SessionChannel{Reader: now.Reader, Epoch: now.Epoch, Remaining: now.Left, MaxEscalations: ch.definition.MaxEscalations, Waiting: now.Undelivered, Open: now.OpenQueries}
	for _, it := range s.items {
		if it.Channel() == ch.definition.ChannelKey {
			c.Held++
		}
	}
	if ch.session == session {
		c.Escalations, c.Failed = ch.escalations, ch.failed
	}
	return c
}
