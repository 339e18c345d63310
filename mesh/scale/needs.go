package scale

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Plan is the result for a load.
type Plan struct {
	Load Load `json:"load"`
	// Machines is how many there are: one for each shard, and no fewer than replicas.
	Machines int `json:"machines"`
	// Needs are all figures: those with a limit first, the nearest to its limit in
	// front.
	Needs []Need `json:"needs"`
	// First names what breaks first as the load grows.
	First string `json:"first"`
	// Fits says that everything is within its limit.
	Fits bool `json:"fits"`
	// Receipt is the latency of a push and Answer that of a question, without its
	// Reader's time, on one shard at the load's rate. Both are zero if the deciding is
	// beyond its limit: then they grow for ever.
	Receipt Outcome `json:"receipt"`
	Answer  Outcome `json:"answer"`
}

// Need is one resource of a load. Limit is 0 if neither the mesh nor the machine
// bounds it.
type Need struct {
	Name  string  `json:"name"`
	Need  float64 `json:"need"`
	Limit float64 `json:"limit,omitempty"`
	Unit  string  `json:"unit"`
	Use   float64 `json:"use,omitempty"` // of the limit; 1 is all of it
	Why   string  `json:"why"`           // where the figure comes from
	Mend  string  `json:"mend,omitempty"`
}

// Limits of the mesh, from docs/limits.md and docs/definitions.md.
const (
	serverConnections = 8192
	agentsInAccount   = 256
	accountBytes      = 900 << 10
	accountRoom       = 400 << 10 // for new agents
	definitionFiles   = 16_384
	definitionBytes   = 320 << 20
	keptKeys          = 256 << 10 // sealing keys in memory
	journalShare      = 0.5       // of max_disk_mb
	daySeconds        = 24 * 60 * 60
	snapshotEvery     = 100_000 // decisions
)

// What a plan leaves free, since nothing answers in time at the brim.
const (
	fullGateway = 0.8
	fullCores   = 0.7
	fullMemory  = 0.8
)

// startLimit is the longest acceptable start, in seconds.
const startLimit = 600

// keysLimit is how long the first messages of a day may keep the gateway from
// everything else, in seconds.
const keysLimit = 60

// Compute returns the needs of a load. Call [Load.Check] first.
func Compute(c Costs, l Load) Plan {
	if l.Mean == 0 {
		l.Mean = l.Rate
	}
	m := newModel(c, l)
	if l.Shards == 0 {
		m.load.Shards = m.shardsNeeded()
	}
	p := Plan{Load: m.load, Machines: m.machines(), Needs: m.needs(), Fits: true}
	slices.SortStableFunc(p.Needs, func(a, b Need) int { return cmp.Compare(b.Use, a.Use) })
	p.First, p.Fits = p.Needs[0].Name, p.Needs[0].Use <= 1
	p.Receipt, p.Answer = m.waits()
	return p
}

// model is a load with derived figures.
type model struct {
	costs     Costs
	load      Load
	decisions float64 // of an exchange, on average
}

func newModel(c Costs, l Load) *model {
	return &model{costs: c, load: l, decisions: mix(l.Asks, float64(c.Ask.Decisions), float64(c.Push.Decisions))}
}

func mix(part, a, b float64) float64 { return part*a + (1-part)*b }

// average returns the average of a cost over the exchanges.
func (m *model) average(what func(Exchange) float64) float64 {
	return mix(m.load.Asks, what(m.costs.Ask), what(m.costs.Push))
}

func (m *model) exchanges(rate float64) float64 { return rate / m.decisions }

func (m *model) shards() float64 { return float64(max(1, m.load.Shards)) }

func (m *model) machines() int { return max(m.load.Shards, m.load.Replicas, 1) }

// batch returns how many decisions share a record at a rate of one shard: those that
// come while the previous record is decided and written. It is the fixed point,
// between one and the limit of a step.
func (m *model) batch(rate float64) float64 {
	fixed := m.costs.Serial*m.record() + m.commitMean()
	each := m.serial()
	if spare := 1e6 - rate*each; spare > 0 {
		return min(max(1, rate*fixed/spare), maxBatch)
	}
	return maxBatch
}

// commitMean is the mean of the lognormal distribution in [Simulate].
func (m *model) commitMean() float64 {
	if m.costs.CommitP50 <= 0 {
		return 0
	}
	sigma := max(0, math.Log(m.costs.CommitP99/m.costs.CommitP50)/2.3263)
	return m.costs.CommitP50 * math.Exp(sigma*sigma/2)
}

// record is the processor time of a record, in microseconds.
func (m *model) record() float64 { return m.average(func(x Exchange) float64 { return x.Record }) }

// serial is the goroutine's time for a decision, in microseconds.
func (m *model) serial() float64 { return m.costs.Serial * m.average(work) / m.decisions }

// work is the processor time of an exchange whose messages come alone: of many agents
// few have two messages in flight.
func work(x Exchange) float64 { return x.Processor + x.Apart }

// gateway is the utilisation of one shard's goroutine, if every record is as full
// as possible.
func (m *model) gateway(rate float64) float64 {
	full := (m.costs.Serial*m.record() + m.commitMean()) / maxBatch
	return rate * (m.serial() + full) / 1e6
}

// cores is the utilisation of all cores at a rate, with the projections.
func (m *model) cores(rate float64) float64 {
	exchange := m.average(func(x Exchange) float64 { return work(x) + x.Projection })
	records := rate / m.batch(rate/m.shards())
	return (m.exchanges(rate)*exchange + records*m.record()) / 1e6
}

// shardsNeeded is how many shards can decide the rate in time, each on its own
// machine.
func (m *model) shardsNeeded() int {
	n := 1
	for ; n < MaxShards; n++ {
		m.load.Shards = n
		if m.gateway(m.load.Rate/float64(n)) <= fullGateway && m.coresOfMachine() <= fullCores*float64(m.load.Machine.Cores) {
			break
		}
	}
	return n
}

// coresOfMachine counts each copy of a record like the first.
func (m *model) coresOfMachine() float64 {
	copies := float64(m.load.Replicas - 1)
	records := m.load.Rate / m.batch(m.load.Rate/m.shards())
	return (m.cores(m.load.Rate) + copies*records*m.record()/1e6) / float64(m.machines())
}

func (m *model) needs() []Need {
	c, l := m.costs, m.load
	shards, machines := m.shards(), float64(m.machines())
	agents, channels := float64(l.Agents), float64(l.Channels)
	ids := m.exchanges(l.Mean) * daySeconds / shards
	open := m.exchanges(l.Rate) * l.Asks * time.Duration(l.Answer).Seconds() / shards
	copies := float64(l.Replicas) / machines
	streams := m.average(func(x Exchange) float64 { return x.Streams })
	journal := m.average(func(x Exchange) float64 { return x.Journal })

	// Each gateway has all definitions, and the state of its own channels. While a
	// snapshot is made there is a second state.
	state := channels/shards*c.StateMemory + ids*c.IDMemory + open*c.QueryMemory
	memory := channels*c.DefinitionMemory + 2*state + agents/machines*c.Connection

	restore := (channels/shards*c.StateRestore + ids*c.IDRestore) / 1e6
	tail := min(snapshotEvery, l.Rate*daySeconds) * c.Replay / 1e6
	snapshot := max(60, snapshotEvery/(l.Mean/shards))
	takeOver := restore + tail
	start := takeOver + channels*(c.DefinitionLoad+c.Permissions)/1e6
	perMachine := agents / machines
	connect := perMachine * c.Connect / 1e6 / float64(l.Machine.Cores)
	perReader := 2 * channels / agents // half of the agents read
	claims := c.AgentClaim + perReader*c.Claim
	all := []Need{
		{Name: "gateway's goroutine", Need: m.gateway(l.Rate / shards), Limit: fullGateway, Unit: "of one core",
			Why: "deciding and writing one record after the other, full ones", Mend: "more shards: deciding is one goroutine each"},
		{Name: "processor", Need: m.coresOfMachine(), Limit: fullCores * float64(l.Machine.Cores), Unit: "cores a machine",
			Why: "server, gateway and projections, and each copy of a record", Mend: "more cores or shards; sync: 1s if a second may be lost"},
		{Name: "memory", Need: memory / 1e9, Limit: fullMemory * l.Machine.Memory / 1e9, Unit: "GB a machine",
			Why: "definitions, connections, and the state twice while a snapshot is made", Mend: "more memory or shards, or a lower mean rate: see the ids of a day"},
		{Name: "ids of a day", Need: 2 * ids * c.IDMemory / 1e9, Unit: "GB a machine",
			Why: "each request and push id is remembered for 24 hours, part of memory"},
		{Name: "open questions", Need: open, Unit: "a shard", Why: "questions a second times the Reader's time"},
		{Name: "disk rate", Need: m.exchanges(l.Rate) * streams * copies / 1e6, Limit: l.Machine.DiskRate / 1e6, Unit: "MB/s a machine",
			Why: "journal and projections, every copy", Mend: "a faster disk or more machines"},
		{Name: "journal", Need: m.exchanges(l.Mean) * journal * daySeconds * l.Days * copies / 1e9, Limit: journalShare * l.Machine.Disk / 1e9, Unit: "GB a machine",
			Why: "what is decided until the journal is truncated; half of max_disk_mb is for it", Mend: "raise max_disk_mb with the disk, or truncate more often: the mesh rests meanwhile"},
		{Name: "disk a day", Need: m.exchanges(l.Mean) * streams * daySeconds * copies / 1e9, Unit: "GB a machine", Why: "journal and projections, before those lose their oldest"},
		{Name: "network", Need: m.exchanges(l.Rate) * journal * (2 + float64(l.Replicas-1)) / machines * 8 / 1e9, Limit: l.Machine.Network / 1e9, Unit: "Gbit/s a machine",
			Why: "what is recorded comes in, goes out, and goes to each copy; not measured", Mend: "a faster network or more machines"},
		{Name: "connections", Need: agents / machines, Limit: serverConnections, Unit: "a server", Why: "one for each agent, shared by the machines",
			Mend: "more servers; two processes of one agent count twice"},
		{Name: "connecting again", Need: connect, Unit: "s", Why: "what the processor takes; stock clients that were not let in try again after two seconds"},
		{Name: "definition files", Need: agents + 1, Limit: definitionFiles, Unit: "files", Why: "one for each agent, and mesh.yaml", Mend: "a second mesh"},
		{Name: "definitions", Need: channels * c.DefinitionText / (1 << 20), Limit: definitionBytes >> 20, Unit: "MiB",
			Why: "both ends of each channel and one subscription", Mend: "a second mesh, or shorter definitions"},
		{Name: "loading definitions", Need: channels * c.DefinitionLoad / 1e6, Unit: "s of one core", Why: "also at every reload, while the mesh serves"},
		{Name: "largest account", Need: math.Min(agentsInAccount*claims, math.Max(accountRoom, claims)) / 1024, Limit: accountBytes / 1024, Unit: "KiB",
			Why: "claims of its agents; new agents fill 400 KiB", Mend: "fewer channels for one Reader: an agent's claims are in one account"},
		{Name: "accounts", Need: 2 * math.Ceil(agents/2/max(1, min(agentsInAccount, math.Floor(accountRoom/claims)))), Unit: "of Readers and Controllers", Why: "256 in each, and fewer where they have many channels"},
		{Name: "sealing keys", Need: 2 * channels / shards, Limit: keptKeys, Unit: "in memory",
			Why: "two for each channel that speaks on a day", Mend: "more shards: those beyond it are read again, one by one, when they are needed"},
		{Name: "first messages of a day", Need: channels / shards * c.SealingKey / 1e6, Limit: keysLimit, Unit: "s of the gateway",
			Why: "a channel that was silent the day before waits for its two sealing keys when it first speaks; those of others are made before midnight UTC", Mend: "more shards: nobody else is answered meanwhile"},
		{Name: "snapshot", Need: (channels/shards*c.Snapshot + ids*c.IDSnapshot) / 1e9, Unit: "GB", Why: "channels and the ids of a day"},
		{Name: "making a snapshot", Need: restore, Limit: snapshot, Unit: "s of one core",
			Why: "the one before is restored; the next is due after 100,000 decisions, a minute at least", Mend: "more shards: snapshots are late until then, and a start reads more"},
		{Name: "start", Need: start, Limit: startLimit, Unit: "s of one core", Why: "definitions, permissions, the snapshot and the records after it", Mend: "more shards or fewer channels"},
		{Name: "take-over", Need: takeOver, Limit: startLimit, Unit: "s of one core",
			Why: "after the lease ends, another gateway that has the definitions restores the snapshot and reads the records after it", Mend: "more shards"},
	}
	for i := range all {
		if all[i].Limit > 0 {
			all[i].Use = all[i].Need / all[i].Limit
		}
	}
	return all
}

// simulated is how many exchanges a plan plays for its latencies.
const simulated = 5_000

// waits plays one shard of the load.
func (m *model) waits() (receipt, answer Outcome) {
	rate := m.load.Rate / m.shards()
	if m.gateway(rate) > 1 || m.coresOfMachine() > float64(m.load.Machine.Cores) {
		return Outcome{}, Outcome{}
	}
	play := func(x Exchange) Outcome {
		return Simulate(Shard{Costs: m.costs, Exchange: x, Cores: m.load.Machine.Cores, Projected: true, Quorum: m.load.Replicas/2 + 1}, 0, rate/float64(x.Decisions), simulated, 1)
	}
	return play(m.costs.Push), play(m.costs.Ask)
}

// Axis is the dimension in which a load grows.
type Axis string

// The axes.
const (
	Agents   Axis = "agents"
	Channels Axis = "channels"
	Rate     Axis = "rate" // decisions a second, all day
)

// Break is a value at which something breaks.
type Break struct {
	Name string  `json:"name"`
	At   float64 `json:"at"`
	Mend string  `json:"mend,omitempty"`
}

// Breaks returns what breaks as only one dimension of a load grows, the first in
// front: up to the maximum input of a model.
func Breaks(c Costs, l Load, along Axis) []Break {
	grow := func(to float64) []Need {
		grown := l
		grown.Shards = max(1, l.Shards)
		switch along {
		case Agents:
			grown.Agents = int(to)
		case Channels:
			grown.Channels = int(to)
		case Rate:
			grown.Rate, grown.Mean = to, to
		}
		return newModel(c, grown).needs()
	}
	most := map[Axis]float64{Agents: MaxAgents, Channels: MaxChannels, Rate: MaxRate}[along]
	var found []Break
	for i, n := range grow(most) {
		if n.Use <= 1 || grow(1)[i].Use > 1 {
			continue
		}
		low, high := 1.0, most
		for high-low > 1 {
			if middle := math.Floor((low + high) / 2); grow(middle)[i].Use > 1 {
				high = middle
			} else {
				low = middle
			}
		}
		found = append(found, Break{n.Name, high, n.Mend})
	}
	slices.SortStableFunc(found, func(a, b Break) int { return cmp.Compare(a.At, b.At) })
	return found
}
