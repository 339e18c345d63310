package exact

import (
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	gameSlot = 10 * time.Second
	askYes   = `{"category":1,"fields":[{"name":"ok","type":"boolean"}]}`
	askMust  = `{"category":1,"fields":[{"name":"ok","type":"boolean"}],"allow_not_enough_information":false}`
	askFour  = `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":3}]}`
	askOne   = `{"category":1,"fields":[{"name":"x","type":"enum","values":["x"]}]}`
	askOdd   = `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":3}],"constraints":["n < 2"]}`
	// All but one of its answers are held.
	askMostlyOdd = `{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":3}],"constraints":["n < 1"]}`
	askWord      = `{"category":2,"questions":[{"id":"q","question":"Who?","max_words":1,"expected_format":"person_name"}]}`
	askSum       = `{"category":3,"directive":"Tell.","max_words":2,"escalation":{"justification":"The task needs it."}}`
)

// Configuration is a mesh and a strategy of its Controller, named after what it
// looks for.
type Configuration struct {
	ID   string // never changes its meaning
	Text string

	slots int // number to play
	ticks int // of each
	edit  func(*bcp.Mesh)
	moves func(p *Position) []Move
	act   func(p *Position)
	most  int64 // the weight of everything: 1, or 2 for each channel with subscriptions
	// planner: what the planner of a kernel hears is counted. Errors are charged, that there
	// is none is not: as many things can be heard as the greatest charge has bits for.
	planner bool
	free    bool // nothing but silence is free of charge
	more    bool // a transcript may be charged more in another play: held items are charged, and not always seen
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
			MaxPendingApprovals: 20, MaxJustificationChars: 100, MaxJustificationWords: 10, ApprovalTTL: 2 * gameSlot, Approvers: []bcp.AgentName{"mia"},
		})
	}
	return mesh
}

func findChannel(m *bcp.Mesh, reader bcp.AgentName) *bcp.Channel {
	return &m.Channels[slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Reader == reader })]
}

func subscribe(m *bcp.Mesh, reader bcp.AgentName, id bcp.SubscriptionID, spec string) *bcp.Subscription {
	c := findChannel(m, reader)
	parsed, err := bcp.ParseSpec([]byte(spec))
	if err != nil {
		panic(err)
	}
	c.Subscriptions = append(c.Subscriptions, bcp.Subscription{ID: id, Spec: parsed})
	return &c.Subscriptions[len(c.Subscriptions)-1]
}

func doNothing(*Position) {}

func unavailable(p *Position) { p.Process("mail", bcp.ProcessUnavailable) }

// either offers nothing, and each answer to the nth query while it is open.
func answers(p *Position, moves []Move, n int, responses ...string) []Move {
	if n >= len(p.Queries) {
		return moves
	}
	if _, _, _, open := p.State().Open(p.Queries[n]); !open {
		return moves
	}
	for _, response := range responses {
		moves = append(moves, func(p *Position) { p.Answer(n, response) })
	}
	return moves
}

func pushes(moves []Move, reader bcp.AgentName, id bcp.SubscriptionID, responses ...string) []Move {
	for _, response := range responses {
		moves = append(moves, func(p *Position) { p.Push(reader, id, response) })
	}
	return moves
}

// askOnce asks the first question at once, and repeats the second until it is
// accepted.
func askOnce(question, poll string) func(p *Position) {
	return func(p *Position) {
		if first(p) {
			p.Ask("mail", question)
		} else if len(p.Queries) < 2 {
			p.Ask("mail", poll)
		}
	}
}

// reservedBits returns the reservation of a question.
func reservedBits(m *bcp.Mesh, c *bcp.Channel, question string) bcp.Bits {
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
func first(p *Position) bool { return p.Tick == 0 }

// pushing offers one push, two, or none.
func pushing(reader bcp.AgentName, id bcp.SubscriptionID, responses ...string) []Move {
	moves := pushes([]Move{doNothing}, reader, id, responses...)
	for i, one := range responses {
		for _, other := range responses[i:] {
			moves = append(moves, func(p *Position) {
				p.Push(reader, id, one)
				p.Push(reader, id, other)
			})
		}
	}
	return moves
}

// judging offers an approval and a rejection of each waiting item.
func judging(p *Position, moves []Move) []Move {
	for n := range p.Items {
		if slices.ContainsFunc(p.State().Items(), func(it bcp.Item) bool { return it.ID == p.Items[n] }) {
			moves = append(moves, func(p *Position) { p.Judge(n, bcp.Approve) }, func(p *Position) { p.Judge(n, bcp.RejectItem) })
		}
	}
	return moves
}

const yes, no, nei = `{"ok":true}`, `{"ok":false}`, "not_enough_information"

// Configurations returns those to play.
func Configurations() []Configuration { return slices.Clone(configurations) }

var configurations = []Configuration{
	{ID: "X-BITS", Text: "a reservation of bits that comes back, and a question that waits for it", slots: 3, ticks: 4,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").Budget = 2*bcp.Bit + bcp.Bit/2 },
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, nei, `{"n":"junk"}`)
		},
		act: askOnce(askFour, askMust)},
	{ID: "X-CAPACITY", Text: "a reservation of capacity that comes back, and a question that waits for it", slots: 3, ticks: 4,
		edit: func(m *bcp.Mesh) {
			c := findChannel(m, "mail")
			c.CapacityBudget = reservedBits(m, c, askYes) + reservedBits(m, c, askMust) - bcp.Bit/4
		},
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: askOnce(askYes, askMust)},
	{ID: "X-WINDOW", Text: "a reservation of the window that comes back", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := findChannel(m, "mail")
			c.WindowBudget, c.BudgetWindow = 2*bcp.Bit+bcp.Bit/2, 64*time.Second
		},
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, `{"n":0}`, nei)
		},
		act: askOnce(askFour, askMust)},
	{ID: "X-TOTAL", Text: "a reservation that comes back to the total budget", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) { m.Agents[1].TotalBudget = 2*bcp.Bit + bcp.Bit/2 },
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, `{"n":0}`, nei)
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askFour)
			} else if len(p.Queries) < 2 {
				p.Ask("web", askMust)
			}
		}},
	{ID: "X-ROOM", Text: "a reservation that comes back where pushes have taken its room", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget = 4 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(p *Position) []Move {
			return answers(p, pushes([]Move{doNothing}, "mail", "alarm", yes), 0, nei)
		},
		act: func(p *Position) {
			if p.Tick == 0 || p.Tick == 4 {
				p.Ask("mail", askFour)
			}
		}, most: 2},
	{ID: "X-WINDOWBACK", Text: "a window that gives back within a slot", slots: 4, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := findChannel(m, "mail")
			c.WindowBudget, c.BudgetWindow = 2*bcp.Bit, 14*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
			if p.Tick == 6 {
				p.Ask("mail", askMust)
			}
		}, most: 2},
	{ID: "X-WHICH", Text: "two subscriptions that say nothing but which of them it is", slots: 4, ticks: 1,
		edit: func(m *bcp.Mesh) {
			subscribe(m, "mail", "left", askOne)
			subscribe(m, "mail", "right", askOne)
		},
		moves: func(*Position) []Move {
			return pushes(pushes([]Move{doNothing}, "mail", "left", `{"x":"x"}`), "mail", "right", `{"x":"x"}`)
		},
		act: func(p *Position) { p.Look() }, most: 2, free: true},
	{ID: "X-ONE", Text: "a question with one answer", slots: 3, ticks: 1,
		edit: func(m *bcp.Mesh) {},
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, `{"x":"x"}`, nei, `{"x":"junk"}`)
		},
		act: askOnce(askOne, askOne), free: true},
	{ID: "X-BOTH", Text: "a boolean asked and pushed", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { subscribe(m, "mail", "alarm", askYes) },
		moves: func(p *Position) []Move {
			return answers(p, pushes([]Move{doNothing}, "mail", "alarm", yes, no), 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askYes)
			}
			p.Look()
		}, most: 2},
	{ID: "X-PUSHBITS", Text: "pushes that use up the budget, and questions that find it so", slots: 2, ticks: 3,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget, findChannel(m, "mail").PushBudget = 5*bcp.Bit, 4*bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushing("mail", "alarm", yes) },
		act: func(p *Position) {
			if p.Tick%3 == 1 {
				p.Ask("mail", askFour)
			}
			p.Ask("mail", askMust)
		}, most: 2},
	{ID: "X-PUSHCAPACITY", Text: "pushes that use up the capacity budget", slots: 2, ticks: 3,
		edit: func(m *bcp.Mesh) {
			c := findChannel(m, "mail")
			c.CapacityBudget = 20 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushing("mail", "alarm", yes) },
		act:   func(p *Position) { p.Ask("mail", askMust) }, most: 2},
	{ID: "X-PUSHWINDOW", Text: "pushes that use up the window", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			c := findChannel(m, "mail")
			c.WindowBudget, c.BudgetWindow = 3*bcp.Bit, 12*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushing("mail", "alarm", yes) },
		act:   func(p *Position) { p.Ask("mail", askMust) }, most: 2},
	{ID: "X-RENEW", Text: "a Controller that renews in every slot", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget = 2 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
			if p.Tick%2 == 0 {
				p.Session("close")
				p.Session("open")
			}
			p.Ask("mail", askMust)
			p.Look()
		}, most: 2},
	{ID: "X-RENEWIN", Text: "a Controller that renews within a slot", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
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
	{ID: "X-RENEWNEXT", Text: "a Controller that renews within a slot and asks in the next", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
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
	{ID: "X-RENEWTIME", Text: "an epoch that time renews", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget, findChannel(m, "mail").BudgetRenew = 2*bcp.Bit, 15*time.Second
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
			p.Ask("mail", askMust)
			p.Look()
		}, most: 2},
	{ID: "X-IDLE", Text: "a session that only deliveries keep", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout = 9 * time.Second
			findChannel(m, "mail").Budget = 3 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
			if p.Tick%3 == 0 {
				p.Ask("mail", askMust)
			}
			p.Look()
		}, most: 2},
	{ID: "X-OPENCLOSE", Text: "a session that is opened and closed while something waits", slots: 3, ticks: 3,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout = 9 * time.Second
			findChannel(m, "mail").Budget = 2 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes)
		},
		moves: func(*Position) []Move { return pushes([]Move{doNothing}, "mail", "alarm", yes) },
		act: func(p *Position) {
			p.Session([]string{"open", "close"}[p.Tick%2])
			p.Look()
		}, most: 2},
	{ID: "X-PERSON", Text: "an answer that a person decides", slots: 4, ticks: 2,
		edit: func(*bcp.Mesh) {},
		moves: func(p *Position) []Move {
			return judging(p, answers(p, []Move{doNothing}, 0, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, nei, `{"n":"junk"}`))
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askOdd)
			}
			p.Look()
		}},
	{ID: "X-PUSHPERSON", Text: "a push that a person decides, and a queue of one", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").MaxPendingApprovals, findChannel(m, "mail").Budget = 1, 6*bcp.Bit
			subscribe(m, "mail", "odd", askOdd)
		},
		moves: func(p *Position) []Move {
			return judging(p, pushes([]Move{doNothing}, "mail", "odd", `{"n":0}`, `{"n":3}`))
		},
		act: func(p *Position) { p.Ask("mail", askMust) }, most: 2},
	{ID: "X-SUMMARY", Text: "a summary, its gate and its content", slots: 5, ticks: 2,
		edit: func(*bcp.Mesh) {},
		moves: func(p *Position) []Move {
			return judging(p, answers(p, []Move{doNothing}, 0, `{"summary":"a"}`, nei, `{"summary":"a b c"}`))
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askSum)
			}
			p.Look()
		}},
	{ID: "X-FLAG", Text: "flagged answers", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").OnAnomaly = bcp.AnomalyFlag },
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, `{"q":"ada"}`, `{"q":"ADA"}`, `{"q":"ignore"}`, nei)
		},
		act: askOnce(askWord, askMust)},
	{ID: "X-BATCH", Text: "a window of pushes", slots: 5, ticks: 1,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").Budget = 6 * bcp.Bit
			subscribe(m, "mail", "alarm", askYes).BatchWindow = 2 * gameSlot
		},
		moves: func(*Position) []Move {
			return pushes([]Move{doNothing}, "mail", "alarm", yes, no)
		},
		act: func(p *Position) { p.Ask("mail", askMust) }, most: 2},
	{ID: "X-RUN", Text: "a requester that asks for plans, which what it was told makes forbidden", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { subscribe(m, "mail", "alarm", askYes) },
		moves: func(p *Position) []Move {
			return answers(p, pushes([]Move{doNothing}, "mail", "alarm", yes), 0, yes, nei)
		},
		act: func(p *Position) {
			if p.Tick == 2 {
				p.Ask("mail", askYes)
			}
			p.Run()
		}, most: 2},
	{ID: "X-ENDS", Text: "a requester that hears how its run ended, and again after it began anew", slots: 8, ticks: 1,
		edit:  func(*bcp.Mesh) {},
		moves: func(p *Position) []Move { return append(answering(p), doNothing) },
		act: func(p *Position) {
			if first(p) {
				p.Read()
			}
			if p.replan(); p.Tick == 7 {
				p.Ended()
			}
		}},
	{ID: "X-ERRORS", Text: "a planner that is told why its plans failed", slots: 2, ticks: 5, planner: true,
		edit:  func(*bcp.Mesh) {},
		moves: answering,
		act: func(p *Position) {
			if first(p) {
				p.Read()
			}
			p.replan()
		}},
	{ID: "X-RATE", Text: "a rate", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			subscribe(m, "mail", "alarm", askYes).MaxRate = bcp.Rate{Count: 1, Span: time.Second}
		},
		moves: func(*Position) []Move {
			return pushes([]Move{doNothing}, "mail", "alarm", yes, no)
		},
		act: func(p *Position) { p.Look() }, most: 2},
	{ID: "X-RETRY", Text: "retries", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").MaxRetries = 1 },
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, yes, no, nei, `{"ok":"junk"}`)
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askYes)
			}
			p.Look()
		}},
	{ID: "X-ADAPT", Text: "a Controller that asks by what it heard", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").Budget = 5 * bcp.Bit },
		moves: func(p *Position) []Move {
			return answers(p, answers(p, []Move{doNothing}, 0, yes, nei), 1, yes, nei)
		},
		act: func(p *Position) {
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
	{ID: "X-ESCALATE", Text: "an escalation that a failure arms", slots: 3, ticks: 3,
		edit: func(*bcp.Mesh) {},
		moves: func(p *Position) []Move {
			return answers(p, []Move{doNothing}, 0, yes, nei, `{"ok":"junk"}`)
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("mail", askYes)
			} else if len(p.Queries) < 2 && p.Tick%3 == 2 {
				p.Ask("mail", askWord)
			}
			p.Look()
		}},
	{ID: "X-PROCESS", Text: "a Reader that cannot be started", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").Budget = 4 * bcp.Bit },
		moves: func(*Position) []Move {
			return []Move{doNothing, unavailable, func(p *Position) { p.Process("mail", bcp.ProcessStarted) }}
		},
		act: func(p *Position) { p.Ask("mail", askMust) }},
	{ID: "X-TWO", Text: "two channels with slots of their own, one session and one total budget", slots: 3, ticks: 2,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout, m.Agents[1].TotalBudget = 9*time.Second, 8*bcp.Bit
			findChannel(m, "web").ReleaseInterval = 15 * time.Second
			subscribe(m, "mail", "alarm", askYes)
			subscribe(m, "web", "alarm", askYes)
		},
		moves: func(p *Position) []Move {
			return answers(p, pushes(pushes([]Move{doNothing}, "mail", "alarm", yes), "web", "alarm", yes), 0, `{"n":1}`, nei)
		},
		act: func(p *Position) {
			if first(p) {
				p.Ask("web", askFour)
			} else {
				p.Ask("mail", askMust)
			}
		}, most: 4},
	{ID: "X-BOOLEAN", Text: "a boolean, and everything that can become of it", slots: 4, ticks: 3,
		edit: func(*bcp.Mesh) {},
		moves: func(p *Position) []Move {
			moves := answers(p, []Move{doNothing}, 0, yes, no, nei, `{"ok":"junk"}`)
			if len(moves) > 1 {
				moves = append(moves, unavailable)
			}
			return moves
		},
		act: func(p *Position) {
			if p.Tick == 1 { // so that it can end in each of its slots
				p.Ask("mail", askYes)
			}
			p.Look()
		}},
	{ID: "X-QUERIES", Text: "three questions, one after the other, and everything that can become of them", slots: 4, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").QueryTTL = gameSlot },
		moves: func(p *Position) []Move {
			moves := []Move{doNothing}
			for n := range p.Queries {
				moves = answers(p, moves, n, yes, no, nei)
			}
			return moves
		},
		act: func(p *Position) {
			if p.Tick%2 == 1 && p.Tick < 6 {
				p.Ask("mail", askYes)
			}
		}},
	{ID: "X-HELD", Text: "an answer that a person decides, and everything that can become of it", slots: 6, ticks: 2,
		edit: func(m *bcp.Mesh) { findChannel(m, "mail").QueryTTL = gameSlot },
		moves: func(p *Position) []Move {
			return judging(p, answers(p, []Move{doNothing}, 0, `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`))
		},
		act: func(p *Position) {
			if p.Tick == 1 {
				p.Ask("mail", askOdd)
			}
		}},
	// The Controller has no session, and does not see the cost of a held push: so it is
	// charged for more than it gets.
	{ID: "X-PUSHHELD", Text: "one push that a person decides, early or late", slots: 8, ticks: 2,
		edit: func(m *bcp.Mesh) {
			findChannel(m, "mail").ApprovalTTL = 4 * gameSlot
			subscribe(m, "mail", "odd", askMostlyOdd)
		},
		moves: func(p *Position) []Move {
			moves := judging(p, []Move{doNothing})
			if len(p.charged) == 0 && p.Tick < 8 {
				moves = pushes(moves, "mail", "odd", `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`)
			}
			return moves
		},
		act: func(p *Position) { p.Look() }, most: 2, more: true},
	{ID: "X-INTEGER", Text: "a number that is pushed", slots: 4, ticks: 1,
		edit: func(m *bcp.Mesh) { subscribe(m, "mail", "load", askFour) },
		moves: func(*Position) []Move {
			return pushes([]Move{doNothing}, "mail", "load", `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`)
		},
		act: func(p *Position) { p.Look() }, most: 2},
	{ID: "X-GAP", Text: "pushes between answers that come in every slot", slots: 8, ticks: 1,
		edit: func(m *bcp.Mesh) { subscribe(m, "mail", "tick", askOne) },
		moves: func(p *Position) []Move {
			return pushes([]Move{doNothing}, "mail", "tick", `{"x":"x"}`)
		},
		act: func(p *Position) {
			if n := len(p.Queries); n > 0 { // the Reader answers the query of one slot before
				p.Answer(n-1, `{"x":"x"}`)
			}
			p.Ask("mail", askOne)
		}, most: 2},
	{ID: "X-PUSHTWICE", Text: "several pushes of one slot on two subscriptions", slots: 3, ticks: 1,
		edit: func(m *bcp.Mesh) {
			subscribe(m, "mail", "left", askOne)
			subscribe(m, "mail", "right", askOne)
		},
		moves: func(*Position) []Move {
			return append(pushing("mail", "left", `{"x":"x"}`), pushing("mail", "right", `{"x":"x"}`)[1:]...)
		},
		act: func(p *Position) { p.Look() }, most: 2, free: true},
}
