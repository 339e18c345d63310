package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// ErrLost says that the journal has lost what it had acknowledged. A server that
// finds a damaged file drops what stands behind the damage without a word, and a
// journal that ends early is whole as far as it goes.
var ErrLost = errors.New("the journal has lost records")

// CheckEnd compares the end of the journal, the decision with the number last,
// with what was projected from it: a projection is never ahead.
func CheckEnd(ctx context.Context, js natsjs.JetStream, last uint64) error {
	for _, p := range projections {
		done, err := projected(ctx, js, p)
		if err != nil {
			return fmt.Errorf("looking at the end of the journal: %w", err)
		}
		if done.decision > last {
			return fmt.Errorf("%w: it ends at decision %d, and the %s shows %d", ErrLost, last, p.kind, done.decision)
		}
	}
	return nil
}
