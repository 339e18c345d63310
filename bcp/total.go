package bcp

import "math/big"

// A total budget caps what all channels of a Controller carry together (PROTOCOL
// P4.2). It is divided once and for all, so that no Reader can tell from a refusal
// what another has done: pushes of each channel have a part, and asks the rest.

// Totals are the parts of a Controller's total budget.
type Totals struct {
	Asks   Bits
	Pushes map[ChannelKey]Bits // of channels with subscriptions
}

// Totals divides a Controller's total budget: pushes of each channel may take its push
// budget, or in proportion to it, where all of them would take more than half. It is
// zero if there is none.
func (m *Mesh) Totals(controller AgentName) Totals {
	a, _ := m.Agent(controller)
	if a.TotalBudget == 0 {
		return Totals{}
	}
	t := Totals{Asks: a.TotalBudget, Pushes: m.pushBudgets(controller)}
	sum, half := sumBudgets(t.Pushes), halve(a.TotalBudget)
	if sum.Cmp(big.NewInt(int64(half))) <= 0 {
		t.Asks -= Bits(sum.Int64())
		return t
	}
	for key, part := range t.Pushes {
		p := new(big.Int).Mul(big.NewInt(int64(part)), big.NewInt(int64(half)))
		t.Pushes[key] = Bits(p.Div(p, sum).Int64())
	}
	t.Asks -= half
	return t
}

// TotalFor is the least total budget of which asks have so much, or pushes of the
// channel.
func (m *Mesh) TotalFor(key ChannelKey, kind DecisionKind, part Bits) Bits {
	budgets := m.pushBudgets(key.Controller)
	sum := sumBudgets(budgets)
	if kind != KindPush {
		more := new(big.Int).Set(sum)
		if asks := big.NewInt(int64(part)); more.Cmp(asks) > 0 {
			more = asks
		}
		return part + Bits(more.Int64())
	}
	if budgets[key] == 0 {
		return part
	}
	half := new(big.Int).Mul(big.NewInt(int64(part)), sum)
	half.Add(half, big.NewInt(int64(budgets[key])-1))
	return 2*Bits(half.Div(half, big.NewInt(int64(budgets[key]))).Int64()) - 1
}

// halve is half of a total budget, rounded up.
func halve(total Bits) Bits { return total/2 + total%2 }

// pushBudgets returns what pushes may take of each channel of a Controller that has
// subscriptions.
func (m *Mesh) pushBudgets(controller AgentName) map[ChannelKey]Bits {
	budgets := make(map[ChannelKey]Bits)
	for i := range m.Channels {
		if c := &m.Channels[i]; c.Controller == controller && len(c.Subscriptions) > 0 {
			budgets[c.ChannelKey] = min(c.Budget, c.PushBudget)
		}
	}
	return budgets
}

func sumBudgets(budgets map[ChannelKey]Bits) *big.Int {
	sum := new(big.Int)
	for _, b := range budgets {
		sum.Add(sum, big.NewInt(int64(b)))
	}
	return sum
}
