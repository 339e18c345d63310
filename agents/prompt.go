package agents

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// prompts takes the messages of cron_schedules to an agent.
type prompts struct {
	mu      sync.Mutex // guards what follows; taken before the one of lanes
	handler func(context.Context, bcp.Prompt)
	known   *recent[bcp.DeliveryID]    // handled
	busy    map[bcp.DeliveryID]sending // queued or being handled: the newest sending
}

func newPrompts() *prompts {
	return &prompts{known: newRecent[bcp.DeliveryID](maxKnown), busy: make(map[bcp.DeliveryID]sending)}
}

// OnPrompt sets the handler of the messages of the agent's cron_schedules, one
// at a time (PROTOCOL P9.4). Set it before Start. A prompt is acknowledged when
// the handler returns, unless its context has ended: then it comes again.
func (p *prompts) OnPrompt(handler func(context.Context, bcp.Prompt)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = handler
}

// restart forgets the prompts that were queued when the last run ended.
func (p *prompts) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.busy)
}

// receive takes a prompt, or says why it cannot be read. A repeated prompt is
// acknowledged and not handled again; without a handler it is acknowledged at
// once.
func (p *prompts) receive(c *Connection, m *nats.Msg, got bcp.Received, add func(job) bool) error {
	var prompt bcp.Prompt
	if err := got.Decode(&prompt); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, handler, newest := prompt.PromptID, p.handler, c.arrived(m)
	if handler == nil || p.known.has(id) {
		c.reply(newest, nil)
		return nil
	}
	if _, busy := p.busy[id]; busy {
		p.busy[id] = newest
		return nil
	}
	queued := add(func(ctx context.Context, r *run) {
		var err error
		called := r.handle(ctx, func() {
			err = guarded("prompt", string(id), func() error { handler(ctx, prompt); return nil })
		})
		if err != nil {
			c.handlerFailed(err)
		}
		p.ended(c, id, called && ctx.Err() == nil)
	})
	if queued {
		p.busy[id] = newest
	}
	return nil
}

// ended acknowledges a handled prompt. Otherwise it is left to the gateway,
// which sends it again.
func (p *prompts) ended(c *Connection, id bcp.DeliveryID, handled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if handled {
		p.known.add(id)
		c.reply(p.busy[id], nil)
	}
	delete(p.busy, id)
}
