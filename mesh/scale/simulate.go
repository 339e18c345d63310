package scale

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxBatch is how many messages the gateway takes into one step (mesh/gateway).
const maxBatch = 256

// Shard is one gateway with its server, as simulated: messages come through the
// server, wait, and are decided in batches by one goroutine; each batch is one
// record, which is written before anything is released, and one record is
// outstanding at a time.
type Shard struct {
	Costs    Costs
	Exchange Exchange
	Cores    int
	// Connections is the number of connections for the messages, evenly; 0 is one for
	// each.
	Connections int
	// Beside says that the agents' processes share the cores, as in `bcpmesh bench`.
	Beside bool
	// Projected includes the projections' processor time, as in a lasting load.
	Projected bool
	// Quorum is how many copies of a record must be on disks: the slowest of so many
	// counts. 0 is one.
	Quorum int
}

// Outcome is the result of a simulation.
type Outcome struct {
	P50   Span    `json:"p50"` // until the agent that began has what it waits for
	P99   Span    `json:"p99"`
	Rate  float64 `json:"rate"`  // exchanges a second
	Batch float64 `json:"batch"` // decisions a record
	// Gateway is how much of the time its one goroutine decided or waited for the
	// disk, and Cores how many cores were busy.
	Gateway float64 `json:"gateway"`
	Cores   float64 `json:"cores"`
}

// warmUp is the percentage of exchanges that is not counted.
const warmUp = 10 // in 100

// Simulate simulates exchanges on a shard: inFlight at a time, each followed by the
// next, or, if that is 0, rate a second at random times. The same seed gives the same
// result.
func Simulate(s Shard, inFlight int, rate float64, exchanges int, seed uint64) Outcome {
	m := &machine{shard: s, free: max(1, s.Cores), random: rand.New(rand.NewPCG(seed, 1)), left: exchanges}
	for range inFlight {
		m.begin(true)
	}
	if inFlight == 0 && rate > 0 {
		m.arrive(rate)
	}
	for len(m.events) > 0 {
		e := heap.Pop(&m.events).(event)
		m.now = e.at
		e.do()
	}
	return m.outcome()
}

// machine is a simulation under way. Times are in nanoseconds.
type machine struct {
	shard  Shard
	random *rand.Rand
	now    int64
	events events
	order  int

	free    int // cores
	waiting []task
	used    int64 // of all cores

	inbox   []func() // what each message does when its record is released
	writing bool
	busy    int64 // of the gateway

	left    int
	ended   []span // exchanges
	records int
	decided int
}

type span struct{ began, ended int64 }

// task is work for a core.
type task struct {
	lasts int64
	then  func()
}

type event struct {
	at    int64
	order int // of two at the same time, the one planned first comes first
	do    func()
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

func (m *machine) after(wait int64, do func()) {
	m.order++
	heap.Push(&m.events, event{m.now + wait, m.order, do})
}

// work uses a core for a time, when one is free, and then calls then.
func (m *machine) work(microseconds float64, then func()) {
	t := task{int64(microseconds * 1000), then}
	if m.free == 0 {
		m.waiting = append(m.waiting, t)
		return
	}
	m.free--
	m.start(t)
}

func (m *machine) start(t task) {
	m.used += t.lasts
	m.after(t.lasts, func() {
		if len(m.waiting) > 0 {
			next := m.waiting[0]
			m.waiting = m.waiting[1:]
			m.start(next)
		} else {
			m.free++
		}
		t.then()
	})
}

// arrive begins an exchange now and plans the next.
func (m *machine) arrive(rate float64) {
	m.begin(false)
	if m.left > 0 {
		m.after(int64(m.random.ExpFloat64()/rate*float64(time.Second)), func() { m.arrive(rate) })
	}
}

// begin begins an exchange, and, if it repeats, another when it has ended.
func (m *machine) begin(repeats bool) {
	if m.left == 0 {
		return
	}
	m.left--
	m.decision(m.now, 1, repeats)
}

// decision takes the nth message of an exchange through the shard.
func (m *machine) decision(began int64, n int, repeats bool) {
	x := m.shard.Exchange
	each := 1 / float64(x.Decisions)
	agent := 0.0
	if m.shard.Beside {
		agent = x.Agents * each / 2
	}
	m.work(agent+m.server(), func() {
		m.inbox = append(m.inbox, func() {
			m.work(m.server(), func() {
				m.work(agent, func() {
					if n == x.Answered {
						m.ended = append(m.ended, span{began, m.now})
						if repeats {
							m.begin(true)
						}
					}
					if n < x.Decisions {
						m.decision(began, n+1, repeats)
					}
				})
			})
		})
		m.step()
	})
}

// batch is how many decisions a record had so far.
func (m *machine) batch() float64 { return float64(m.decided) / float64(max(1, m.records)) }

// messagesPerWrite is how many messages share a read or a write of a connection: those
// that a record releases come and go together.
func (m *machine) messagesPerWrite() float64 {
	if m.shard.Connections == 0 {
		return 1
	}
	return max(1, m.batch()/float64(m.shard.Connections))
}

// each is the processor time of a decision, without its record.
func (m *machine) each() float64 {
	x := m.shard.Exchange
	return (x.Processor + x.Apart/m.messagesPerWrite()) / float64(x.Decisions)
}

// server is the part of a decision's cost outside the goroutine, on the way in or out.
func (m *machine) server() float64 { return m.each() * (1 - m.shard.Costs.Serial) / 2 }

// step decides what waits, if the gateway is idle: it writes one record, and
// releases when that is on disk.
func (m *machine) step() {
	if m.writing || len(m.inbox) == 0 {
		return
	}
	m.writing = true
	batch := m.inbox
	m.inbox = nil
	if len(batch) > maxBatch {
		batch, m.inbox = batch[:maxBatch], batch[maxBatch:]
	}
	c, x := m.shard.Costs, m.shard.Exchange
	began, k, each := m.now, float64(len(batch)), m.each()
	m.records, m.decided = m.records+1, m.decided+len(batch)
	m.work(c.Serial*(x.Record+each*k), func() {
		parts := 2 // the server's work for the record, and the disk's
		done := func() {
			if parts--; parts > 0 {
				return
			}
			m.busy += m.now - began
			m.writing = false
			for _, release := range batch {
				release()
			}
			m.step()
		}
		m.work((1-c.Serial)*x.Record, done)
		m.after(m.commit(), done)
		if m.shard.Projected {
			m.work(x.Projection/float64(x.Decisions)*k, func() {})
		}
	})
}

// commit returns the time until enough disks have a record: lognormal, with the long
// tail of disks.
func (m *machine) commit() int64 {
	const z99 = 2.3263 // the standard normal's 99th percentile
	c := m.shard.Costs
	if c.CommitP50 <= 0 {
		return 0
	}
	sigma := max(0, math.Log(c.CommitP99/c.CommitP50)/z99)
	slowest := 0.0
	for range max(1, m.shard.Quorum) {
		slowest = max(slowest, c.CommitP50*math.Exp(sigma*m.random.NormFloat64()))
	}
	return int64(slowest * 1000)
}

func (m *machine) outcome() Outcome {
	counted := m.ended[len(m.ended)*warmUp/100:]
	if len(counted) == 0 || m.now == 0 {
		return Outcome{}
	}
	lasted := make([]int64, len(counted))
	for i, s := range counted {
		lasted[i] = s.ended - s.began
	}
	slices.Sort(lasted)
	at := func(p int) Span { return Span(lasted[(len(lasted)-1)*p/100]) }
	over := counted[len(counted)-1].ended - counted[0].ended
	return Outcome{
		P50: at(50), P99: at(99), Rate: float64(len(counted)) / (float64(max(1, over)) / float64(time.Second)),
		Batch: m.batch(), Gateway: float64(m.busy) / float64(m.now), Cores: float64(m.used) / float64(m.now),
	}
}
