package mesh_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// withModel has a Reader that a model runs: a token of a request costs 2 dollars a million, and one of a reply 5.
func withModel(more string) map[string]string {
	return map[string]string{
		"mesh.yaml": "models:\n- {name: small, provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1', price: {input: 1, cache_read: 0.1, cache_write: 2, output: 5}}\n",
		"main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"reader.md": "---\nname: reader\nencoding: msgpack\ncommand: builtin\nmodel: small\nsandbox: none\n" + more + "bcp_channels:\n- {peer: main, role: reader}\n---\n",
	}
}

// aCall takes 2,000 tokens: 1,976 of the request and 24 of the reply.
func aCall(id string) bcp.UsageRequest {
	return bcp.UsageRequest{ID: id, Model: "small", RequestBytes: 1976 - cost.Overhead, MaxTokens: 24}
}

const aCallCosts = 1976*2000 + 24*5000

func isExhausted(err error) bool {
	refused, ok := errors.AsType[*agents.RefusedError](err)
	return ok && refused.Code == bcp.BudgetExhausted
}

// A budget holds across a restart and a reload: what was spent is spent, what was reserved and never settled stands, and a
// retry whose answer was lost is charged once.
//
// covers P15.1, P15.3, P15.4, P15.5
func TestModelBudgetOutlivesEverything(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, withModel("token_budget: 6000\n"))
	k := keeperOf(t, m, "reader")
	for range 3 { // one call, and two repeats of it
		noError(t, k.ReserveCall(t.Context(), aCall("a")))
	}
	counts(t, m, 1, meshtest.Of(bcp.KindUsage))
	counted := cost.Tokens{Input: 900, CacheRead: 50, Output: 50}
	for range 2 {
		noError(t, k.SettleCall(t.Context(), "a", counted))
	}
	fails(t, k.ReserveCall(t.Context(), aCall("never settled")), nil, "a name with blanks is taken")
	noError(t, k.ReserveCall(t.Context(), aCall("never-settled")))
	m.Restart(t)
	k = keeperOf(t, m, "reader")
	if err := k.ReserveCall(t.Context(), aCall("b")); err != nil {
		t.Errorf("5,000 of 6,000 tokens: %v", err)
	}
	if err := k.ReserveCall(t.Context(), aCall("c")); !isExhausted(err) {
		t.Errorf("7,000 of 6,000 tokens: %v", err)
	}
	d := m.Wait(t, func(d *bcp.Decision) bool { return d.Code == bcp.BudgetExhausted })
	if u := d.Usage; d.Check != bcp.CheckTokenBudget || u.UsedTokens != 5000 || u.UsedCost != 900*1000+50*100+50*5000+2*aCallCosts || u.Alert != 100 {
		t.Errorf("%+v, %+v", d, u)
	}
	must(m.Reload(t.Context(), meshtest.Parse(t, withModel("token_budget: 7000\n"))))
	k = keeperOf(t, m, "reader")
	if err := k.ReserveCall(t.Context(), aCall("c")); err != nil {
		t.Errorf("after a reload: %v", err)
	}
	if err := k.ReserveCall(t.Context(), aCall("d")); !isExhausted(err) {
		t.Errorf("one too many after a reload: %v", err)
	}
	said := must(m.Agents(t.Context(), ""))
	for _, a := range said.Agents {
		if a.Agent == "main" && a.Model != nil || a.Agent == "reader" && (a.Model == nil || *a.Model != status.ModelUse{Tokens: 7000, USD: 900*1000 + 50*100 + 50*5000 + 3*aCallCosts, TokenBudget: 7000}) {
			t.Errorf("the status of %s says %+v", a.Agent, a.Model)
		}
	}
	uses := status.NewTally(m.Definition, time.Now())
	for _, d := range m.Decisions() {
		uses.Add(&d)
	}
	if got := uses.List(); len(got) != 1 || got[0].Tokens != counted || got[0].ReservedTokens != 6000 || got[0].Calls != 4 || got[0].Refused != 2 || got[0].ReservedCost != 3*aCallCosts || got[0].TokenBudget != 6000 {
		t.Errorf("%+v", got)
	}
}

// provider is a provider that answers as it is told.
type provider struct {
	reply *llm.Reply
	err   error
	calls int
}

func (p *provider) Do(context.Context, *llm.Request) (*llm.Reply, error) {
	p.calls++
	return p.reply, p.err
}

// No record, no call; and what is settled is what the provider counted, unless nobody knows: then all that was reserved.
//
// covers P15.1, P15.4
func TestMeter(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, withModel("token_budget: 100000\n"))
	k := keeperOf(t, m, "reader")
	request := &llm.Request{Model: "m", MaxTokens: 24, Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Constant("Hi")}}}}
	answered := func(u llm.Usage) *llm.Reply {
		return &llm.Reply{Said: []llm.Said{llm.NewSaid("x")}, Stop: llm.StopEnd, Usage: u}
	}
	for name, c := range map[string]struct {
		provider provider
		settled  int64 // -1: not at all
	}{
		"counted":              {provider{reply: answered(llm.Usage{Input: 10, CacheRead: 5, CacheWrite: 3, Output: 2})}, 20},
		"nobody counted":       {provider{reply: answered(llm.Usage{})}, -1},
		"a liar":               {provider{reply: answered(llm.Usage{Input: math.MaxInt64, Output: -4})}, bcp.MaxCallTokens},
		"rate limited":         {provider{err: llm.RateLimited{}}, 0},
		"no key":               {provider{err: llm.Auth{}}, 0},
		"too long":             {provider{err: llm.TooLong{}}, 0},
		"overloaded":           {provider{err: llm.Overloaded{}}, 0},
		"sent, and no answer":  {provider{err: llm.Overloaded{Unknown: true}}, -1},
		"cut":                  {provider{err: llm.Protocol{What: "the reply was cut"}}, -1},
		"refused by the model": {provider{err: llm.Filtered{}}, 0},
		"refused, and counted": {provider{err: llm.Filtered{Usage: llm.Usage{Input: 7, Output: 2}}}, 9},
		"no credit":            {provider{err: llm.Protocol{What: "it answered with status 402", Refused: true}}, 0},
		"interrupted":          {provider{err: context.Canceled}, -1},
	} {
		fresh := meshtest.Start(t, withModel(""))
		p := c.provider
		reply, err := keeper.NewMeter(keeperOf(t, fresh, "reader"), "small", &p).Do(t.Context(), request)
		if reply != c.provider.reply || !errors.Is(err, c.provider.err) || p.calls != 1 {
			t.Errorf("%s: %v, %v, %d calls", name, reply, err, p.calls)
		}
		fresh.Settle(t)
		settled := int64(-1)
		for _, d := range fresh.Decisions() {
			if d.Kind == bcp.KindUsage && d.Usage.Act == bcp.UsageSettle {
				settled = d.Usage.Tokens
			}
		}
		if settled != c.settled {
			t.Errorf("%s: settled with %d tokens, not %d", name, settled, c.settled)
		}
	}
	refused := provider{reply: answered(llm.Usage{Input: 1})}
	meter := keeper.NewMeter(k, "small", &refused)
	noError(t, k.ReserveCall(t.Context(), bcp.UsageRequest{ID: "all", Model: "small", RequestBytes: 100000 - cost.Overhead - 1, MaxTokens: 1}))
	before := m.Count(meshtest.Of(bcp.KindUsage))
	for range 50 { // a cell that asks on and on
		if _, err := meter.Do(t.Context(), request); !errors.Is(err, llm.Budget{}) {
			t.Fatal(err)
		}
	}
	if _, err := keeper.NewMeter(k, "another", &refused).Do(t.Context(), request); !errors.Is(err, llm.Unrecorded{}) {
		t.Errorf("a model that the mesh does not know: %v", err)
	}
	m.Settle(t)
	if n := m.Count(meshtest.Of(bcp.KindUsage)) - before; n > 20 || n < 2 {
		t.Errorf("%d records of 50 calls that no budget pays for", n)
	}
	m.Stop(t)
	ctx := within(t, 100*time.Millisecond)
	fails(t, errorOf(keeper.NewMeter(k, "small", &refused).Do(ctx, request)), nil, "a call without a mesh")
	expect(t, refused.calls, 0, "calls without a record")
}
