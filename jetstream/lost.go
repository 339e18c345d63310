package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// ErrLost says that the journal has lost acknowledged records. A server that
// finds a damaged file silently drops everything after the damage, and a
// shortened journal is valid as far as it goes.
var ErrLost = errors.New("the journal has lost records")

// CheckEnd compares the end of the journal, the decision with the number last, with
// the projections, if any: neither a projection nor a replica of one is ever ahead.
func CheckEnd(ctx context.Context, js natsjs.JetStream, last uint64) error {
	for _, p := range projections {
		shown, err := p.shown(ctx, js)
		if errors.Is(err, natsjs.ErrStreamNotFound) || errors.Is(err, natsjs.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at the end of the journal: %w", err)
		}
		if shown > last {
			return fmt.Errorf("%w: it ends at decision %d, and the %s shows %d", ErrLost, last, p.kind, shown)
		}
	}
	return nil
}

// shown returns the newest decision that a replica of the projection shows.
func (p projection) shown(ctx context.Context, js natsjs.JetStream) (uint64, error) {
	m, err := newest(ctx, js, p.stream, p.filter())
	if errors.Is(err, nats.ErrNoResponders) { // no stream, or no up-to-date replica
		done, err := projected(ctx, js, p)
		return done.decision, err
	}
	if err != nil {
		return 0, err
	}
	return p.decision(m.Header)
}

// Unanswered reports whether an error says nothing about the contents of the
// streams: the server did not answer, has closed them, or could not ask a
// stream's leader, or a cluster's leader does not know enough nodes yet to place
// one.
func Unanswered(err error) bool {
	if slices.ContainsFunc([]error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
		nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, natsjs.ErrNoStreamResponse, ErrUnanswered,
	}, func(e error) bool { return errors.Is(err, e) }) {
		return true
	}
	var refused *natsjs.APIError
	return errors.As(err, &refused) && (refused.Code == http.StatusServiceUnavailable || unheardNodes(refused))
}

// noPeers is the server's JSClusterNoPeersErrF.
const noPeers natsjs.ErrorCode = 10005

// unheardNodes reports whether a stream could not be placed because the leader, perhaps
// just elected, has not heard from nodes yet. A full disk has a different error.
func unheardNodes(refused *natsjs.APIError) bool {
	return refused.ErrorCode == noPeers &&
		(strings.Contains(refused.Description, "peer offline") || strings.Contains(refused.Description, "miscellaneous issue"))
}
