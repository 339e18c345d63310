package jetstream

import (
	"context"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Measure returns the sizes of the streams, as far as the server knows them; it does
// not set Limit.
func Measure(ctx context.Context, js natsjs.JetStream) (status.Storage, error) {
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return status.Storage{}, fmt.Errorf("measuring the streams: %w", err)
	}
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return status.Storage{}, fmt.Errorf("measuring the streams: %w", err)
	}
	begin, err := Announced(ctx, js, stream.CachedInfo().State.FirstSeq)
	if err != nil {
		return status.Storage{}, err
	}
	state := stream.CachedInfo().State
	return status.Storage{Used: int64(account.Store), Journal: int64(state.Bytes), JournalLimit: max(0, stream.CachedInfo().Config.MaxBytes),
		Records: state.Msgs, Begins: begin.Decision}, nil
}
