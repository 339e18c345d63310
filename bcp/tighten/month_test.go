package tighten_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
)

// written is a message of the synthetic month.
type written struct {
	tighten.Message
	received []byte
	honest   bool
}

// source makes what an honest Reader says of one item, and what a hijacked one does.
type source struct {
	field           bcp.Field
	question        bcp.Question
	honest, hostile func(r *rand.Rand, n int) any
}

var (
	people = strings.Fields("anna ben carla dario elif farid grace hugo ines jonas kenji lena mara noor olga pavel")
	topics = strings.Fields("invoice meeting budget report server login order delivery refund contract laptop visit quarter team plan")
	verbs  = strings.Fields("asks wants needs sends checks moves cancels confirms about for with the new old late")
)

func pick(r *rand.Rand, of []string) string { return of[int(float64(len(of))*r.Float64()*r.Float64())] }

func sentence(r *rand.Rand, most int) string {
	words := make([]string, 3+r.IntN(most-2))
	for i := range words {
		words[i] = pick(r, append(topics, verbs...))
	}
	return strings.Join(words, " ")
}

// noise is text that carries as much as it can.
func noise(r *rand.Rand, most int) string {
	letters := []rune("abcdefghijklmnoprstuvwz")
	switch r.IntN(3) {
	case 1:
		letters = []rune("абвгдежзиклмнопрстуфхцчш")
	case 2:
		letters = []rune("一丁七万丈三上下不与丐丑专且世丘丙业东丝丢两严丧个中丰临丸丹为主丽举乃久么义之乌乍乎乏乐")
	}
	words := make([]string, 1+r.IntN(most))
	for i := range words {
		for range 2 + r.IntN(6) {
			words[i] += string(letters[r.IntN(len(letters))])
		}
	}
	return strings.Join(words, " ")
}

// sources are the items that channels of the month have, as people define them: wide.
func sources(category bcp.Category) []source {
	kinds := strings.Fields("billing support meeting newsletter spam personal other legal sales press audit travel")
	return map[bcp.Category][]source{
		1: {
			{field: bcp.Field{Name: "kind", Type: bcp.TypeEnum, Values: kinds},
				honest: func(r *rand.Rand, _ int) any { return pick(r, kinds[:4]) }, hostile: func(r *rand.Rand, _ int) any { return kinds[r.IntN(len(kinds))] }},
			{field: bcp.Field{Name: "amount", Type: bcp.TypeInteger, Min: new(int64(0)), Max: new(int64(1_000_000_000))},
				honest: func(r *rand.Rand, _ int) any { return int64(min(20+r.ExpFloat64()*60, 900)) }, hostile: func(r *rand.Rand, _ int) any { return r.Int64N(1_000_000_001) }},
			{field: bcp.Field{Name: "count", Type: bcp.TypeInteger, Min: new(int64(1)), Max: new(int64(1 << 20))},
				honest: func(_ *rand.Rand, n int) any { return int64(n + 1) }, hostile: func(r *rand.Rand, _ int) any { return 1 + r.Int64N(1<<20) }},
			{field: bcp.Field{Name: "score", Type: bcp.TypeInteger, Min: new(int64(-1 << 40)), Max: new(int64(1 << 40))},
				honest: func(r *rand.Rand, _ int) any { return int64(r.IntN(101)) }, hostile: func(r *rand.Rand, _ int) any { return r.Int64N(1<<41) - 1<<40 }},
			{field: bcp.Field{Name: "urgent", Type: bcp.TypeBoolean},
				honest: func(r *rand.Rand, _ int) any { return r.IntN(5) == 0 }, hostile: func(r *rand.Rand, _ int) any { return r.IntN(2) == 0 }},
		},
		2: {
			{question: bcp.Question{ID: "gist", Question: "What is it?", MaxWords: 30, ExpectedFormat: bcp.FormatShortText},
				honest: func(r *rand.Rand, _ int) any { return sentence(r, 12) }, hostile: func(r *rand.Rand, _ int) any { return noise(r, 30) }},
			{question: bcp.Question{ID: "who", Question: "Who?", MaxWords: 5, ExpectedFormat: bcp.FormatPersonName},
				honest: func(r *rand.Rand, _ int) any { return strings.ToUpper(pick(r, people)) + " " + pick(r, people) }, hostile: func(r *rand.Rand, _ int) any { return strings.TrimSpace(noise(r, 5)) }},
			{question: bcp.Question{ID: "topic", Question: "Which topic?", MaxWords: 10, ExpectedFormat: bcp.FormatShortText},
				honest: func(r *rand.Rand, _ int) any { return pick(r, topics) }, hostile: func(r *rand.Rand, _ int) any { return noise(r, 10) }},
			{question: bcp.Question{ID: "day", Question: "When?", MaxWords: 3, ExpectedFormat: bcp.FormatDate},
				honest: func(r *rand.Rand, n int) any { return fmt.Sprintf("2026-%02d-%02d", 1+r.IntN(12), 1+r.IntN(28)) },
				hostile: func(r *rand.Rand, _ int) any {
					return fmt.Sprintf("%04d-%02d-%02d", 1+r.IntN(9999), 1+r.IntN(12), 1+r.IntN(28))
				}},
			{question: bcp.Question{ID: "pages", Question: "How many pages?", MaxWords: 1, ExpectedFormat: bcp.FormatInteger},
				honest: func(r *rand.Rand, _ int) any { return strconv.Itoa(1 + r.IntN(40)) }, hostile: func(r *rand.Rand, _ int) any { return strconv.Itoa(r.IntN(1_000_000_000)) }},
		},
	}[category]
}

const monthDays = 30

// monthOf makes the month of one channel: pushes at times of day, some of them by a hijacked
// Reader. burst is a week in which nearly all are.
func monthOf(seed uint64, messages int, poison float64, burst bool) (bcp.Channel, bcp.Settings, []written) {
	r := rand.New(rand.NewPCG(seed, 49))
	category := bcp.Category(1 + seed%2)
	all := sources(category)
	sub := bcp.Subscription{ID: "news", Spec: bcp.Spec{Category: category}}
	first := int(seed/2) % len(all)
	var used []source
	for i := range 2 + int(seed/4)%3 {
		s := all[(first+i)%len(all)]
		used = append(used, s)
		if category == 1 {
			sub.Spec.Fields = append(sub.Spec.Fields, s.field)
		} else {
			sub.Spec.Questions = append(sub.Spec.Questions, s.question)
		}
	}
	c := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: "c", Reader: bcp.AgentName(fmt.Sprint("r", seed))}, MaxCategory: 3, BaseCategory: 1, Budget: bcp.MaxBits * bcp.Bit, PushBudget: bcp.MaxBits * bcp.Bit,
		MaxCat2Queries: -1, ReleaseInterval: time.Minute, QueryTTL: time.Hour, ApprovalTTL: 24 * time.Hour, Subscriptions: []bcp.Subscription{sub}}
	settings := c.Settings(&bcp.Mesh{}, constraint.Compile)
	v := must(bcp.Compile(sub.Spec, settings.OfSubscription(sub, 1)))
	var month []written
	for n, honest := 0, 0; n < messages; {
		day := n * monthDays / messages
		share := poison
		if burst && day >= 6 && day < 9 {
			share = 0.9
		}
		hostile := r.Float64() < share
		answer := map[string]any{}
		for _, s := range used {
			value := s.honest
			if hostile {
				value = s.hostile
			}
			answer[s.field.Name+s.question.ID] = value(r, honest)
		}
		raw := must(json.Marshal(answer, json.Deterministic(true)))
		verdict := v.Validate(raw, bcp.JSON)
		if verdict.Outcome != bcp.Accept {
			continue // refused or held: not in the history
		}
		if !hostile {
			honest++
		}
		at := int64(day)*int64(24*time.Hour) + int64(n*monthDays%messages)*int64(24*time.Hour)/int64(messages)
		month = append(month, written{honest: !hostile, received: raw, Message: tighten.Message{Seq: uint64(n + 1), Time: at, Subscription: sub.ID, Epoch: uint64(day + 1), Answer: verdict.Answer.JSON(),
			Use: tighten.Use{Nominal: v.Prices().Nominal, Capacity: v.Prices().Capacity + bcp.PushTiming(1)}}})
		n++
	}
	return c, settings, month
}

func historyOf(messages []written) *tighten.History {
	h := &tighten.History{Epochs: map[uint64]tighten.Use{}, Pushes: map[bcp.SubscriptionID][]int64{}}
	for _, m := range messages {
		h.Messages = append(h.Messages, m.Message)
		h.Pushes[m.Subscription] = append(h.Pushes[m.Subscription], m.Time)
		u := h.Epochs[m.Epoch]
		h.Epochs[m.Epoch] = tighten.Use{Nominal: u.Nominal + m.Nominal, Capacity: u.Capacity + m.Capacity}
	}
	return h
}

// decide decides messages again by a channel, one by one; limits says whether rates and
// budgets hold too.
func decide(c bcp.Channel, settings bcp.Settings, messages []written, limits bool) (decisions []tighten.Decision) {
	sub := c.Subscriptions[0]
	v := must(bcp.Compile(sub.Spec, settings.OfSubscription(sub, 1)))
	var accepted []int64
	used := map[uint64]tighten.Use{}
	for _, m := range messages {
		verdict := v.Validate(m.received, bcp.JSON)
		d := tighten.Decision{Refused: verdict.Outcome != bcp.Accept, Field: verdict.Field, Use: tighten.Use{Nominal: v.Prices().Nominal, Capacity: v.Prices().Capacity + bcp.PushTiming(1)}}
		if rate := sub.MaxRate; !d.Refused && rate.Count > 0 {
			if n := len(accepted); n >= rate.Count && m.Time-accepted[n-rate.Count] < int64(rate.Span) {
				d.Refused, d.Rate = true, true
			}
		}
		if u := used[m.Epoch]; limits && !d.Refused {
			u.Nominal, u.Capacity = u.Nominal+d.Nominal, u.Capacity+d.Capacity
			if d.Refused = u.Nominal > c.Budget || c.CapacityBudget > 0 && u.Capacity > c.CapacityBudget; !d.Refused {
				used[m.Epoch] = u
			}
		}
		if !d.Refused {
			accepted = append(accepted, m.Time)
		}
		decisions = append(decisions, d)
	}
	return decisions
}

// learn proposes from messages as the command does.
func learn(c bcp.Channel, settings bcp.Settings, messages []written) *tighten.Proposal {
	p := tighten.Propose(c, settings, historyOf(messages))
	p.Rates()
	p.Decided(decide(p.Channel, settings, messages, false))
	return p
}

// What is learnt on the first half of a month accepts nearly all of the honest second half
// for half of the capacity, whether all Readers are honest, some are hijacked all the time,
// or most of them for days. BCPMESH_MONTH is how many messages the month has.
//
// covers P4.1, P11.3
func TestMonth(t *testing.T) {
	t.Parallel()
	const channels = 20
	messages := 12_000
	if n, err := strconv.Atoi(os.Getenv("BCPMESH_MONTH")); err == nil {
		messages = n
	}
	for name, tt := range map[string]struct {
		poison float64
		burst  bool
	}{"honest": {0, false}, "a twentieth hostile": {0.05, false}, "a fifth hostile": {0.2, false}, "hostile days": {0, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			honest, accepted := 0, 0
			var was, would bcp.Bits
			shares := 0 // of capacity, by channel, in thousandths
			for seed := range uint64(channels) {
				c, settings, month := monthOf(seed, messages/channels, tt.poison, tt.burst)
				half := len(month) / 2
				p := learn(c, settings, month[:half])
				var later []written
				for _, m := range month[half:] {
					if m.honest {
						later = append(later, m)
					}
				}
				fits, one, two := 0, bcp.Bits(0), bcp.Bits(0)
				decisions := decide(p.Channel, settings, later, true)
				for i, d := range decisions {
					if honest++; !d.Refused {
						fits++
						one, two = one+later[i].Capacity, two+d.Capacity
					}
				}
				accepted += fits
				was, would, shares = was+one, would+two, shares+int(1000*two/max(one, 1))
				t.Logf("channel %d: %d of %d accepted, capacity of all %s -> %s; the proposal refuses %d of %d", seed, fits, len(later), one.Rounded(), two.Rounded(), p.Refused, p.Messages)
			}
			t.Logf("%s: %d of %d honest messages accepted (%.1f %%), capacity bits %.1f %% of before, of a channel %.1f %%", name, accepted, honest, 100*float64(accepted)/float64(honest), 100*float64(would)/float64(was), float64(shares)/10/channels)
			failIf(t, accepted*100 < honest*95, "%d of %d honest messages are accepted", accepted, honest)
			if 2*would > was || shares > 500*channels {
				t.Errorf("%s capacity of %s, of a channel %d thousandths", would, was, shares/channels)
			}
		})
	}
}
