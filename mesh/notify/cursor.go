package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// The cursor of a route is a durable consumer of the journal, which only reads; on a
// cluster it has the journal's replicas. It returns each record until that is acknowledged.
const (
	// cursorPrefix is the prefix of the names of journal consumers that are cursors.
	cursorPrefix = "cursor-"
	// cursorPage is how many records are fetched at once.
	cursorPage = 64
	// cursorPending is how many records may be taken and not done: more are taken when
	// some of these are done.
	cursorPending = 10_000
	// cursorPatience is the time after which an unfinished record comes again, unless
	// it is said to be in progress.
	cursorPatience = 2 * time.Second
)

// entry is one record of the journal.
type entry struct {
	natsjs.Msg
	decisions []bcp.Decision // sealed content stays sealed
	stored    time.Time      // by the server's clock
}

// openCursor returns the cursor of that name. A new one begins with the first record
// from since or later.
func openCursor(ctx context.Context, js natsjs.JetStream, name string, since time.Time) (natsjs.Consumer, error) {
	consumer, err := js.Consumer(ctx, jetstream.CommitStream, cursorPrefix+name)
	if errors.Is(err, natsjs.ErrConsumerNotFound) {
		consumer, err = js.CreateConsumer(ctx, jetstream.CommitStream, natsjs.ConsumerConfig{
			Durable: cursorPrefix + name, DeliverPolicy: natsjs.DeliverByStartTimePolicy, OptStartTime: &since,
			AckPolicy: natsjs.AckExplicitPolicy, AckWait: cursorPatience, MaxDeliver: -1, MaxAckPending: cursorPending,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the cursor %s: %w", name, err)
	}
	return consumer, nil
}

// nextEntries returns the entries to handle now, in the order of the journal; there may be none.
// What cannot be read of one is left out: the gateway refuses to serve such a journal.
func nextEntries(cursor natsjs.Consumer) (entries []entry, err error) {
	batch, err := cursor.FetchNoWait(cursorPage)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		e := entry{Msg: msg, stored: meta.Timestamp}
		records, _ := jetstream.DecodeRecord(msg.Data())
		for _, b := range records {
			if d, err := bcp.DecodeDecision(b); err == nil {
				e.decisions = append(e.decisions, d)
			}
		}
		entries = append(entries, e)
	}
	if err := batch.Error(); err != nil && len(entries) == 0 {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return entries, nil
}

// DropCursors deletes the cursors of all routes but those named: a route that is added
// again begins from scratch.
func DropCursors(ctx context.Context, js natsjs.JetStream, keep map[string]bool) error {
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	if err != nil {
		return fmt.Errorf("look for cursors: %w", err)
	}
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if cursor, ours := strings.CutPrefix(name, cursorPrefix); ours && !keep[cursor] {
			if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
				return fmt.Errorf("drop a cursor: %w", err)
			}
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("look for cursors: %w", err)
	}
	return nil
}
