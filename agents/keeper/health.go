package keeper

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// patience is how long a provider may send nothing at all before people are told. The call
	// goes on.
	patience = 30 * time.Second
	// busyTwice is how many calls in a row a provider may refuse for lack of capacity, or leave
	// unreached, before people are told: one is not worth a word.
	busyTwice = 2
	// proseTwice is how many replies in a row may be text where a tool has to be called.
	proseTwice = 2
)

// Health tells the mesh when the calls of an agent's model begin to fail and why, and when
// they succeed again, once each. What a provider says goes to the operator alone. It may be
// used concurrently.
type Health struct {
	provider llm.Provider
	report   func(ctx context.Context, fault bcp.ModelFault, said string) error
	log      hclog.Logger

	mu          sync.Mutex // guards what follows, and is held while the mesh is told
	busy, prose int        // in a row
	now         bcp.ModelFault
	told        bool // the mesh knows now
}

// NewHealth returns the watch over single calls of a model, which tells report.
func NewHealth(report func(context.Context, bcp.ModelFault, string) error, log hclog.Logger, p llm.Provider) *Health {
	return &Health{provider: p, report: report, log: log}
}

// Do implements [llm.Provider].
func (h *Health) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	over := false
	silent := time.AfterFunc(patience, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !over {
			h.tell(ctx, bcp.ModelFault{Fault: bcp.FaultSilent}, "")
		}
	})
	defer silent.Stop()
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { silent.Stop() }}
	reply, err := h.provider.Do(httptrace.WithClientTrace(ctx, trace), r)
	if ctx.Err() != nil {
		return reply, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	over = true
	fault, known := FaultOf(err)
	switch {
	case fault.Fault == bcp.FaultRate, fault.Fault == bcp.FaultOverloaded, fault.Fault == bcp.FaultUnreached:
		h.busy++
		known = h.busy >= busyTwice
	case err != nil && !known: // of this request, of the budget or of the mesh
		h.log.Warn("the model did not answer", "error", err)
	case err != nil:
	case len(reply.Calls) > 0:
		h.busy, h.prose = 0, 0
	case r.Insists():
		h.busy, h.prose = 0, h.prose+1
		fault, known = bcp.ModelFault{Fault: bcp.FaultProse}, h.prose >= proseTwice
	default: // text, which is no result of some conversations
		h.busy, known = 0, h.now.Fault != bcp.FaultProse
	}
	if known {
		said := ""
		if answered, ok := errors.AsType[*llm.Answered](err); ok {
			said = answered.Said
		}
		h.tell(ctx, fault, said)
	}
	return reply, err
}

// tell tells the mesh, if it does not know yet, and the log at the beginning and at the end.
// h.mu is held.
func (h *Health) tell(ctx context.Context, fault bcp.ModelFault, said string) {
	if h.told && fault == h.now {
		return
	}
	switch works := (bcp.ModelFault{}); {
	case h.now == works && fault != works:
		h.log.Warn("the model did not answer", "why", fault.String(), "provider_says", hclog.Quote(said))
	case h.now != works && fault == works:
		h.log.Warn("the model answers again")
	}
	h.now = fault
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	h.told = h.report(ctx, fault, said[:min(len(said), bcp.MaxSaid)]) == nil // or the next call tells it
}

// FaultOf returns what an error says of the provider, none if there was no error. It is not
// known of an error that is of one request, of the budget or of the mesh.
func FaultOf(err error) (fault bcp.ModelFault, known bool) {
	answered, isAnswered := errors.AsType[*llm.Answered](err)
	if isAnswered && answered.Status != http.StatusOK {
		fault.Status = answered.Status
	}
	overloaded, isOverloaded := errors.AsType[llm.Overloaded](err)
	protocol, isProtocol := errors.AsType[llm.Protocol](err)
	switch {
	case err == nil:
	case errors.As(err, new(llm.Auth)):
		fault.Fault = bcp.FaultKey
	case errors.As(err, new(llm.RateLimited)):
		fault.Fault = bcp.FaultRate
	case isOverloaded && isAnswered && answered.Status/100 != 2:
		fault.Fault = bcp.FaultOverloaded
	case isOverloaded && overloaded.Unknown:
		fault.Fault = bcp.FaultSilent
	case isOverloaded && isAnswered:
		fault.Fault = bcp.FaultOverloaded
	case isOverloaded:
		fault.Fault = bcp.FaultUnreached
	case isAnswered && isProtocol && (fault.Status != 0 || protocol.Refused):
		fault.Fault = bcp.FaultRefused
	case isAnswered && isProtocol:
		fault.Fault = bcp.FaultReply
	default:
		return fault, false
	}
	return fault, true
}
