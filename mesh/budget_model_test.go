package mesh_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The sequential model of a channel's budget: what each operation returns when
// nothing happens beside it. It shares no code with the gateway. All in bits.

type budgetOp struct {
	kind   string // ask, push, fail or renew
	cost   int    // of an ask or a push; fail: of the query that it ends
	cat2   bool
	client string // request_id or push_id; empty for none
	query  string // fail: whose query
}

type budgetResult struct {
	code      string // empty where it was accepted
	query     string // of an ask
	remaining int    // of an accepted ask
}

// channelBudget is a state of the model.
type channelBudget struct {
	budget, pushBudget, maxCat2 int

	spent, pushed, cat2 int
	renewed             bool // the next charge opens an epoch
	epoch               int
	queries             map[string]int          // epoch by query
	firsts              map[string]budgetResult // by kind and client id
}

func (b channelBudget) equal(c channelBudget) bool {
	return b.spent == c.spent && b.pushed == c.pushed && b.cat2 == c.cat2 && b.renewed == c.renewed && b.epoch == c.epoch &&
		maps.Equal(b.queries, c.queries) && maps.Equal(b.firsts, c.firsts)
}

// step reports whether the operation may return this from state b, and the state
// after it.
func (b channelBudget) step(op budgetOp, out budgetResult) (bool, channelBudget) {
	if first, repeat := b.firsts[op.kind+" "+op.client]; repeat && op.client != "" {
		return out == first, b
	}
	next := b
	if b.renewed && (op.kind == "ask" || op.kind == "push") {
		next.spent, next.pushed, next.cat2, next.renewed, next.epoch = 0, 0, 0, false, b.epoch+1
	}
	want := budgetResult{}
	switch op.kind {
	case "renew":
		next.renewed = true
	case "fail": // a query that ended without an answer costs at most one bit
		if b.queries[op.query] == next.epoch {
			next.spent -= op.cost - min(op.cost, 1)
		}
	case "push":
		if next.spent+op.cost > b.budget || next.pushed+op.cost > b.pushBudget {
			want.code = "budget_exhausted"
			break
		}
		next.spent, next.pushed = next.spent+op.cost, next.pushed+op.cost
	case "ask":
		switch {
		case op.cat2 && next.cat2 >= b.maxCat2:
			want.code = "query_limit_reached"
		case next.spent+op.cost > b.budget:
			want.code = "budget_exhausted"
		default:
			next.spent += op.cost
			if op.cat2 {
				next.cat2++
			}
			want.query, want.remaining = out.query, b.budget-next.spent
			if _, used := b.queries[out.query]; used || out.query == "" {
				return false, b
			}
			next.queries = maps.Clone(b.queries)
			next.queries[out.query] = next.epoch
		}
	}
	if want.code != "" { // nothing was charged: no epoch was opened
		next = b
	}
	if op.client != "" {
		next.firsts = maps.Clone(b.firsts)
		next.firsts[op.kind+" "+op.client] = want
	}
	return out == want, next
}

// model is porcupine's view of a channel that has nothing spent.
func (b channelBudget) model() porcupine.Model {
	b.queries, b.firsts, b.renewed = map[string]int{}, map[string]budgetResult{}, true
	return porcupine.Model{
		Init: func() any { return b },
		Step: func(state, in, out any) (bool, any) {
			ok, next := state.(channelBudget).step(in.(budgetOp), out.(budgetResult))
			return ok, next
		},
		Equal: func(x, y any) bool { return x.(channelBudget).equal(y.(channelBudget)) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
}

// The checker that a test relies on accepts what is linearizable and refuses
// what is not.
//
// covers P4.5
func TestBudgetModelFindsDefects(t *testing.T) {
	t.Parallel()
	channel := channelBudget{budget: 10, pushBudget: 6, maxCat2: 1}
	push := func(cost int, client string) budgetOp { return budgetOp{kind: "push", cost: cost, client: client} }
	ask := func(cost int) budgetOp { return budgetOp{kind: "ask", cost: cost} }
	who := budgetOp{kind: "ask", cost: 4, cat2: true}
	accepted := func(query string, remaining int) budgetResult {
		return budgetResult{query: query, remaining: remaining}
	}
	exhausted := budgetResult{code: "budget_exhausted"}
	op := func(from, to int64, in budgetOp, out budgetResult) porcupine.Operation {
		return porcupine.Operation{Call: from, Return: to, Input: in, Output: out}
	}
	for _, c := range []struct {
		name  string
		sound bool
		ops   []porcupine.Operation
	}{
		{"one behind the other", true, []porcupine.Operation{op(1, 2, ask(4), accepted("a", 6)), op(3, 4, ask(6), accepted("b", 0)), op(5, 6, ask(1), exhausted)}},
		{"in the other order, since they overlap", true, []porcupine.Operation{op(1, 9, ask(4), accepted("a", 0)), op(2, 8, ask(6), accepted("b", 4))}},
		{"in the other order, and they do not", false, []porcupine.Operation{op(1, 2, ask(4), accepted("a", 0)), op(3, 4, ask(6), accepted("b", 4))}},
		{"two that do not fit together", false, []porcupine.Operation{op(1, 9, ask(6), accepted("a", 4)), op(2, 8, ask(6), accepted("b", 4))}},
		{"an overdraft", false, []porcupine.Operation{op(1, 2, ask(6), accepted("a", 4)), op(3, 4, ask(6), accepted("b", 0))}},
		{"refused, and it would fit", false, []porcupine.Operation{op(1, 2, ask(6), exhausted)}},
		{"pushes beyond their part", false, []porcupine.Operation{op(1, 2, push(4, ""), budgetResult{}), op(3, 4, push(4, ""), budgetResult{})}},
		{"pushes within it", true, []porcupine.Operation{op(1, 2, push(4, ""), budgetResult{}), op(3, 4, push(4, ""), exhausted), op(5, 6, ask(6), accepted("a", 0))}},
		{"a repeat", true, []porcupine.Operation{op(1, 2, push(4, "p"), budgetResult{}), op(3, 4, push(4, "p"), budgetResult{}), op(5, 6, ask(6), accepted("a", 0))}},
		{"a repeat that is charged", false, []porcupine.Operation{op(1, 2, push(4, "p"), budgetResult{}), op(3, 4, push(4, "p"), budgetResult{}), op(5, 6, ask(2), accepted("a", 0))}},
		{"a repeat with another outcome", false, []porcupine.Operation{op(1, 2, push(4, "p"), budgetResult{}), op(3, 4, push(4, "p"), exhausted)}},
		{"one category 2 query too many", false, []porcupine.Operation{op(1, 2, who, accepted("a", 6)), op(3, 4, who, accepted("b", 2))}},
		{"a query id that is used twice", false, []porcupine.Operation{op(1, 2, ask(1), accepted("a", 9)), op(3, 4, ask(1), accepted("a", 8))}},
		{"a failure gives back", true, []porcupine.Operation{op(1, 2, ask(9), accepted("a", 1)), op(3, 4, budgetOp{kind: "fail", cost: 9, query: "a"}, budgetResult{}), op(5, 6, ask(9), accepted("b", 0))}},
		{"a failure gives all back", false, []porcupine.Operation{op(1, 2, ask(9), accepted("a", 1)), op(3, 4, budgetOp{kind: "fail", cost: 9, query: "a"}, budgetResult{}), op(5, 6, ask(9), accepted("b", 1))}},
		{"renewed", true, []porcupine.Operation{op(1, 2, ask(9), accepted("a", 1)), op(3, 4, budgetOp{kind: "renew"}, budgetResult{}), op(5, 6, ask(9), accepted("b", 1))}},
		{"a failure of the epoch before", false, []porcupine.Operation{
			op(1, 2, ask(9), accepted("a", 1)), op(3, 4, budgetOp{kind: "renew"}, budgetResult{}), op(5, 6, ask(9), accepted("b", 1)),
			op(7, 8, budgetOp{kind: "fail", cost: 9, query: "a"}, budgetResult{}), op(9, 10, ask(9), accepted("c", 0)),
		}},
	} {
		expect(t, porcupine.CheckOperations(channel.model(), c.ops), c.sound, "%s: linearizable", c.name)
	}
}
