package agents

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Keeper is the client of the process that uses the network for an agent: it has the
// gateway record every request to a host and every model call before it is sent (PROTOCOL
// P13, P15). It needs no Start. Its methods may be used concurrently.
//
// Errors of all methods: [*RefusedError]; [*UnansweredError] when ctx ended first. After
// an error nothing may be sent.
type Keeper struct{ conn *Connection }

// NewKeeper returns the Keeper of a connection. Its creds must have the role keeper,
// and its encoding must be JSON.
func NewKeeper(c *Connection) *Keeper { return &Keeper{conn: c} }

// Agent returns the keeper's agent.
func (k *Keeper) Agent() bcp.AgentName { return k.conn.options.Name }

// NewEgressID returns an id for a request.
func NewEgressID() string { return rand.Text() }

// Reserve asks to make one request and returns nil if it may be sent; Reserve sets its
// Act. A denial is a [guard.Code]. It may be called again with the same request and ID.
func (k *Keeper) Reserve(ctx context.Context, r bcp.EgressRequest) error {
	r.Act = bcp.EgressReserve
	return k.ask(ctx, r, func(receipt bcp.EgressReceipt) error {
		switch {
		case receipt.Allowed:
			return nil
		case receipt.Code == "":
			return ErrMessage
		}
		return receipt.Code
	})
}

// Settle reports the bytes of a reserved request on the wire, in both
// directions. It may be called again.
func (k *Keeper) Settle(ctx context.Context, id string, bytes int64) error {
	return unlessForgotten(k.ask(ctx, bcp.EgressRequest{Act: bcp.EgressSettle, ID: id, Bytes: bytes}, func(receipt bcp.EgressReceipt) error { return understood(receipt.Allowed) }))
}

// unlessForgotten returns the error of a settlement, of which the gateway may know nothing any more.
func unlessForgotten(err error) error {
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.Code == bcp.QueryUnknown {
		return nil
	}
	return err
}

// Refuse reports a request that the keeper itself refused, and why. [guard.ToolChanged]
// has no URL.
func (k *Keeper) Refuse(ctx context.Context, url string, code guard.Code) error {
	return k.ask(ctx, bcp.EgressRequest{Act: bcp.EgressRefuse, URL: url, Code: code}, func(receipt bcp.EgressReceipt) error { return understood(receipt.Code == code) })
}

// ReserveCall asks to make one call of the agent's model and returns nil if it may be
// made; ReserveCall sets its Act. It may be called again with the same call and ID.
func (k *Keeper) ReserveCall(ctx context.Context, r bcp.UsageRequest) error {
	r.Act = bcp.UsageReserve
	return k.call(ctx, r)
}

// SettleCall reports the provider's counts for a reserved call. It may be called
// again.
func (k *Keeper) SettleCall(ctx context.Context, id string, counted cost.Tokens) error {
	return unlessForgotten(k.call(ctx, bcp.UsageRequest{Act: bcp.UsageSettle, ID: id, Tokens: counted}))
}

// ReportModel says why the agent's model fails, or with the zero fault that it works. said
// is what the provider says, without secrets, for the operator alone.
func (k *Keeper) ReportModel(ctx context.Context, fault bcp.ModelFault, said string) error {
	return k.call(ctx, bcp.UsageRequest{Act: bcp.UsageReport, ModelFault: fault, Said: said})
}

func (k *Keeper) call(ctx context.Context, r bcp.UsageRequest) error {
	return report(ctx, k, subjects.Usage(k.Agent()), r, func(receipt bcp.UsageReceipt) error {
		switch {
		case receipt.Type != bcp.TypeUsage:
			return ErrMessage
		case receipt.Allowed:
			return nil
		}
		return &RefusedError{Code: receipt.Code}
	})
}

func (k *Keeper) ask(ctx context.Context, r bcp.EgressRequest, judge func(bcp.EgressReceipt) error) error {
	return report(ctx, k, subjects.Egress(k.Agent()), r, func(receipt bcp.EgressReceipt) error {
		if receipt.Type != bcp.TypeEgress {
			return ErrMessage
		}
		return judge(receipt)
	})
}

// report sends a message of the keeper.
func report[R any](ctx context.Context, k *Keeper, subject string, message any, check func(R) error) error {
	if body, err := bcp.Encode(message, bcp.JSON); err == nil && len(body) > bcp.MaxEgressMessage { // the server would end the connection
		return &RefusedError{Code: bcp.MessageTooLarge}
	}
	_, err := exchange(ctx, k.conn, bcp.JSON, subject, "", message, check)
	return err
}
