package leakage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Rate is the measurement of a channel that is not counted (bcp/CAPACITY.md, 7).
type Rate struct {
	Mode    string  `json:"mode"`
	Secrets int     `json:"secrets"` // from which one was drawn for each trial
	Trials  int     `json:"trials"`
	Charged float64 `json:"charged"` // capacity bits a trial, on average, for what was said besides
	// Moved is the lower bound of bits moved in a trial, with 95 % confidence, and
	// Estimate the number at the observed error rate.
	Moved    float64 `json:"moved"`
	Estimate float64 `json:"estimate"`
	// P is the p-value of the hypothesis that nothing moved, and Seen the least leak, in
	// bits a trial, that so many trials detect with 99 % at a false alarm rate of 0.1 %.
	P    float64 `json:"p"`
	Seen float64 `json:"seen"`
	// PerHour is Moved in bits an hour, for one attacker who continues, and
	// SeenPerHour that of Seen. They are 0 if a person must act in each trial.
	PerHour     float64 `json:"per_hour"`
	SeenPerHour float64 `json:"seen_per_hour"`
}

// uncounted is an encoder that uses something that is not counted. Nothing else in
// its messages depends on the secret.
type uncounted struct {
	id, text string
	mode     string
	lanes    int // at once: one if the time carries the secret
	secrets  int
	people   bool // a person acts in each trial
	share    int  // it is tried so many times less often
	timed    bool // the time carries the secret, not the content
	try      func(l *uncountedLane, secret int) observation
}

// uncountedLane is a Controller with three Readers: reader is also a Controller,
// whose Reader is next.
type uncountedLane struct {
	rig                                                  *redteam.Rig
	number                                               int
	controller, reader, other, itself, next, who, absent *redteam.Client
	failed                                               error // of goroutines during a trial
}

func (l *uncountedLane) name(letter string) bcp.AgentName {
	return bcp.AgentName(fmt.Sprint(letter, l.number))
}

// uncountedFiles are the definitions of so many lanes.
func uncountedFiles(lanes int) map[string]string {
	files := map[string]string{"mesh.yaml": closedMesh}
	entry := func(peer string, i int, more string) string {
		return fmt.Sprintf("\n  - peer: %s%d\n    role: controller\n    max_category: 1\n    budget_bits: 1000000000%s\n    subscriptions:\n      - {id: left, category: 1, fields: [{name: urgent, type: boolean}]}", peer, i, more)
	}
	for i := range lanes {
		agent := func(letter, channels string) {
			files[fmt.Sprintf("%s%d.md", letter, i)] = fmt.Sprintf("---\nname: %s%d\nbase_taint: low\nbcp_channels:%s\n---\n", letter, i, channels)
		}
		reads := func(of string) string { return fmt.Sprintf("\n  - {peer: %s%d, role: reader}", of, i) }
		agent("m", entry("r", i, "\n    query_ttl: 30s")+entry("s", i, "\n    query_ttl: 30s")+entry("u", i, "\n    query_ttl: 1s"))
		agent("r", reads("m")+entry("t", i, ""))
		agent("s", reads("m"))
		agent("t", reads("r"))
		agent("u", reads("m"))
	}
	return files
}

// inSlot is how far into its release slot a moment is, in seconds.
func inSlot(at time.Time) float64 { return float64(at.UnixNano()%int64(interval)) / 1e9 }

// askYes has the Controller ask the lane's reader, and the reader say yes.
func (l *uncountedLane) askYes() redteam.Delivery {
	id := l.controller.Ask(l.name("r"), askBoolean)
	l.reader.Answer(l.reader.Query(id), sayYes)
	return l.controller.Delivery(id)
}

// pushDuringAnswer makes a Reader push refused messages, many at once, while the
// Controller waits for an answer that is always the same, if the secret says so: at the
// time of the answer, or with near that long before the end of a slot. It returns when
// the answer came.
func (l *uncountedLane) pushDuringAnswer(secret int, from *redteam.Client, subject string, near time.Duration) (d redteam.Delivery, came time.Time) {
	const pushes = 30
	id := l.controller.Ask(l.name("r"), askBoolean)
	query := l.reader.Query(id)
	var load sync.WaitGroup
	var failed error
	begin := func() {
		if secret == 0 {
			return
		}
		load.Go(func() {
			failed = l.rig.Try(func() {
				for range pushes {
					from.Say(subject, `{"type":"bcp_response"}`)
				}
			})
		})
	}
	if near > 0 {
		l.reader.Answer(query, sayYes)
		time.Sleep(max(0, interval-near-time.Duration(inSlot(time.Now())*1e9)))
		begin()
	} else {
		begin()
		l.reader.Answer(query, sayYes)
	}
	d, came = l.controller.Delivery(id), time.Now()
	load.Wait()
	if failed != nil {
		l.failed = failed
	}
	return d, came
}

const nearEnd = 5 * time.Millisecond

func uncountedChannels() []uncounted {
	return []uncounted{
		{id: "DELAY", text: "a delay of 0 or 2 ms, without release slots", mode: ModeOpen, lanes: 1, secrets: 2, timed: true, try: func(l *uncountedLane, secret int) observation {
			began := time.Now()
			id := l.controller.Ask(l.name("r"), askBoolean)
			query := l.reader.Query(id)
			time.Sleep(time.Duration(secret) * 2 * time.Millisecond)
			l.reader.Answer(query, sayYes)
			return observation{charged: l.controller.Delivery(id).Capacity, took: time.Since(began).Seconds()}
		}},
		{id: "LOAD", text: "refused pushes on a channel of others, by when an answer comes, without release slots", mode: ModeOpen, lanes: 1, secrets: 2, timed: true, try: func(l *uncountedLane, secret int) observation {
			began := time.Now()
			d, came := l.pushDuringAnswer(secret, l.next, subjects.Push(l.name("t"), l.name("r"), "left"), 0)
			return observation{charged: d.Capacity, took: came.Sub(began).Seconds()}
		}},
		{id: "LOAD", text: "refused pushes on a channel of others, by when in its slot an answer comes", mode: ModeSlots, lanes: 1, secrets: 2, timed: true, try: func(l *uncountedLane, secret int) observation {
			d, came := l.pushDuringAnswer(secret, l.next, subjects.Push(l.name("t"), l.name("r"), "left"), nearEnd)
			return observation{charged: d.Capacity, took: inSlot(came)}
		}},
		{id: "PHASE", text: "refused pushes of its own, by when in its slot an answer comes", mode: ModeSlots, lanes: 1, secrets: 2, timed: true, try: func(l *uncountedLane, secret int) observation {
			d, came := l.pushDuringAnswer(secret, l.reader, subjects.Push(l.name("r"), l.name("m"), "left"), nearEnd)
			return observation{charged: d.Capacity, took: inSlot(came)}
		}},
		{id: "ORDER", text: "which of two channels' answers of one slot comes first", mode: ModeSlots, lanes: 8, secrets: 2, try: func(l *uncountedLane, secret int) observation {
			ids := []string{l.controller.Ask(l.name("r"), askBoolean), l.controller.Ask(l.name("s"), askBoolean)}
			seats := []*redteam.Client{l.reader, l.other}
			queries := []redteam.Message{l.reader.Query(ids[0]), l.other.Query(ids[1])}
			for i := range 2 {
				seats[i^secret].Answer(queries[i^secret], sayYes)
			}
			charged := l.controller.Delivery(ids[0]).Capacity + l.controller.Delivery(ids[1]).Capacity
			first := ""
			for _, m := range l.controller.Observed() {
				if m.Text("type") == "bcp_response_delivery" && first == "" {
					first = m.Text("from_agent")[:1]
				}
			}
			return observation{said: first, charged: charged}
		}},
		{id: "SESSION", text: "when in a slot a push begins a session, by what the Controller hears of it", mode: ModeSlots, lanes: 8, secrets: 2, try: func(l *uncountedLane, secret int) observation {
			time.Sleep(interval - time.Duration(inSlot(time.Now())*1e9) + time.Duration(secret)*interval/2)
			l.reader.Push(l.name("m"), "left", `{"urgent":true}`, "")
			d := l.controller.Pushed()
			l.controller.Observed()
			said := ""
			for _, verb := range []string{"channels", "open", "close"} {
				l.controller.Request(subjects.Session(l.name("m")), `{"verb":"`+verb+`"}`)
			}
			for line := range strings.Lines(transcript(l.controller.Observed())) {
				_, text, _ := strings.Cut(line, ": ") // the rest of the budget falls with every trial
				said += leftBits.ReplaceAllString(text, "")
			}
			for _, letter := range []string{"m", "r", "s", "u"} { // lanes differ only in their names
				said = strings.ReplaceAll(said, fmt.Sprintf("%q", l.name(letter)), letter)
			}
			return observation{said: said, charged: d.Capacity}
		}},
		{id: "PRESENCE", text: "not to be connected, or not to answer", mode: ModeSlots, lanes: 8, secrets: 2, share: 2, timed: true, try: func(l *uncountedLane, secret int) observation {
			if secret == 1 && l.absent != nil {
				l.absent.Close()
				l.absent = nil
			} else if secret == 0 && l.absent == nil {
				l.absent = l.rig.Client(l.name("u"), bcp.RoleReader)
			}
			// When the Controller asks must not depend on how long it took to connect.
			time.Sleep(interval - time.Duration(inSlot(time.Now())*1e9))
			began := time.Now()
			id := l.controller.Ask(l.name("u"), askBoolean)
			d := l.controller.Delivery(id)
			return observation{said: fmt.Sprint(d.Outcome, d.Anomalies, string(d.Response)), charged: d.Capacity, took: time.Since(began).Seconds()}
		}},
		{id: "TAINT", text: "to report what it has read, each time that an operator has reset its taint", mode: ModeOpen, lanes: 8, secrets: 2, people: true, try: func(l *uncountedLane, secret int) observation {
			l.who.Request(subjects.Control(bcp.ControlResetTaint), fmt.Sprintf(`{"agent":%q}`, l.name("r")))
			if secret == 1 {
				l.itself.Request(subjects.Session(l.name("r")), `{"verb":"taint","taint":{"source":"web"}}`)
			}
			d := l.askYes()
			return observation{said: d.Taint, charged: d.Capacity}
		}},
	}
}

// rate makes an encoder move secrets, and measures what arrives.
func (t *trial) rate(u uncounted) {
	trials := max(t.config.Trials/2/max(1, u.share), 16)
	var all []observation
	var mu sync.Mutex
	var spent time.Duration
	broken, err := redteam.Use(t.ctx, redteam.Setup{State: t.config.State, Name: "U-" + u.id + "-" + u.mode, Files: uncountedFiles(u.lanes), Edit: inMode(u.mode), Seed: t.config.Seed}, func(r *redteam.Rig) {
		var running sync.WaitGroup
		failed := make([]error, u.lanes)
		who := r.Client(bcp.Operator, bcp.RoleOperator)
		for i := range u.lanes {
			l := &uncountedLane{rig: r, number: i, who: who}
			l.controller, l.itself = r.Client(l.name("m"), bcp.RoleController), r.Client(l.name("r"), bcp.RoleController)
			l.reader, l.other, l.next = r.Client(l.name("r"), bcp.RoleReader), r.Client(l.name("s"), bcp.RoleReader), r.Client(l.name("t"), bcp.RoleReader)
			l.controller.Observe()
			l.itself.Observe()
			random := rand.New(rand.NewPCG(t.config.Seed, uint64(i)))
			running.Go(func() {
				failed[i] = r.Try(func() {
					for n := range (trials+u.lanes-1)/u.lanes + 1 {
						secret, began := random.IntN(u.secrets), time.Now()
						o := u.try(l, secret)
						o.secret = secret
						l.forget()
						if l.failed != nil {
							break
						}
						if n == 0 {
							continue // the first runs on a cold mesh
						}
						mu.Lock()
						all, spent = append(all, o), spent+time.Since(began)
						mu.Unlock()
					}
				})
				if failed[i] == nil {
					failed[i] = l.failed
				}
			})
		}
		running.Wait()
		t.fail(failed...)
	})
	t.result.Evidence = append(t.result.Evidence, broken...)
	t.fail(err)
	if t.err == nil {
		r := estimateRate(u, all, spent/time.Duration(len(all)), rand.New(rand.NewPCG(t.config.Seed, 99)))
		t.result.Rate = &r
	}
}

// forget drops what the lane's connections received.
func (l *uncountedLane) forget() {
	for _, s := range []*redteam.Client{l.controller, l.reader, l.other, l.itself, l.next} {
		s.Observed()
	}
}

// estimateRate returns the rate for these observations, each of which took each.
func estimateRate(u uncounted, all []observation, each time.Duration, random *rand.Rand) Rate {
	const rounds = 2000
	sample := analyse(u.secrets, all, 1, random)
	r := Rate{Mode: u.mode, Secrets: u.secrets, Trials: len(all), Charged: sample.Charged, Moved: sample.Moved, Estimate: sample.Estimate}
	secrets, bins, n := make([]int, len(all)), make([]int, len(all)), timeBins
	var times []float64
	for _, o := range all {
		times = append(times, o.took)
	}
	known := map[string]int{}
	for i, o := range all {
		secrets[i] = o.secret
		if u.timed {
			bins[i] = stats.Bin(o.took, stats.Quantiles(times, timeBins))
			continue
		}
		if _, ok := known[o.said]; !ok {
			known[o.said] = min(len(known), 2*timeBins-1)
		}
		bins[i] = known[o.said]
	}
	if !u.timed {
		n = max(2, len(known))
		n = min(n, 2*timeBins)
	}
	r.P = stats.Permutation(secrets, bins, u.secrets, n, rounds, random)
	r.Seen = stats.WouldHaveSeen(len(all), u.secrets, n)
	if !u.people && each > 0 {
		hour := float64(time.Hour) / float64(each)
		r.PerHour, r.SeenPerHour = r.Moved*hour, r.Seen*hour
	}
	return r
}
