package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// recordedAnswers is a journal of pushes of the three workloads, and as many
// acknowledgements, with the key that sealed it.
type recordedAnswers struct {
	config  state.Config
	key     bcp.SealingKey
	records [][]byte
	answers [][]byte // what the pushes say, and by what they are judged
	specs   []*bcp.Validator
}

const benchAnswers = 3 * bcptest.WorkloadInputs

func recordAnswers(tb testing.TB, which ...int) recordedAnswers {
	tb.Helper()
	const reader, controller = "mail", "planner"
	channel := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: controller, Reader: reader}, MaxCategory: 3, Budget: 1 << 60, PushBudget: 1 << 60,
		MaxCat2Queries: -1, BaseCategory: 2, QueryTTL: time.Minute, MaxPendingApprovals: 1 << 20, ApprovalTTL: time.Hour}
	var r recordedAnswers
	var inputs [][][]byte
	var validators []*bcp.Validator
	for i, w := range bcptest.Workloads() {
		channel.Subscriptions = append(channel.Subscriptions, bcp.Subscription{ID: bcp.SubscriptionID(fmt.Sprint("s", i)), Spec: w.Spec})
		v, err := bcp.Compile(w.Spec, bcp.Settings{})
		if err != nil {
			tb.Fatal(err)
		}
		inputs, validators = append(inputs, w.Inputs(false)), append(validators, v)
	}
	r.config = state.Config{Mesh: &bcp.Mesh{TimeZone: time.UTC, IdleTimeout: time.Hour, MaxRefusals: 30, Channels: []bcp.Channel{channel}, Agents: []bcp.Agent{
		{Name: reader, BaseTaint: bcp.TaintHigh, Encoding: bcp.JSON, Reader: true}, {Name: controller, BaseTaint: bcp.TaintLow, Encoding: bcp.JSON, Controller: true}}}}
	state, err := state.New(r.config)
	if err != nil {
		tb.Fatal(err)
	}
	if r.key, err = bcp.NewSealingKey([32]byte{1}); err != nil {
		tb.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	commit := func(d bcp.Decision, body []byte) {
		if body != nil {
			err = d.SealRaw(r.key, body)
			if err == nil {
				err = d.Seal(r.key)
			}
		}
		var record []byte
		if err == nil {
			record, err = bcp.EncodeDecision(&d)
		}
		if err == nil {
			err = state.Apply(&d, bcp.RecordDigest(record))
		}
		if err != nil {
			tb.Fatal(err)
		}
		r.records = append(r.records, record)
	}
	for i := range benchAnswers {
		s := which[i%len(which)]
		answer := inputs[s][i%bcptest.WorkloadInputs]
		body := fmt.Appendf(nil, `{"type":"bcp_response","subscription_id":"s%d","controller":"planner","push_id":"p%d","response":%s}`, s, i, answer)
		moment := func() bcp.Moment {
			now = now.Add(time.Millisecond)
			return bcp.Moment{Now: now, Fresh: fmt.Sprint(len(r.records)), Salt: [16]byte{1, byte(len(r.records) >> 8), byte(len(r.records))}}
		}
		d := state.DecidePush(moment(), reader, controller, bcp.SubscriptionID(fmt.Sprint("s", s)), body)
		if d.Verdict == bcp.Reject {
			tb.Fatalf("%s: %+v", body, d)
		}
		commit(d, body)
		r.answers, r.specs = append(r.answers, answer), append(r.specs, validators[s])
		if d.Delivery != "" {
			ack, _ := state.DecideAcknowledge(moment(), controller, bcp.RoleController, d.Delivery)
			commit(ack, nil)
		}
	}
	return r
}

func (r *recordedAnswers) validate(i int) { r.specs[i].Validate(r.answers[i], bcp.JSON) }

func (r *recordedAnswers) open(tb testing.TB, record []byte) state.Recorded {
	rec := state.Recorded{Record: record}
	var err error
	if rec.Decision, err = bcp.DecodeDecision(record); err == nil {
		err = rec.Decision.Open(r.key)
	}
	if err == nil {
		rec.Message, err = rec.Decision.OpenRaw(r.key)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

// redecide makes all decisions again and returns how many differ.
func (r *recordedAnswers) redecide(tb testing.TB, config state.Config, recorded func(i int) *state.Recorded) (differ int) {
	redecider, err := state.NewRedecider(config)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range r.records {
		result, err := redecider.Next(recorded(i), true)
		if err != nil {
			tb.Fatal(err)
		}
		if result.Comparison == state.ComparedDiffers {
			differ++
		}
	}
	return differ
}

// BenchmarkRedecide compares making recorded decisions about answers again with
// judging the same answers alone. "judged" has them decoded and open, "journal"
// reads sealed records; each answer comes with its acknowledgement. "other" is
// under other definitions, where the record as a whole is not compared.
//
// covers P11.3
func BenchmarkRedecide(b *testing.B) {
	for name, which := range map[string][]int{"category=1": {0}, "category=2": {1}, "category=3": {2}, "all": {0, 1, 2}} {
		r := recordAnswers(b, which...)
		opened := make([]state.Recorded, len(r.records))
		for i, record := range r.records {
			opened[i] = r.open(b, record)
		}
		run := func(part string, all func()) {
			b.Run(name+"/"+part, func(b *testing.B) {
				for b.Loop() {
					all()
				}
				b.ReportMetric(float64(b.N)*benchAnswers/b.Elapsed().Seconds(), "answers/s")
			})
		}
		other := r.config
		other.Definitions[0]++
		none := func(config state.Config, recorded func(i int) *state.Recorded) func() {
			return func() {
				if n := r.redecide(b, config, recorded); n > 0 {
					b.Fatalf("%d differ", n)
				}
			}
		}
		ready := func(i int) *state.Recorded { return &opened[i] }
		sealed := func(i int) *state.Recorded { rec := r.open(b, r.records[i]); return &rec }
		run("validate", func() {
			for i := range r.answers {
				r.validate(i)
			}
		})
		run("judged", none(r.config, ready))
		run("judged-other", none(other, ready))
		run("journal", none(r.config, sealed))
		run("journal-other", none(other, sealed))
	}
}
