package agents

import (
	"context"

	"github.com/bcpmesh/bcpmesh/bcp"
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

// Egress reserves a request to a host, and returns nil if it may be sent; settles it with its
// bytes on the wire, in both directions; or says that the keeper itself refused one, and why. A
// denial is a guard.Code. It may be called again with the same request and ID.
func (k *Keeper) Egress(ctx context.Context, r bcp.EgressRequest) error {
	return report(ctx, k, subjects.Egress(k.conn.options.Name), r, func(receipt bcp.KeeperReceipt[guard.Code]) error {
		refuses := r.Act == bcp.EgressRefuse
		switch {
		case receipt.Type != bcp.TypeEgress:
		case refuses && receipt.Code == r.Code, !refuses && receipt.Allowed:
			return nil
		case r.Act == bcp.EgressReserve && receipt.Code != "":
			return receipt.Code
		}
		return ErrMessage
	})
}

// Usage reserves a call of the agent's model, and returns nil if it may be made; settles it with
// the provider's counts; or says why the model fails, or with the zero fault that it works. It
// may be called again with the same call and ID.
func (k *Keeper) Usage(ctx context.Context, r bcp.UsageRequest) error {
	return report(ctx, k, subjects.Usage(k.conn.options.Name), r, func(receipt bcp.KeeperReceipt[bcp.Code]) error {
		switch {
		case receipt.Type != bcp.TypeUsage:
			return ErrMessage
		case receipt.Allowed:
			return nil
		}
		return &RefusedError{Code: receipt.Code}
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
