package agents

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// prompts takes what cron_schedules tell an agent.
type prompts struct {
	mu      sync.Mutex
	handler func(context.Context, bcp.Prompt)
	known   map[bcp.DeliveryID]bool // waiting, at work or done
}

func (p *prompts) set(handler func(context.Context, bcp.Prompt)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = handler
}

// receive reports false for a message that is no prompt. One that came before is
// acknowledged and not handled again; without a handler it is acknowledged at
// once.
func (p *prompts) receive(c *Connection, m *nats.Msg, add func(job) bool) bool {
	var prompt bcp.Prompt
	if bcp.Decode(m.Data, c.options.Encoding, &prompt) != nil || prompt.Type != bcp.TypePrompt {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	handler := p.handler
	acknowledge := func() {
		if err := c.nc.Publish(m.Reply, nil); err != nil {
			c.log.Debug("acknowledgement not sent", "error", err)
		}
	}
	if handler == nil || p.known[prompt.PromptID] {
		acknowledge()
		return true
	}
	handled := add(func(ctx context.Context, r *run) {
		var err error
		called := r.handle(ctx, func() {
			err = guarded("prompt", string(prompt.PromptID), func() error { handler(ctx, prompt); return nil })
		})
		if err != nil {
			c.handlerFailed(err)
		}
		if called {
			acknowledge()
		}
	})
	if handled {
		if p.known == nil || len(p.known) >= maxKnown {
			p.known = make(map[bcp.DeliveryID]bool)
		}
		p.known[prompt.PromptID] = true
	}
	return true
}
