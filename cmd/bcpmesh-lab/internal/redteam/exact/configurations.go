package exact

import (
	"maps"
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
	// The mesh: what the Reader of mail may push, its channel, and all else.
	subs subscriptions
	mail func(*bcp.Channel)
	edit func(*bcp.Mesh)
	// What Readers can do at a tick besides nothing: push one of these on any of the
	// subscriptions, or answer the first query while it is open; and people, judge what is held.
	// In place of all that there may be moves.
	push, answer []string
	judged       bool
	moves        func(*Position) []Move
	act          func(*Position)
	most         int64 // the weight of everything: 1, or 2 for each channel with subscriptions
	// planner: what the planner of a kernel hears is counted. Errors are charged, that there
	// is none is not: as many things can be heard as the greatest charge has bits for.
	planner bool
	free    bool // nothing but silence is free of charge
	more    bool // a transcript may be charged more in another play: held items are charged, and not always seen
}

// subscriptions are specs of the Reader of mail by id.
type subscriptions map[bcp.SubscriptionID]string

func (s subscriptions) ids() []bcp.SubscriptionID { return slices.Sorted(maps.Keys(s)) }

// mesh has a Controller and two Readers, small in everything but what the configuration is about.
func (c *Configuration) mesh() *bcp.Mesh {
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
	mail := &mesh.Channels[0]
	for _, id := range c.subs.ids() {
		mail.Subscriptions = append(mail.Subscriptions, bcp.Subscription{ID: id, Spec: parse(c.subs[id])})
	}
	if c.mail != nil {
		c.mail(mail)
	}
	if c.edit != nil {
		c.edit(mesh)
	}
	return mesh
}

func parse(spec string) bcp.Spec {
	parsed, err := bcp.ParseSpec([]byte(spec))
	if err != nil {
		panic(err)
	}
	return parsed
}

// offer returns the moves at a tick.
func (c *Configuration) offer(p *Position) []Move {
	if c.moves != nil {
		return c.moves(p)
	}
	moves := []Move{doNothing}
	for _, id := range c.subs.ids() {
		moves = pushes(moves, "mail", id, c.push...)
	}
	if moves = answers(p, moves, 0, c.answer...); c.judged {
		moves = judging(p, moves)
	}
	return moves
}

func doNothing(*Position) {}

func unavailable(p *Position) { p.Process("mail", bcp.ProcessUnavailable) }

// answers adds each answer to the nth query while it is open.
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

// look has the Controller look at its channels, after other acts.
func look(acts ...func(*Position)) func(*Position) {
	return func(p *Position) {
		for _, act := range acts {
			act(p)
		}
		p.Look()
	}
}

// ask asks a question about mail at these ticks, or at all if there are none.
func ask(question string, ticks ...int) func(*Position) {
	return func(p *Position) {
		if len(ticks) == 0 || slices.Contains(ticks, p.Tick) {
			p.Ask("mail", question)
		}
	}
}

// renew has a new session at these ticks.
func renew(ticks ...int) func(*Position) {
	return func(p *Position) {
		if slices.Contains(ticks, p.Tick) {
			p.Session("close")
			p.Session("open")
		}
	}
}

// readOnce has the kernel read at the first tick, and its planner plan whenever it is asked.
func readOnce(p *Position) {
	if p.Tick == 0 {
		p.Read()
	}
	p.replan()
}

// askOnce asks the first question at once, and repeats the second until it is
// accepted.
func askOnce(question, poll string) func(p *Position) {
	return func(p *Position) {
		if p.Tick == 0 {
			p.Ask("mail", question)
		} else if len(p.Queries) < 2 {
			p.Ask("mail", poll)
		}
	}
}

// twice offers a push of a response on each subscription, two of them, or none.
func twice(subs subscriptions, response string) func(*Position) []Move {
	return func(*Position) []Move {
		moves := []Move{doNothing}
		for _, id := range subs.ids() {
			moves = append(pushes(moves, "mail", id, response), func(p *Position) {
				p.Push("mail", id, response)
				p.Push("mail", id, response)
			})
		}
		return moves
	}
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

// Answers to a boolean, to a number and to what has one answer.
var (
	boolean = []string{yes, no, nei, `{"ok":"junk"}`}
	numbers = []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`}
	number  = slices.Concat(numbers, []string{nei, `{"n":"junk"}`})
	only    = []string{`{"x":"x"}`}
)

// Subscriptions to a boolean, and to two that have one answer.
var (
	alarm = subscriptions{"alarm": askYes}
	both  = subscriptions{"left": askOne, "right": askOne}
)

// budget is that of the channel.
func budget(bits bcp.Bits) func(*bcp.Channel) { return func(c *bcp.Channel) { c.Budget = bits } }

// Configurations returns those to play.
func Configurations() []Configuration { return slices.Clone(configurations) }

var configurations = []Configuration{
	{ID: "X-BITS", Text: "a reservation of bits that comes back, and a question that waits for it", slots: 3, ticks: 4,
		mail: budget(2*bcp.Bit + bcp.Bit/2), answer: number, act: askOnce(askFour, askMust)},
	{ID: "X-CAPACITY", Text: "a reservation of capacity that comes back, and a question that waits for it", slots: 3, ticks: 4,
		edit: func(m *bcp.Mesh) {
			reserved := func(question string) bcp.Bits {
				v, err := bcp.Compile(parse(question), m.Channels[0].Settings(m, nil))
				if err != nil {
					panic(err)
				}
				return v.Prices().Reserve()
			}
			m.Channels[0].CapacityBudget = reserved(askYes) + reserved(askMust) - bcp.Bit/4
		},
		answer: boolean, act: askOnce(askYes, askMust)},
	{ID: "X-WINDOW", Text: "a reservation of the window that comes back", slots: 3, ticks: 3,
		mail:   func(c *bcp.Channel) { c.WindowBudget, c.BudgetWindow = 2*bcp.Bit+bcp.Bit/2, 64*time.Second },
		answer: []string{`{"n":0}`, nei}, act: askOnce(askFour, askMust)},
	{ID: "X-TOTAL", Text: "a reservation that comes back to the total budget", slots: 3, ticks: 3,
		edit:   func(m *bcp.Mesh) { m.Agents[1].TotalBudget = 2*bcp.Bit + bcp.Bit/2 },
		answer: []string{`{"n":0}`, nei},
		act: func(p *Position) {
			if p.Tick == 0 {
				p.Ask("mail", askFour)
			} else if len(p.Queries) < 2 {
				p.Ask("web", askMust)
			}
		}},
	{ID: "X-ROOM", Text: "a reservation that comes back where pushes have taken its room", slots: 3, ticks: 3,
		subs: alarm, mail: budget(4 * bcp.Bit), push: []string{yes}, answer: []string{nei}, act: ask(askFour, 0, 4), most: 2},
	{ID: "X-WINDOWBACK", Text: "a window that gives back within a slot", slots: 4, ticks: 3,
		subs: alarm, mail: func(c *bcp.Channel) { c.WindowBudget, c.BudgetWindow = 2*bcp.Bit, 14*time.Second },
		push: []string{yes}, act: ask(askMust, 6), most: 2},
	{ID: "X-WHICH", Text: "two subscriptions that say nothing but which of them it is", slots: 4, ticks: 1,
		subs: both, push: only, act: look(), most: 2, free: true},
	{ID: "X-ONE", Text: "a question with one answer", slots: 3, ticks: 1,
		answer: []string{`{"x":"x"}`, nei, `{"x":"junk"}`}, act: askOnce(askOne, askOne), free: true},
	{ID: "X-BOTH", Text: "a boolean asked and pushed", slots: 3, ticks: 2,
		subs: alarm, push: []string{yes, no}, answer: boolean, act: look(ask(askYes, 0)), most: 2},
	{ID: "X-PUSHBITS", Text: "pushes that use up the budget, and questions that find it so", slots: 2, ticks: 3,
		subs: alarm, mail: func(c *bcp.Channel) { c.Budget, c.PushBudget = 5*bcp.Bit, 4*bcp.Bit }, moves: twice(alarm, yes),
		act: func(p *Position) {
			if p.Tick%3 == 1 {
				p.Ask("mail", askFour)
			}
			p.Ask("mail", askMust)
		}, most: 2},
	{ID: "X-PUSHCAPACITY", Text: "pushes that use up the capacity budget", slots: 2, ticks: 3,
		subs: alarm, mail: func(c *bcp.Channel) { c.CapacityBudget = 20 * bcp.Bit }, moves: twice(alarm, yes), act: ask(askMust), most: 2},
	{ID: "X-PUSHWINDOW", Text: "pushes that use up the window", slots: 3, ticks: 2,
		subs: alarm, mail: func(c *bcp.Channel) { c.WindowBudget, c.BudgetWindow = 3*bcp.Bit, 12*time.Second },
		moves: twice(alarm, yes), act: ask(askMust), most: 2},
	{ID: "X-RENEW", Text: "a Controller that renews in every slot", slots: 3, ticks: 3,
		subs: alarm, mail: budget(2 * bcp.Bit), push: []string{yes},
		act: look(func(p *Position) {
			if p.Tick%2 == 0 {
				renew(p.Tick)(p)
			}
		}, ask(askMust)), most: 2},
	{ID: "X-RENEWIN", Text: "a Controller that renews within a slot", slots: 3, ticks: 3,
		subs: alarm, mail: budget(3 * bcp.Bit), push: []string{yes}, act: look(renew(4), ask(askMust, 0, 4)), most: 2},
	{ID: "X-RENEWNEXT", Text: "a Controller that renews within a slot and asks in the next", slots: 3, ticks: 3,
		subs: alarm, mail: budget(3 * bcp.Bit), push: []string{yes}, act: look(renew(4), ask(askMust, 0, 7)), most: 2},
	{ID: "X-RENEWTIME", Text: "an epoch that time renews", slots: 4, ticks: 2,
		subs: alarm, mail: func(c *bcp.Channel) { c.Budget, c.BudgetRenew = 2*bcp.Bit, 15*time.Second },
		push: []string{yes}, act: look(ask(askMust)), most: 2},
	{ID: "X-IDLE", Text: "a session that only deliveries keep", slots: 4, ticks: 2,
		subs: alarm, mail: budget(3 * bcp.Bit), edit: func(m *bcp.Mesh) { m.IdleTimeout = 9 * time.Second }, push: []string{yes},
		act: look(func(p *Position) {
			if p.Tick%3 == 0 {
				p.Ask("mail", askMust)
			}
		}), most: 2},
	{ID: "X-OPENCLOSE", Text: "a session that is opened and closed while something waits", slots: 3, ticks: 3,
		subs: alarm, mail: budget(2 * bcp.Bit), edit: func(m *bcp.Mesh) { m.IdleTimeout = 9 * time.Second }, push: []string{yes},
		act: look(func(p *Position) { p.Session([]string{"open", "close"}[p.Tick%2]) }), most: 2},
	{ID: "X-PERSON", Text: "an answer that a person decides", slots: 4, ticks: 2,
		answer: number, judged: true, act: look(ask(askOdd, 0))},
	{ID: "X-PUSHPERSON", Text: "a push that a person decides, and a queue of one", slots: 3, ticks: 2,
		subs: subscriptions{"odd": askOdd}, mail: func(c *bcp.Channel) { c.MaxPendingApprovals, c.Budget = 1, 6*bcp.Bit },
		push: []string{`{"n":0}`, `{"n":3}`}, judged: true, act: ask(askMust), most: 2},
	{ID: "X-SUMMARY", Text: "a summary, its gate and its content", slots: 5, ticks: 2,
		answer: []string{`{"summary":"a"}`, nei, `{"summary":"a b c"}`}, judged: true, act: look(ask(askSum, 0))},
	{ID: "X-FLAG", Text: "flagged answers", slots: 3, ticks: 2,
		mail:   func(c *bcp.Channel) { c.OnAnomaly = bcp.AnomalyFlag },
		answer: []string{`{"q":"ada"}`, `{"q":"ADA"}`, `{"q":"ignore"}`, nei}, act: askOnce(askWord, askMust)},
	{ID: "X-BATCH", Text: "a window of pushes", slots: 5, ticks: 1,
		subs: alarm, mail: func(c *bcp.Channel) { c.Budget, c.Subscriptions[0].BatchWindow = 6*bcp.Bit, 2*gameSlot },
		push: []string{yes, no}, act: ask(askMust), most: 2},
	{ID: "X-RUN", Text: "a requester that asks for plans, which what it was told makes forbidden", slots: 3, ticks: 2,
		subs: alarm, push: []string{yes}, answer: []string{yes, nei},
		act: func(p *Position) {
			ask(askYes, 2)(p)
			p.Run()
		}, most: 2},
	{ID: "X-ENDS", Text: "a requester that hears how its run ended, and again after it began anew", slots: 8, ticks: 1,
		moves: func(p *Position) []Move { return append(answering(p), doNothing) },
		act: func(p *Position) {
			readOnce(p)
			if p.Tick == 7 {
				p.Ended()
			}
		}},
	{ID: "X-ERRORS", Text: "a planner that is told why its plans failed", slots: 2, ticks: 5, planner: true,
		moves: answering, act: readOnce},
	{ID: "X-RATE", Text: "a rate", slots: 3, ticks: 2,
		subs: alarm, mail: func(c *bcp.Channel) { c.Subscriptions[0].MaxRate = bcp.Rate{Count: 1, Span: time.Second} },
		push: []string{yes, no}, act: look(), most: 2},
	{ID: "X-RETRY", Text: "retries", slots: 3, ticks: 2,
		mail: func(c *bcp.Channel) { c.MaxRetries = 1 }, answer: boolean, act: look(ask(askYes, 0))},
	{ID: "X-ADAPT", Text: "a Controller that asks by what it heard", slots: 4, ticks: 2,
		mail: budget(5 * bcp.Bit),
		moves: func(p *Position) []Move {
			return answers(p, answers(p, []Move{doNothing}, 0, yes, nei), 1, yes, nei)
		},
		act: look(func(p *Position) {
			switch {
			case p.Tick == 0:
				p.Ask("mail", askYes)
			case len(p.Queries) == 1 && strings.Contains(p.Heard[len(p.Heard)-1], "true"):
				p.Ask("mail", askFour)
			case len(p.Queries) == 1 && strings.Contains(p.Heard[len(p.Heard)-1], "outcome"):
				p.Ask("mail", askMust)
			}
		})},
	{ID: "X-ESCALATE", Text: "an escalation that a failure arms", slots: 3, ticks: 3,
		answer: []string{yes, nei, `{"ok":"junk"}`},
		act: look(func(p *Position) {
			if p.Tick == 0 {
				p.Ask("mail", askYes)
			} else if len(p.Queries) < 2 && p.Tick%3 == 2 {
				p.Ask("mail", askWord)
			}
		})},
	{ID: "X-PROCESS", Text: "a Reader that cannot be started", slots: 3, ticks: 2,
		mail: budget(4 * bcp.Bit),
		moves: func(*Position) []Move {
			return []Move{doNothing, unavailable, func(p *Position) { p.Process("mail", bcp.ProcessStarted) }}
		},
		act: ask(askMust)},
	{ID: "X-TWO", Text: "two channels with slots of their own, one session and one total budget", slots: 3, ticks: 2,
		subs: alarm,
		edit: func(m *bcp.Mesh) {
			m.IdleTimeout, m.Agents[1].TotalBudget = 9*time.Second, 8*bcp.Bit
			m.Channels[1].ReleaseInterval, m.Channels[1].Subscriptions = 15*time.Second, slices.Clone(m.Channels[0].Subscriptions)
		},
		moves: func(p *Position) []Move {
			return answers(p, pushes(pushes([]Move{doNothing}, "mail", "alarm", yes), "web", "alarm", yes), 0, `{"n":1}`, nei)
		},
		act: func(p *Position) {
			if p.Tick == 0 {
				p.Ask("web", askFour)
			} else {
				p.Ask("mail", askMust)
			}
		}, most: 4},
	{ID: "X-BOOLEAN", Text: "a boolean, and everything that can become of it", slots: 4, ticks: 3,
		moves: func(p *Position) []Move {
			moves := answers(p, []Move{doNothing}, 0, boolean...)
			if len(moves) > 1 {
				moves = append(moves, unavailable)
			}
			return moves
		},
		act: look(ask(askYes, 1))}, // so that it can end in each of its slots
	{ID: "X-QUERIES", Text: "three questions, one after the other, and everything that can become of them", slots: 4, ticks: 2,
		mail: func(c *bcp.Channel) { c.QueryTTL = gameSlot },
		moves: func(p *Position) []Move {
			moves := []Move{doNothing}
			for n := range p.Queries {
				moves = answers(p, moves, n, yes, no, nei)
			}
			return moves
		},
		act: ask(askYes, 1, 3, 5)},
	{ID: "X-HELD", Text: "an answer that a person decides, and everything that can become of it", slots: 6, ticks: 2,
		mail: func(c *bcp.Channel) { c.QueryTTL = gameSlot }, answer: numbers, judged: true, act: ask(askOdd, 1)},
	// The Controller has no session, and does not see the cost of a held push: so it is
	// charged for more than it gets.
	{ID: "X-PUSHHELD", Text: "one push that a person decides, early or late", slots: 8, ticks: 2,
		subs: subscriptions{"odd": askMostlyOdd}, mail: func(c *bcp.Channel) { c.ApprovalTTL = 4 * gameSlot },
		moves: func(p *Position) []Move {
			moves := judging(p, []Move{doNothing})
			if len(p.charged) == 0 && p.Tick < 8 {
				moves = pushes(moves, "mail", "odd", numbers...)
			}
			return moves
		},
		act: look(), most: 2, more: true},
	{ID: "X-INTEGER", Text: "a number that is pushed", slots: 4, ticks: 1,
		subs: subscriptions{"load": askFour}, push: numbers, act: look(), most: 2},
	{ID: "X-GAP", Text: "pushes between answers that come in every slot", slots: 8, ticks: 1,
		subs: subscriptions{"tick": askOne}, push: only,
		act: func(p *Position) {
			if n := len(p.Queries); n > 0 { // the Reader answers the query of one slot before
				p.Answer(n-1, `{"x":"x"}`)
			}
			p.Ask("mail", askOne)
		}, most: 2},
	{ID: "X-PUSHTWICE", Text: "several pushes of one slot on two subscriptions", slots: 3, ticks: 1,
		subs: both, moves: twice(both, `{"x":"x"}`), act: look(), most: 2, free: true},
}
