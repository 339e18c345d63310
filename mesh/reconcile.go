package mesh

import (
	"context"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// Reconcile adds up the journal of a state folder again and compares the result with
// the ledger there and with the state that the journal gives under the definitions.
// No mesh may run on it: then the error wraps [server.ErrInUse]. keys say how sealed
// keys are opened.
func Reconcile(ctx context.Context, state string, def *bcp.Mesh, version string, keys ...accounts.OpenOption) (r status.Reconciliation, err error) {
	err = withStreams(ctx, state, def, keys, func(js natsjs.JetStream) error {
		journal, err := jetstream.OpenJournal(ctx, js)
		if err != nil {
			return err
		}
		made, err := gateway.Replay(ctx, journal, openBases(state), jetstream.NewSealingKeys(js), newStateConfig(def, version))
		if err != nil {
			return err
		}
		r, err = jetstream.Reconcile(ctx, js, openBases(state), 0, made.Pools())
		return err
	})
	if err != nil {
		return r, fmt.Errorf("reconcile: %w", err)
	}
	return r, nil
}
