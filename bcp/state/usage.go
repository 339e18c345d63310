package state

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// usageState is what the calls of an agent's model have taken. Both pools have an open
// reservation for each call that is not settled, by its id, with its model as the host;
// that of money has none for a call that costs nothing.
type usageState struct {
	tokens, money *guard.Pool
	// Up to when no other alert is due, of 80 and of 100 %.
	warned, alerted int64
	// What the keeper says of the model, and since when it fails, Unix nanoseconds.
	fault bcp.ModelFault
	since int64
}

const (
	// usageWindow is the window of an agent whose definition has none: what a keeper of
	// an agent asks for that no model runs is counted all the same.
	usageWindow = 24 * time.Hour
	// openCalls bounds the calls of an agent that are not settled. Those that nobody ever
	// settles, since the keeper was killed, count to the end of their window.
	openCalls = 4096
)

// usageLimits are those of a definition, of tokens or of money; 0 is no limit.
func usageLimits(run bcp.Run, most int64) guard.PoolLimits {
	return guard.PoolLimits{Bytes: cmp.Or(most, math.MaxInt64), HostBytes: math.MaxInt64, Window: cmp.Or(run.Window, usageWindow), Reservations: openCalls}
}

// DecideUsage judges what the keeper of an agent says of a call of its model. It is false
// for what leaves nothing to record: what was answered before, and what comes beyond
// max_refusals.
func (s *State) DecideUsage(m bcp.Moment, agent bcp.AgentName, body []byte) (bcp.Decision, bool) {
	d, a := s.fromKeeper(m, bcp.KindUsage, agent, body)
	if a == nil {
		return d, false
	}
	r, code := bcp.ParseUsage(body)
	d.Usage = &bcp.UsageChange{Act: r.Act, ID: r.ID}
	switch {
	case code != "":
		return a.usage.refused(d, bcp.CheckMessage, code), true
	case r.Act == bcp.UsageSettle:
		return s.settleUsage(d, a, r)
	case r.Act == bcp.UsageReport:
		return a.usage.report(d, r.ModelFault)
	case s.suspended[agent]:
		return a.usage.refused(d, bcp.CheckSuspended, bcp.Suspended), true
	}
	return s.reserveUsage(d, a, r)
}

// report takes that the model fails, or works: a change of what is known is recorded.
func (u *usageState) report(d bcp.Decision, fault bcp.ModelFault) (bcp.Decision, bool) {
	d.Verdict, d.Usage.Fault, d.Usage.Status, d.Usage.Since = bcp.Accept, fault.Fault, fault.Status, u.since
	if u.since == 0 {
		d.Usage.Since = d.Time
	}
	u.count(&d, use{}, use{})
	return d, fault != u.fault
}

// ModelFault is why the model of an agent fails, and since when; none if it works.
func (s *State) ModelFault(agent bcp.AgentName) (fault bcp.ModelFault, since time.Time) {
	if a := s.agents[agent]; a != nil && a.usage.since != 0 {
		return a.usage.fault, time.Unix(0, a.usage.since)
	}
	return fault, since
}

func (s *State) reserveUsage(d bcp.Decision, a *agentState, r bcp.UsageRequest) (bcp.Decision, bool) {
	u, c, run := &a.usage, d.Usage, a.definition.Run
	model, known := s.mesh.ModelOf(r.Model)
	price, priced := model.Price()
	if !known || !priced && run.CostBudget > 0 {
		return u.refused(d, bcp.CheckModel, bcp.NotPermitted), true
	}
	c.Model, c.Unpriced = r.Model, !priced
	c.Cost, c.Tokens = price.AtMost(r.RequestBytes, r.MaxTokens)
	limits := usageLimits(run, run.TokenBudget)
	call := guard.PoolHop{ID: r.ID, Host: r.Model, Bytes: c.Tokens, Until: limits.Until(d.At())}
	if before, open := u.tokens.Open(d.At(), r.ID); open {
		money, _ := u.money.Open(d.At(), r.ID)
		if before.Host == call.Host && before.Bytes == call.Bytes && money.Bytes == int64(c.Cost) {
			d.Verdict = bcp.Accept
			return d, false
		}
		return u.refused(d, bcp.CheckRepeat, bcp.Malformed), true
	}
	if u.tokens.Fit(d.At(), limits, call) != guard.Fits {
		return u.exhausted(d, bcp.CheckTokenBudget, call.Until), true
	}
	call.Bytes = int64(c.Cost)
	if call.Bytes > 0 && u.money.Fit(d.At(), usageLimits(run, int64(run.CostBudget)), call) != guard.Fits {
		return u.exhausted(d, bcp.CheckCostBudget, call.Until), true
	}
	d.Verdict, c.Until = bcp.Accept, call.Until
	u.count(&d, use{reserved: c.Tokens}, use{reserved: int64(c.Cost)})
	return d, true
}

func (s *State) settleUsage(d bcp.Decision, a *agentState, r bcp.UsageRequest) (bcp.Decision, bool) {
	u, c, run := &a.usage, d.Usage, a.definition.Run
	call, open := u.tokens.Open(d.At(), r.ID)
	if !open { // settled already, or its window is over
		d.Verdict, d.Code = bcp.Reject, bcp.QueryUnknown
		return d, false
	}
	money, _ := u.money.Open(d.At(), r.ID)
	c.Model, c.Reserved, c.Tokens = call.Host, call.Seq, r.Sum()
	c.Input, c.CacheRead, c.CacheWrite, c.Output = r.Input, r.CacheRead, r.CacheWrite, r.Output
	model, _ := s.mesh.ModelOf(call.Host)
	price, priced := model.Price()
	c.Unpriced = !priced
	switch {
	case money.Bytes == 0: // it cost nothing, or nobody knew what
	case priced:
		c.Cost = price.Of(r.Tokens)
	default:
		c.Cost = bcp.USD(money.Bytes)
	}
	d.Verdict, c.Until = bcp.Accept, usageLimits(run, 0).Until(d.At())
	u.count(&d, use{c.Tokens, -call.Bytes}, use{int64(c.Cost), -money.Bytes})
	switch {
	case reached(c.UsedTokens, run.TokenBudget, 0) || reached(int64(c.UsedCost), int64(run.CostBudget), 0):
		u.alert(&d, 100)
	case reached(c.UsedTokens, run.TokenBudget, 5) || reached(int64(c.UsedCost), int64(run.CostBudget), 5):
		u.alert(&d, 80)
	}
	return d, true
}

// reached reports whether what is used is all of a budget but a part of it.
func reached(used, budget, part int64) bool {
	if part > 0 {
		return budget > 0 && used >= budget-budget/part
	}
	return budget > 0 && used >= budget
}

// use is what a decision adds to a pool.
type use struct{ settled, reserved int64 }

// count says what counts after a decision that adds so much: also if a provider says
// that it counted more than there are numbers.
func (u *usageState) count(d *bcp.Decision, tokens, money use) {
	d.Usage.UsedTokens, d.Usage.UsedCost = tokens.bytesAfter(u.tokens, d.At()), bcp.USD(money.bytesAfter(u.money, d.At()))
}

// ModelUse is what counts of the model of an agent at a time, reserved calls included.
func (s *State) ModelUse(agent bcp.AgentName, now time.Time) (tokens int64, money bcp.USD) {
	if a := s.agents[agent]; a != nil {
		tokens, money = use{}.bytesAfter(a.usage.tokens, now), bcp.USD(use{}.bytesAfter(a.usage.money, now))
	}
	return tokens, money
}

func (add use) bytesAfter(p *guard.Pool, now time.Time) int64 {
	counts := p.Use(now)
	reserved := counts.ReservedBytes + add.reserved
	return bcp.Plus(bcp.Plus(counts.Bytes, add.settled), reserved)
}

func (u *usageState) refused(d bcp.Decision, check bcp.Check, code bcp.Code) bcp.Decision {
	u.count(&d, use{}, use{})
	return refuse(d, check, code)
}

func (u *usageState) exhausted(d bcp.Decision, check bcp.Check, until int64) bcp.Decision {
	d = u.refused(d, check, bcp.BudgetExhausted)
	d.Usage.Until = until
	u.alert(&d, 100)
	return d
}

// alert has a decision tell people, unless they were told in this window.
func (u *usageState) alert(d *bcp.Decision, percent int) {
	if percent == 100 && d.Time >= u.alerted || percent == 80 && d.Time >= max(u.warned, u.alerted) {
		d.Usage.Alert = percent
	}
}

// applyUsage moves what a decision says, and compares the result with what it recorded.
func (s *State) applyUsage(d *bcp.Decision) error {
	a, c := s.allAgents[d.Agent], d.Usage
	if c == nil {
		return errUnfounded
	}
	if a == nil { // nobody that is known
		return nil
	}
	u := &a.usage
	switch {
	case c.Alert == 100:
		u.alerted = c.Until
	case c.Alert > 0:
		u.warned = c.Until
	}
	if d.Verdict != bcp.Accept {
		return nil
	}
	call := guard.PoolHop{ID: c.ID, Host: c.Model, Bytes: c.Tokens, Until: c.Until, Seq: d.Seq}
	switch c.Act {
	case bcp.UsageReserve:
		u.tokens.Reserve(d.At(), call)
		if call.Bytes = int64(c.Cost); call.Bytes > 0 {
			u.money.Reserve(d.At(), call)
		}
	case bcp.UsageSettle:
		if !u.tokens.Settle(d.At(), c.ID, c.Tokens, c.Until) {
			return errUnfounded
		}
		u.money.Settle(d.At(), c.ID, int64(c.Cost), c.Until)
	case bcp.UsageReport:
		u.fault, u.since = c.ModelFault(), c.Since
		if c.Fault == "" {
			u.since = 0
		}
	default:
		return errUnfounded
	}
	if tokens, usd := (use{}).bytesAfter(u.tokens, d.At()), bcp.USD((use{}).bytesAfter(u.money, d.At())); tokens != c.UsedTokens || usd != c.UsedCost {
		return fmt.Errorf("the model of %s would have taken %d tokens and %s USD and is recorded with %d and %s", d.Agent, tokens, usd, c.UsedTokens, c.UsedCost)
	}
	return nil
}
