package leakage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// The modes in which encoders are measured.
const (
	ModeSlots = "slots" // with a capacity budget and a release interval
	ModeOpen  = "open"  // without: timing is uncounted
)

var modeText = map[string]string{ModeSlots: "with release slots", ModeOpen: "without release slots"}

// interval is the release interval of ModeSlots. It is shorter than anybody would set,
// so that there are enough trials.
const interval = 50 * time.Millisecond

// lanes is how many channels are used at once.
const lanes = 16

// encoder moves one of k secrets to a Controller that asks once.
type encoder struct {
	id, text string
	secrets  int
	ask      string
	encode   func(l *lane, query redteam.Message, secret int) (pushes int)
}

// lane is one separate channel.
type lane struct {
	controller, reader *redteam.Client
	name               bcp.AgentName
	rig                *redteam.Rig
	random             *rand.Rand
}

const (
	askBoolean = `{"type":"bcp_query_request","category":1,"fields":[{"name":"ok","type":"boolean"}]}`
	askSixteen = `{"type":"bcp_query_request","category":1,"fields":[{"name":"n","type":"integer","min":0,"max":15}]}`
	sayYes     = `"response":{"ok":true}`
)

// orders are 16 of the orders of four members.
var orders = func() (list [][]int) {
	for _, first := range [][]int{{0, 1}, {1, 0}, {2, 3}, {3, 2}} {
		rest := []int{}
		for i := range 4 {
			if i != first[0] && i != first[1] {
				rest = append(rest, i)
			}
		}
		a, b := first, rest
		list = append(list, []int{a[0], a[1], b[0], b[1]}, []int{a[0], a[1], b[1], b[0]}, []int{a[0], b[0], a[1], b[1]}, []int{a[0], b[1], a[1], b[0]})
	}
	return list
}()

func encoders() []encoder {
	yes := func(l *lane, query redteam.Message) int {
		l.reader.Answer(query, sayYes)
		return 0
	}
	return []encoder{
		{"VALUE", "the value of an answer", 16, askSixteen, func(l *lane, query redteam.Message, secret int) int {
			l.reader.Answer(query, fmt.Sprintf(`"response":{"n":%d}`, secret))
			return 0
		}},
		{"ORDER", "the order of members", 16, askFour, func(l *lane, query redteam.Message, secret int) int {
			members, said := []string{`"a":true`, `"b":7`, `"c":"pay"`, `"d":false`}, []string{}
			for _, i := range orders[secret] {
				said = append(said, members[i])
			}
			l.reader.Answer(query, `"response":`+object(said))
			return 0
		}},
		{"OUTCOME", "an answer or a failure: true, false, not_enough_information, rejected", 4, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			switch secret {
			case 0:
				return yes(l, query)
			case 1:
				l.reader.Answer(query, `"response":{"ok":false}`)
			case 2:
				l.reader.Answer(query, `"not_enough_information":true`)
			default:
				for attempt := 0; ; attempt++ {
					l.reader.Answer(query, `"response":{}`)
					if attempt == retries {
						break
					}
					query = l.reader.Query(query.Text("query_id"))
				}
			}
			return 0
		}},
		{"RETRY", "how often it answers wrong before", 4, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			for range secret {
				l.reader.Answer(query, `"response":{}`)
				query = l.reader.Query(query.Text("query_id"))
			}
			return yes(l, query)
		}},
		{"SUBSCRIPTION", "which of two subscriptions is pushed on", 2, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			l.reader.Push(l.name, []string{"left", "right"}[secret], `{"urgent":true}`, "")
			yes(l, query)
			return 1
		}},
		{"BURST", "how many pushes there are", 4, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			for range secret {
				l.reader.Push(l.name, "left", `{"urgent":true}`, "")
			}
			yes(l, query)
			return secret
		}},
		{"SIZE", "the size of the message", 4, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			l.reader.Answer(query, sayYes+strings.Repeat(" ", 250*secret))
			return 0
		}},
		{"DELAY", "a delay of 0, 5, 10 or 15 ms", 4, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			time.Sleep(time.Duration(secret) * 5 * time.Millisecond)
			return yes(l, query)
		}},
		{"LATE", "a delay of 0 or 60 ms", 2, askBoolean, func(l *lane, query redteam.Message, secret int) int {
			time.Sleep(time.Duration(secret) * 60 * time.Millisecond)
			return yes(l, query)
		}},
		{"BLOCK", "a block code over answers, failures and pushes", 16, askFour, func(l *lane, query redteam.Message, secret int) int {
			l.reader.Push(l.name, []string{"left", "right"}[secret&1], fmt.Sprintf(`{"urgent":%t}`, secret&2 != 0), "")
			if secret&12 == 12 {
				l.reader.Answer(query, `"not_enough_information":true`)
			} else {
				l.reader.Answer(query, fmt.Sprintf(`"response":{"a":%t,"b":%d,"c":"pay","d":true}`, secret&4 != 0, secret&8))
			}
			return 1
		}},
	}
}

const retries = 3

// laneFiles are the definitions of all lanes.
func laneFiles() map[string]string {
	files := map[string]string{"mesh.yaml": closedMesh}
	for i := range lanes {
		files[fmt.Sprintf("m%d.md", i)] = fmt.Sprintf("---\nname: m%d\nbcp_channels:\n  - peer: r%d\n    role: controller\n    max_category: 1\n    budget_bits: 1000000000\n    max_retries: %d\n    query_ttl: 10s\n    subscriptions:\n      - {id: left, category: 1, fields: [{name: urgent, type: boolean}]}\n      - {id: right, category: 1, fields: [{name: urgent, type: boolean}]}\n---\n", i, i, retries)
		files[fmt.Sprintf("r%d.md", i)] = fmt.Sprintf("---\nname: r%d\nbcp_channels:\n  - {peer: m%d, role: reader}\n---\n", i, i)
	}
	return files
}

// inMode makes a patient mesh, with release slots if the mode has them.
func inMode(mode string) func(*bcp.Mesh) {
	return func(m *bcp.Mesh) {
		patient(m)
		for i := range m.Channels {
			if mode == ModeSlots {
				m.Channels[i].ReleaseInterval, m.Channels[i].CapacityBudget = interval, 1_000_000_000*bcp.Bit
			}
		}
	}
}

// measure makes an encoder move secrets on all lanes at once.
func (t *trial) measure(e encoder, mode string, trials int, seed uint64) {
	var all []observation
	var mu sync.Mutex
	name := fmt.Sprintf("%s-%s-%d", e.id, mode, seed)
	broken, err := redteam.Use(t.ctx, redteam.Setup{State: t.config.State, Name: name, Files: laneFiles(), Edit: inMode(mode), Seed: seed}, func(r *redteam.Rig) {
		var running sync.WaitGroup
		failed := make([]error, lanes)
		list := make([]*lane, lanes)
		for i := range list {
			l := &lane{rig: r, name: bcp.AgentName(fmt.Sprintf("m%d", i)), random: rand.New(rand.NewPCG(seed, uint64(i)))}
			l.controller, l.reader = r.Client(l.name, bcp.RoleController), r.Client(bcp.AgentName(fmt.Sprintf("r%d", i)), bcp.RoleReader)
			l.controller.Observe()
			list[i] = l
		}
		for i, l := range list {
			running.Go(func() {
				failed[i] = r.Try(func() {
					for range (trials + lanes - 1) / lanes {
						o := l.runTrial(e, mode)
						mu.Lock()
						all = append(all, o)
						mu.Unlock()
					}
				})
			})
		}
		running.Wait()
		t.fail(failed...)
	})
	t.result.Evidence = append(t.result.Evidence, broken...)
	t.fail(err)
	if t.err == nil {
		sample := analyse(e.secrets, all, 1000, rand.New(rand.NewPCG(seed, 99)))
		sample.Mode = mode
		t.result.Measured = &sample
	}
}

// runTrial is one trial.
func (l *lane) runTrial(e encoder, mode string) observation {
	l.controller.Observed()
	l.reader.Observed()
	secret := l.random.IntN(e.secrets)
	began := time.Now()
	id := l.controller.Ask(bcp.AgentName("r"+string(l.name[1:])), e.ask)
	pushes := e.encode(l, l.reader.Query(id), secret)
	end := l.controller.Delivery(id)
	ended := time.Now()
	o := observation{secret: secret, took: ended.Sub(began).Seconds(), charged: end.Capacity}
	said := []string{string(end.Response), end.Outcome, fmt.Sprint(end.Anomalies)}
	for range pushes {
		push := l.controller.Pushed()
		said, o.charged = append(said, push.Text("subscription_id"), string(push.Response)), o.charged+push.Capacity
	}
	o.said = strings.Join(said, " ")
	o.slots = int(ended.Sub(began) / (8 * time.Millisecond))
	if mode == ModeSlots {
		o.slots = int(ended.UnixNano()/int64(interval) - began.UnixNano()/int64(interval))
	}
	return o
}
