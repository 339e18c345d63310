package mesh_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
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
	k, fresh := keeperOf(t, m, "reader"), meshtest.Start(t, withModel("")) // which has no budget
	ofFresh := keeperOf(t, fresh, "reader")
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
		p, before := c.provider, len(fresh.Decisions())
		reply, err := keeper.NewMeter(ofFresh, "small", &p).Do(t.Context(), request)
		failIf(t, reply != c.provider.reply || !errors.Is(err, c.provider.err) || p.calls != 1,
			"%s: %v, %v, %d calls", name, reply, err, p.calls)
		fresh.Settle(t)
		settled := int64(-1)
		for _, d := range fresh.Decisions()[before:] {
			if d.Kind == bcp.KindUsage && d.Usage.Act == bcp.UsageSettle {
				settled = d.Usage.Tokens
			}
		}
		expect(t, settled, c.settled, "%s: settled tokens", name)
	}
	refused := provider{reply: answered(llm.Usage{Input: 1})}
	meter := keeper.NewMeter(k, "small", &refused)
	noError(t, k.Usage(t.Context(), bcp.UsageRequest{Act: bcp.UsageReserve, ID: "all", Model: "small", RequestBytes: 100000 - bcp.CallOverhead - 1, MaxTokens: 1}))
	before := m.Count(meshtest.Of(bcp.KindUsage))
	for range 50 { // a cell that asks on and on
		_, err := meter.Do(t.Context(), request)
		stopIf(t, !errors.Is(err, llm.Budget{}), "%v", err)
	}
	_, err := keeper.NewMeter(k, "another", &refused).Do(t.Context(), request)
	failIf(t, !errors.Is(err, llm.Unrecorded{}), "a model that the mesh does not know: %v", err)
	m.Settle(t)
	n := m.Count(meshtest.Of(bcp.KindUsage)) - before
	failIf(t, n > 20 || n < 2, "%d records of 50 calls that no budget pays for", n)
	m.Stop(t)
	ctx := within(t, 100*time.Millisecond)
	fails(t, errorOf(keeper.NewMeter(k, "small", &refused).Do(ctx, request)), nil, "a call without a mesh")
	expect(t, refused.calls, 0, "calls without a record")
}
