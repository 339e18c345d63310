package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// cursorPrefix is the prefix of the names of journal consumers that are cursors.
	cursorPrefix = "cursor-"
	// cursorPage is how many records are fetched at once.
	cursorPage = 64
	// cursorPending is how many records may be taken and not done: more are taken when
	// some of these are done.
	cursorPending = 10_000
	// CursorPatience is the time after which an unfinished record comes again, unless
	// [Entry.Working] extends it.
	CursorPatience = 2 * time.Second
)

// Cursor is a durable position in the journal: it returns the records that are not marked
// done, each at least once. It is a durable consumer of JetStream, which only reads; on a
// cluster it has the journal's replicas. A cursor is used by one goroutine at a time.
type Cursor struct {
	consumer natsjs.Consumer
	created  time.Time
}

// Entry is one record of the journal.
type Entry struct {
	msg       natsjs.Msg
	Decisions []bcp.Decision // sealed content stays sealed
	Sequence  uint64         // of the record
	Stored    time.Time      // by the server's clock
}

// OpenCursor returns the cursor of that name. A new one begins with the first record
// from since or later.
func OpenCursor(ctx context.Context, js natsjs.JetStream, name string, since time.Time) (*Cursor, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return nil, fmt.Errorf("open the cursor %s: %w", name, err)
	}
	consumer, err := stream.Consumer(ctx, cursorPrefix+name)
	if errors.Is(err, natsjs.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, natsjs.ConsumerConfig{
			Durable: cursorPrefix + name, DeliverPolicy: natsjs.DeliverByStartTimePolicy, OptStartTime: &since,
			AckPolicy: natsjs.AckExplicitPolicy, AckWait: CursorPatience, MaxDeliver: -1, MaxAckPending: cursorPending,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the cursor %s: %w", name, err)
	}
	return &Cursor{consumer, consumer.CachedInfo().Created}, nil
}

// Created is when the cursor was made.
func (c *Cursor) Created() time.Time { return c.created }

// Next returns the entries to handle now, in the order of the journal; there may be none.
// An entry whose decisions cannot be read has none.
func (c *Cursor) Next() ([]Entry, error) {
	batch, err := c.consumer.FetchNoWait(cursorPage)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var entries []Entry
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		e := Entry{msg: msg, Sequence: meta.Sequence.Stream, Stored: meta.Timestamp}
		// The gateway refuses to serve an unreadable journal, so a cursor does not stop
		// at one.
		records, _ := decodeRecord(msg.Data())
		for _, b := range records {
			if d, err := bcp.DecodeDecision(b); err == nil {
				e.Decisions = append(e.Decisions, d)
			}
		}
		entries = append(entries, e)
	}
	if err := batch.Error(); err != nil && len(entries) == 0 {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return entries, nil
}

// Done marks the record as finished.
func (e *Entry) Done() error { return e.msg.Ack() }

// Later makes the record come again after a time.
func (e *Entry) Later(after time.Duration) error {
	return e.msg.NakWithDelay(max(after, time.Millisecond))
}

// Working says that the record is still being handled.
func (e *Entry) Working() error { return e.msg.InProgress() }

// DropCursors deletes all cursors but those named.
func DropCursors(ctx context.Context, js natsjs.JetStream, keep map[string]bool) error {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return fmt.Errorf("look for cursors: %w", err)
	}
	names := stream.ConsumerNames(ctx)
	var drop []string
	for name := range names.Name() {
		if cursor, ours := strings.CutPrefix(name, cursorPrefix); ours && !keep[cursor] {
			drop = append(drop, name)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("look for cursors: %w", err)
	}
	for _, name := range drop {
		if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound) {
			return fmt.Errorf("drop a cursor: %w", err)
		}
	}
	return nil
}
