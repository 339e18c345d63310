package tighten

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// MinMessages is how many messages a channel, or a subscription, has to have before lines
// are proposed for it: fewer say little about what is still to come.
const MinMessages = 50

// Message is an answer or a push of a channel that was delivered: accepted at once, or
// held and let through by a person.
type Message struct {
	Seq          uint64 // of its decision
	Time         int64  // Unix nanoseconds
	Subscription bcp.SubscriptionID
	Epoch        uint64
	Answer       []byte // canonical
	Use                 // what was charged
}

// Use is what was used of an epoch, by a message or the most at once.
type Use struct{ Nominal, Capacity bcp.Bits }

func (u Use) plus(other Use) Use  { return Use{u.Nominal + other.Nominal, u.Capacity + other.Capacity} }
func (u Use) minus(other Use) Use { return Use{u.Nominal - other.Nominal, u.Capacity - other.Capacity} }

// History is what is known of a channel. The zero value is empty.
type History struct {
	Messages []Message // in the order of the journal
	// Pushes are the times of all pushes that were accepted or held, also of those that no
	// person let through: max_rate counts them.
	Pushes map[bcp.SubscriptionID][]int64
	Epochs map[uint64]Use
	// Asked is the highest category of an accepted ask; 0: nothing was asked.
	Asked bcp.Category
}

// Change is one thing that a proposal narrows: an item of a subscription, its rate, or a
// limit of the channel.
type Change struct {
	Subscription bcp.SubscriptionID `json:"subscription_id,omitempty"`
	Item         string             `json:"item,omitempty"`
	Was          string             `json:"was"` // as YAML
	Would        string             `json:"would"`
	// The bits are those of one answer of the subscription, with this change alone; of a
	// budget, those of an epoch. 0 stands for no limit.
	NominalWas    bcp.Bits `json:"nominal_bits_was"`
	Nominal       bcp.Bits `json:"nominal_bits"`
	CapacityWas   bcp.Bits `json:"capacity_bits_was"`
	Capacity      bcp.Bits `json:"capacity_bits"`
	Refused       int      `json:"refused"` // messages of the history, decided again
	refusesByRate bool
}

// Proposal narrows one channel. Without Changes it is advice alone.
type Proposal struct {
	Controller bcp.AgentName `json:"controller"`
	Reader     bcp.AgentName `json:"reader"`
	Messages   int           `json:"messages"`
	Changes    []Change      `json:"changes,omitempty"`
	Advice     []string      `json:"advice,omitempty"`
	// Outliers are messages that alone need at least half of the bits of their
	// subscription, and for which no room is made: look at them first.
	Outliers []uint64 `json:"outliers,omitempty"`
	Refused  int      `json:"refused"` // of Messages
	// CapacityWas and Capacity are what the messages were charged, and what those that are
	// accepted again would be; refused ones count in neither.
	CapacityWas bcp.Bits `json:"capacity_bits_was"`
	Capacity    bcp.Bits `json:"capacity_bits"`

	Channel bcp.Channel `json:"-"` // as it would be
	history *History
}

// Propose narrows the specs and max_category of a channel to what its history has.
// settings are those of the channel's specs. Rates and budgets follow with
// [Proposal.Decided].
func Propose(c bcp.Channel, settings bcp.Settings, h *History) *Proposal {
	p := &Proposal{Controller: c.Controller, Reader: c.Reader, Messages: len(h.Messages), Channel: c, history: h}
	p.Channel.Subscriptions = slices.Clone(c.Subscriptions)
	if len(h.Messages) < MinMessages {
		p.advise("%d of at least %d messages that lines are proposed from: try again later", len(h.Messages), MinMessages)
		return p
	}
	highest := max(h.Asked, 1)
	for i := range p.Channel.Subscriptions {
		sub := &p.Channel.Subscriptions[i]
		highest = max(highest, sub.Spec.Category)
		messages := p.of(sub.ID)
		if len(messages) < MinMessages {
			p.advise("%s: %d of at least %d messages; if it is not needed, remove it", sub.ID, len(messages), MinMessages)
			continue
		}
		t := newTightening(sub.Spec, settings.OfSubscription(*sub, len(c.Subscriptions)), messages)
		if t == nil {
			continue
		}
		t.run(p, sub)
	}
	if highest < c.MaxCategory {
		p.Channel.MaxCategory = highest
		p.Changes = append(p.Changes, Change{Was: fmt.Sprintf("max_category: %d", c.MaxCategory), Would: fmt.Sprintf("max_category: %d", highest)})
	}
	return p
}

func (p *Proposal) advise(format string, args ...any) {
	p.Advice = append(p.Advice, fmt.Sprintf(format, args...))
}

// of returns the messages of a subscription.
func (p *Proposal) of(id bcp.SubscriptionID) (messages []Message) {
	for _, m := range p.history.Messages {
		if m.Subscription == id {
			messages = append(messages, m)
		}
	}
	return messages
}

// Decision is what comes of a message of the history when it is decided again; the zero value
// where it cannot be, since what was received is there no more.
type Decision struct {
	Refused bool
	Field   string // the item that was answered wrongly
	Rate    bool   // it came too soon
	Use            // what it is charged
}

// Decided takes, for each message of the history, what the proposed specs and rates make of
// it. It counts what they refuse, and sets the budgets to what the epochs would have used.
// What cannot be decided again counts as it was.
func (p *Proposal) Decided(decisions []Decision) {
	if len(decisions) != len(p.history.Messages) || p.Messages < MinMessages {
		return
	}
	for i, d := range decisions {
		m := &p.history.Messages[i]
		if d == (Decision{}) {
			d.Use = m.Use
			decisions[i] = d
		}
		if !d.Refused {
			p.CapacityWas, p.Capacity = p.CapacityWas+m.Capacity, p.Capacity+d.Capacity
			continue
		}
		p.Refused++
		for j := range p.Changes {
			if c := &p.Changes[j]; c.Subscription == m.Subscription && m.Subscription != "" && (d.Rate && c.refusesByRate || !d.Rate && !c.refusesByRate && c.Item == d.Field) {
				c.Refused++
			}
		}
	}
	p.budgets(decisions)
}

// Rates proposes max_rate for subscriptions without one, or with a greater one of the same
// span: before the history is decided again.
func (p *Proposal) Rates() {
	for i := range p.Channel.Subscriptions {
		sub := &p.Channel.Subscriptions[i]
		messages := p.of(sub.ID)
		if len(messages) < MinMessages || len(p.history.Pushes[sub.ID]) < len(messages) {
			continue
		}
		span := cmp.Or(sub.MaxRate.Span, 24*time.Hour)
		counts := busiest(p.history.Pushes[sub.ID], int64(span))
		n := room(counts)
		if len(counts) >= stretches && n <= bcp.MaxRateCount && (sub.MaxRate.Count == 0 || n < sub.MaxRate.Count) {
			was := sub.MaxRate.String()
			sub.MaxRate = bcp.Rate{Count: n, Span: span}
			p.Changes = append(p.Changes, Change{Subscription: sub.ID, Was: "max_rate: " + cmp.Or(was, "none"), Would: "max_rate: " + sub.MaxRate.String(), refusesByRate: true})
		}
	}
}

// stretches is how many spans of a rate have to have pushes before a rate is proposed.
const stretches = 7

// busiest returns the greatest number of pushes in a span within each stretch of it that
// has any, sorted.
func busiest(times []int64, span int64) (counts []int) {
	first, stretch := 0, int64(-1)
	for i := range times {
		for times[i]-times[first] >= span {
			first++
		}
		if s := times[i] / span; s != stretch || len(counts) == 0 {
			stretch = s
			counts = append(counts, 0)
		}
		counts[len(counts)-1] = max(counts[len(counts)-1], i-first+1)
	}
	slices.Sort(counts)
	return counts
}

// room is the limit for what sorted counts need: the greatest of them with a quarter more,
// but no more than twice that of three quarters of them. A flood of a week leaves no trace.
func room(counts []int) int {
	most, usual := counts[len(counts)-1], counts[len(counts)*3/4]
	return min(most+most/4+1, 2*usual+2)
}

// budgets sets the budgets of an epoch.
func (p *Proposal) budgets(decisions []Decision) {
	use := maps.Clone(p.history.Epochs)
	var least Use // that any message needs
	for i, d := range decisions {
		m := &p.history.Messages[i]
		u, known := use[m.Epoch]
		if u = u.minus(m.Use); !d.Refused {
			u = u.plus(d.Use)
			least.Nominal, least.Capacity = max(least.Nominal, d.Nominal), max(least.Capacity, d.Capacity)
		}
		if known {
			use[m.Epoch] = u
		}
	}
	if len(use) == 0 {
		return
	}
	var nominal, capacity []bcp.Bits
	for _, u := range use {
		nominal, capacity = append(nominal, max(u.Nominal, least.Nominal)), append(capacity, max(u.Capacity, least.Capacity))
	}
	c := &p.Channel
	budget, change := enough(nominal), Change{NominalWas: c.Budget}
	if budget < c.Budget {
		change.Was, change.Would, change.Nominal = "budget_bits: "+whole(c.Budget), "budget_bits: "+whole(budget), budget
		c.Budget = budget
		change.Refused = p.beyond(decisions, func(d *Decision) bcp.Bits { return d.Nominal }, budget)
		p.Changes = append(p.Changes, change)
	}
	switch budget = enough(capacity); {
	case c.ReleaseInterval == 0:
		p.advise("capacity_budget_bits needs a release_interval; the epochs would use %s", budget.Words())
	case c.CapacityBudget == 0 || budget < c.CapacityBudget:
		was := "none"
		if c.CapacityBudget > 0 {
			was = whole(c.CapacityBudget)
		}
		p.Changes = append(p.Changes, Change{Was: "capacity_budget_bits: " + was, Would: "capacity_budget_bits: " + whole(budget), CapacityWas: c.CapacityBudget, Capacity: budget,
			Refused: p.beyond(decisions, func(d *Decision) bcp.Bits { return d.Capacity }, budget)})
		c.CapacityBudget = budget
	}
}

// enough is the budget for what epochs use: what nineteen of twenty need and a quarter more,
// in whole bits; the greatest of fewer, with a half more.
func enough(uses []bcp.Bits) bcp.Bits {
	slices.Sort(uses)
	most := uses[len(uses)-1]
	bits := min(most+most/4, uses[len(uses)*19/20]*5/4)
	if len(uses) < 20 {
		bits = most + most/2
	}
	return (bits/bcp.Bit + 1) * bcp.Bit
}

func whole(b bcp.Bits) string { return fmt.Sprint(int64((b + bcp.Bit - 1) / bcp.Bit)) }

// beyond counts the messages for which a budget has no room any more in their epoch.
func (p *Proposal) beyond(decisions []Decision, price func(*Decision) bcp.Bits, budget bcp.Bits) (n int) {
	used := map[uint64]bcp.Bits{}
	for i := range decisions {
		if d := &decisions[i]; !d.Refused {
			m := &p.history.Messages[i]
			if used[m.Epoch]+price(d) > budget {
				n++
				continue
			}
			used[m.Epoch] += price(d)
		}
	}
	return n
}
