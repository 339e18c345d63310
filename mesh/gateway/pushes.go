package gateway

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// pushes are those of Readers against subscriptions.
type pushes struct{ plain }

func (pushes) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	s := &o.message.subject
	d := g.state.DecidePush(now, s.Reader, s.Controller, s.Subscription, o.message.body)
	return d, d.Code != bcp.RateLimited
}

func (p pushes) refuse(g *Gateway, o *outcome) {
	if o.gathered {
		p.release(g, o)
	} else {
		g.answer(o.message, p.refusal(g, o.message, o.decision.Code))
	}
}

func (pushes) refusal(g *Gateway, m *message, code bcp.Code) any {
	s := &m.subject
	result := bcp.ValidationResult{Type: bcp.TypeValidationResult, SubscriptionID: s.Subscription,
		Status: bcp.StatusRefused, Code: code, Detail: code.Info().Text}
	if code == bcp.RateLimited {
		wait := g.state.RetryAfter(g.clock(), s.Reader, s.Controller, s.Subscription)
		result.RetryAfter = int64((wait + time.Second - 1) / time.Second)
	}
	return result
}

func (pushes) release(g *Gateway, o *outcome) { g.answer(o.message, o.decision.Result()) }
