package bcp_test

import (
	"flag"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

var exactSlots = flag.Int("exact-slots", 0, "how many release slots TestEverythingThatAControllerHearsIsCharged plays beyond those of each game")

const (
	gameSlot = 10 * time.Second
	askYes   = `{"category":1,"fields":[{"name":"ok","type":"boolean"}]}`
	askMust  = `{"category":1,"fields":[{"name":"ok","type":"boolean"}],"allow_not_enough_information":false}`
	askFour  = `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":3}]}`
	askOne   = `{"category":1,"fields":[{"name":"x","type":"enum","values":["x"]}]}`
	askOdd   = `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":3}],"constraints":["n < 2"]}`
	askWord  = `{"category":2,"questions":[{"id":"q","question":"Who?","max_words":1,"expected_format":"person_name"}]}`
	askSum   = `{"category":3,"directive":"Tell.","max_words":2,"escalation":{"justification":"The task needs it."}}`
)

// game is one of those that are played, by the name of what it looks for.
type game struct {
	name  string
	slots int // that are played
	ticks int // of each
	edit  func(*bcp.Mesh)
	moves func(p *bcptest.Position) []bcptest.Move
	act   func(p *bcptest.Position)
	most  float64 // the weight of everything: 1, or 2 with subscriptions
	free  bool    // nothing but silence is free of charge
}

// gameMesh has a Controller and two Readers, small in everything.
func gameMesh() *bcp.Mesh {
	mesh := &bcp.Mesh{Name: "game", TimeZone: time.UTC, IdleTimeout: time.Hour, MaxRefusals: 1 << 20}
	for _, name := range []bcp.AgentName{"mail", "main", "web"} {
		a := bcp.Agent{Name: name, Encoding: bcp.JSON, BaseTaint: bcp.TaintLow, MaxConnections: 1, Controller: name == "main", Reader: name != "main"}
		mesh.Agents = append(mesh.Agents, a)
	}
	for _, reader := range []bcp.AgentName{"mail", "web"} {
		mesh.Channels = append(mesh.Channels, bcp.Channel{
			ChannelKey: bcp.ChannelKey{Controller: "main", Reader: reader}, MaxCategory: 3, Budget: 1000 * bcp.Bit, PushBudget: 1000 * bcp.Bit,
			MaxCat2Queries: -1, MaxEscalations: 2, BaseCategory: 2, QueryTTL: 2 * gameSlot, BudgetWindow: 24 * time.Hour, ReleaseInterval: gameSlot,
			MaxPendingApprovals: 20, ApprovalTTL: 2 * gameSlot, Approvers: []bcp.AgentName{"mia"},
		})
	}
	return mesh
}

func channelOf(m *bcp.Mesh, reader bcp.AgentName) *bcp.Channel {
	return &m.Channels[slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Reader == reader })]
}

func subscribe(m *bcp.Mesh, reader bcp.AgentName, id bcp.SubscriptionID, spec string) *bcp.Subscription {
	c := channelOf(m, reader)
	parsed, err := bcp.ParseSpec([]byte(spec))
	if err != nil {
		panic(err)
	}
	c.Subscriptions = append(c.Subscriptions, bcp.Subscription{ID: id, Spec: parsed})
	return &c.Subscriptions[len(c.Subscriptions)-1]
}

func nothing(*bcptest.Position) {}

// either offers nothing, and each answer to the nth query while it is open.
func answers(p *bcptest.Position, moves []bcptest.Move, n int, responses ...string) []bcptest.Move {
	if n >= len(p.Queries) {
		return moves
	}
	if _, _, _, open := p.State().Open(p.Queries[n]); !open {
		return moves
	}
	for _, response := range responses {
		moves = append(moves, func(p *bcptest.Position) { p.Answer(n, response) })
	}
	return moves
}

func pushes(moves []bcptest.Move, reader bcp.AgentName, id bcp.SubscriptionID, responses ...string) []bcptest.Move {
	for _, response := range responses {
		moves = append(moves, func(p *bcptest.Position) { p.Push(reader, id, response) })
	}
	return moves
}

// askOnce asks the first question at once, and the second again and again until
// it is accepted.
func askOnce(question, poll string) func(p *bcptest.Position) {
	return func(p *bcptest.Position) {
		if first(p) {
			p.Ask("mail", question)
		} else if len(p.Queries) < 2 {
			p.Ask("mail", poll)
		}
	}
}

// capacityOf is what a question reserves.
func capacityOf(m *bcp.Mesh, c *bcp.Channel, question string) bcp.Bits {
	spec, err := bcp.ParseSpec([]byte(question))
	if err != nil {
		panic(err)
	}
	v, err := bcp.Compile(spec, c.Settings(m, nil, nil))
	if err != nil {
		panic(err)
	}
	return v.Prices().Reserve()
}

// first is true at the tick at which a Controller begins.
func first(p *bcptest.Position) bool { return p.Tick == 0 }

// pushing offers one push, two, or none.
func pushing(reader bcp.AgentName, id bcp.SubscriptionID, responses ...string) []bcptest.Move {
	moves := pushes([]bcptest.Move{nothing}, reader, id, responses...)
	for i, one := range responses {
		for _, other := range responses[i:] {
			moves = append(moves, func(p *bcptest.Position) {
				p.Push(reader, id, one)
				p.Push(reader, id, other)
			})
		}
	}
	return moves
}

// judging offers an approval and a rejection of each item that waits.
func judging(p *bcptest.Position, moves []bcptest.Move) []bcptest.Move {
	for n := range p.Items {
		if slices.ContainsFunc(p.State().Items(), func(it bcp.Item) bool { return it.ID == p.Items[n] }) {
			moves = append(moves, func(p *bcptest.Position) { p.Judge(n, bcp.Approve) }, func(p *bcptest.Position) { p.Judge(n, bcp.RejectItem) })
		}
	}
	return moves
}

const yes, no, nei = `{"ok":true}`, `{"ok":false}`, "not_enough_information"

var games = []game{
	{name: "a reservation of bits that comes back, and a question that waits for it", slots: 3, ticks: 4,
		edit: func(m *bcp.Mesh) { channelOf(m, "mail").Budget = 2*bcp.Bit + bcp.Bit/2 },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, nei, `{"n":"junk"}`)
		},
		act: askOnce(askFour, askMust)},
	{name: "a reservation of capacity that comes back, and a question that waits for it", slots: 3, ticks: 4,
		edit: func(m *bcp.Mesh) {
			c := channelOf(m, "mail")
			c.CapacityBudget = capacityOf(m, c, askYes) + capacityOf(m, c, askMust) - bcp.Bit/4
		},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: askOnce(askYes, askMust)},
	{name: "a reservation of the window that comes back", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := channelOf(m, "mail")
			c.WindowBudget, c.BudgetWindow = 2*bcp.Bit+bcp.Bit/2, 64*time.Second
		},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, `{"n":0}`, nei)
		},
		act: askOnce(askFour, askMust)},
	{name: "a reservation that comes back to the total budget", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) { m.Agents[1].TotalBudget = 2*bcp.Bit + bcp.Bit/2 },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, `{"n":0}`, nei)
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askFour)
			} else if len(p.Queries) < 2 {
				p.Ask("web", askMust)
			}
		}},
	{name: "a reservation that comes back where pushes have taken its room", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget = 4 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, pushes([]bcptest.Move{nothing}, "mail", "alarm", yes), 0, nei)
		},
		act: func(p *bcptest.Position) {
			if p.Tick == 0 || p.Tick == 4 {
				p.Ask("mail", askFour)
			}
		}, most: 2},
	{name: "a window that gives back within a slot", slots: 4, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := channelOf(m, "mail")
			c.WindowBudget, c.BudgetWindow = 2*bcp.Bit, 14*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			if p.Tick == 6 {
				p.Ask("mail", askMust)
			}
		}, most: 2},
	{name: "two subscriptions that say nothing but which of them it is", slots: 4, ticks: 1,
		edit: func(m *bcp.Mesh) {
			subscribe(m, "mail", "left", askOne)
			subscribe(m, "mail", "right", askOne)
		},
		moves: func(*bcptest.Position) []bcptest.Move {
			return pushes(pushes([]bcptest.Move{nothing}, "mail", "left", `{"x":"x"}`), "mail", "right", `{"x":"x"}`)
		},
		act: func(p *bcptest.Position) { p.Look() }, most: 2, free: true},
	{name: "a question with one answer", slots: 3, ticks: 1,
		edit: func(m *bcp.Mesh) {},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, `{"x":"x"}`, nei, `{"x":"junk"}`)
		},
		act: askOnce(askOne, askOne), free: true},
	{name: "a boolean asked and pushed", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { subscribe(m, "mail", "alarm", askYes) },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, pushes([]bcptest.Move{nothing}, "mail", "alarm", yes, no), 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askYes)
			}
			p.Look()
		}, most: 2},
	{name: "pushes that use up the budget, and questions that find it so", slots: 2, ticks: 3,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget, channelOf(m, "mail").PushBudget = 5*bcp.Bit, 4*bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushing("mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			if p.Tick%3 == 1 {
				p.Ask("mail", askFour)
			}
			p.Ask("mail", askMust)
		}, most: 2},
	{name: "pushes that use up the capacity budget", slots: 2, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := channelOf(m, "mail")
			c.CapacityBudget = 20 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushing("mail", "alarm", yes) },
		act:   func(p *bcptest.Position) { p.Ask("mail", askMust) }, most: 2},
	{name: "pushes that use up the window", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			c := channelOf(m, "mail")
			c.WindowBudget, c.BudgetWindow = 3*bcp.Bit, 12*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushing("mail", "alarm", yes) },
		act:   func(p *bcptest.Position) { p.Ask("mail", askMust) }, most: 2},
	{name: "a Controller that renews in every slot", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget = 2 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			if p.Tick%2 == 0 {
				p.Session("close")
				p.Session("open")
			}
			p.Ask("mail", askMust)
			p.Look()
		}, most: 2},
	{name: "a Controller that renews within a slot", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			switch p.Tick {
			case 0:
				p.Ask("mail", askMust)
			case 4:
				p.Session("close")
				p.Session("open")
				p.Ask("mail", askMust)
			}
			p.Look()
		}, most: 2},
	{name: "a Controller that renews within a slot and asks in the next", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			switch p.Tick {
			case 0:
				p.Ask("mail", askMust)
			case 4:
				p.Session("close")
				p.Session("open")
			case 7:
				p.Ask("mail", askMust)
			}
			p.Look()
		}, most: 2},
	{name: "an epoch that time renews", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget, channelOf(m, "mail").BudgetRenew = 2*bcp.Bit, 15*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			p.Ask("mail", askMust)
			p.Look()
		}, most: 2},
	{name: "a session that only deliveries keep", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout = 9 * time.Second
			channelOf(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			if p.Tick%3 == 0 {
				p.Ask("mail", askMust)
			}
			p.Look()
		}, most: 2},
	{name: "a session that is opened and closed while something waits", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout = 9 * time.Second
			channelOf(m, "mail").Budget = 2 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*bcptest.Position) []bcptest.Move { return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes) },
		act: func(p *bcptest.Position) {
			p.Session([]string{"open", "close"}[p.Tick%2])
			p.Look()
		}, most: 2},
	{name: "an answer that a person decides", slots: 4, ticks: 2,
		edit: func(*bcp.Mesh) {},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return judging(p, answers(p, []bcptest.Move{nothing}, 0, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, nei, `{"n":"junk"}`))
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askOdd)
			}
			p.Look()
		}},
	{name: "a push that a person decides, and a queue of one", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").MaxPendingApprovals, channelOf(m, "mail").Budget = 1, 6*bcp.Bit
			subscribe(m, "mail", "odd", askOdd)
		},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return judging(p, pushes([]bcptest.Move{nothing}, "mail", "odd", `{"n":0}`, `{"n":3}`))
		},
		act: func(p *bcptest.Position) { p.Ask("mail", askMust) }, most: 2},
	{name: "a summary, its gate and its content", slots: 4, ticks: 1,
		edit: func(*bcp.Mesh) {},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return judging(p, answers(p, []bcptest.Move{nothing}, 0, `{"summary":"a"}`, nei, `{"summary":"a b c"}`))
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askSum)
			}
			p.Look()
		}},
	{name: "flagged answers", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { channelOf(m, "mail").OnAnomaly = bcp.AnomalyFlag },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, `{"q":"ada"}`, `{"q":"ADA"}`, `{"q":"ignore"}`, nei)
		},
		act: askOnce(askWord, askMust)},
	{name: "a window of pushes", slots: 5, ticks: 1,
		edit: func(m *bcp.Mesh) {
			channelOf(m, "mail").Budget = 6 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes).BatchWindow = 2 * gameSlot
		},
		moves: func(*bcptest.Position) []bcptest.Move {
			return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes, no)
		},
		act: func(p *bcptest.Position) { p.Ask("mail", askMust) }, most: 2},
	{name: "a rate", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			subscribe(m, "mail", "alarm", askYes).MaxRate = bcp.Rate{Count: 1, Span: time.Second}
		},
		moves: func(*bcptest.Position) []bcptest.Move {
			return pushes([]bcptest.Move{nothing}, "mail", "alarm", yes, no)
		},
		act: func(p *bcptest.Position) { p.Look() }, most: 2},
	{name: "retries", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { channelOf(m, "mail").MaxRetries = 1 },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askYes)
			}
			p.Look()
		}},
	{name: "a Controller that asks by what it heard", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) { channelOf(m, "mail").Budget = 5 * bcp.Bit },
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, answers(p, []bcptest.Move{nothing}, 0, yes, nei), 1, yes, nei)
		},
		act: func(p *bcptest.Position) {
			switch {
			case first(p):
				p.Ask("mail", askYes)
			case len(p.Queries) == 1 && strings.Contains(p.Heard[len(p.Heard)-1], "true"):
				p.Ask("mail", askFour)
			case len(p.Queries) == 1 && strings.Contains(p.Heard[len(p.Heard)-1], "outcome"):
				p.Ask("mail", askMust)
			}
			p.Look()
		}},
	{name: "an escalation that a failure arms", slots: 3, ticks: 3,
		edit: func(*bcp.Mesh) {},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, []bcptest.Move{nothing}, 0, yes, nei, `{"ok":"junk"}`)
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("mail", askYes)
			} else if len(p.Queries) < 2 && p.Tick%3 == 2 {
				p.Ask("mail", askWord)
			}
			p.Look()
		}},
	{name: "a Reader that cannot be started", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { channelOf(m, "mail").Budget = 4 * bcp.Bit },
		moves: func(*bcptest.Position) []bcptest.Move {
			return []bcptest.Move{nothing, func(p *bcptest.Position) { p.Process("mail", bcp.ProcessUnavailable) }, func(p *bcptest.Position) { p.Process("mail", bcp.ProcessStarted) }}
		},
		act: func(p *bcptest.Position) { p.Ask("mail", askMust) }},
	{name: "two channels with slots of their own, one session and one total budget", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout, m.Agents[1].TotalBudget = 9*time.Second, 8*bcp.Bit
			channelOf(m, "web").ReleaseInterval = 15 * time.Second
			subscribe(m, "mail", "alarm", askYes)
			subscribe(m, "web", "alarm", askYes)
		},
		moves: func(p *bcptest.Position) []bcptest.Move {
			return answers(p, pushes(pushes([]bcptest.Move{nothing}, "mail", "alarm", yes), "web", "alarm", yes), 0, `{"n":1}`, nei)
		},
		act: func(p *bcptest.Position) {
			if first(p) {
				p.Ask("web", askFour)
			} else {
				p.Ask("mail", askMust)
			}
		}, most: 4},
}

// Everything that a Controller can hear, whatever the Readers and people do and
// however often it asks within a slot, weighs at most 1, and at most 2 where the
// Readers can push; the charge is a function of what it heard; nothing but silence
// is free.
//
// covers P4.1, P4.2, P5, P9.6, A-TIME, A-NEI, A-SUBSEL, A-FREE, A-EXHAUST, A-RACE
func TestEverythingThatAControllerHearsIsCharged(t *testing.T) {
	t.Parallel()
	for _, g := range effort.Sample(games, 4) {
		t.Run(strings.ReplaceAll(g.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			mesh := gameMesh()
			g.edit(mesh)
			begin := time.Unix(1_800_000_000, 0)
			var ticks []time.Time
			for slot := range g.slots + *exactSlots {
				at := begin.Add(time.Duration(slot) * gameSlot)
				for tick := range g.ticks {
					ticks = append(ticks, at.Add(time.Duration(tick+1)*gameSlot/time.Duration(g.ticks+1)))
				}
			}
			began := time.Now()
			got, err := (&bcptest.Game{Config: bcp.Config{Mesh: mesh, Constraints: constraint.Compile}, Controller: "main", Ticks: ticks, End: begin.Add(time.Duration(g.slots+*exactSlots+4) * gameSlot), Moves: g.moves, Act: g.act}).Search()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d strategies, %d transcripts, weight %.6f, %d of them free, in %s", got.Strategies, got.Transcripts, got.Weight, got.Free, time.Since(began).Round(time.Millisecond))
			most := g.most
			if most == 0 {
				most = 1
			}
			if got.Weight.Cmp(big.NewFloat(most)) > 0 {
				t.Errorf("what the Controller can hear weighs %.6f, more than %v", got.Weight, most)
			}
			if got.Ambiguous != "" {
				t.Errorf("one transcript, two charges: %s", got.Ambiguous)
			}
			if got.Clock != "" {
				t.Errorf("the Controller has a clock: %s", got.Clock)
			}
			if g.free && got.Free > 1 {
				t.Errorf("%d transcripts are free of charge", got.Free)
			}
		})
	}
}
