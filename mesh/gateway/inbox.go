package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Limits of an agent's queue at the gateway. Beyond the first two its messages
// wait in the client library, beyond the others they are dropped and counted as
// refusals: a flood affects only its sender.
const (
	laneMessages    = 256
	laneBytes       = 4 << 20
	pendingMessages = 4096
	pendingBytes    = 8 << 20
)

// Limits of one step: a batch fits one record.
const (
	maxBatch      = jetstream.MaxRecordDecisions / 4
	maxBatchBytes = jetstream.MaxRecordBytes / 4
)

// inbox has the waiting messages: a lane for each agent, served in turn.
type inbox struct {
	arrived chan struct{} // has an element if something may wait

	mu     sync.Mutex
	lanes  []*lane
	turns  []*lane // lanes with waiting messages
	closed bool
}

// input waits to be decided about: a message or an event.
type input struct {
	message *message
	event   event
	lane    *lane // where it waits; nil for an event of the gateway's own
	dropped bool  // it found a mistake
}

func (in *input) size() int {
	if in.message == nil {
		return 0
	}
	return len(in.message.body)
}

// message is what an agent or a person sent.
type message struct {
	subject subjects.Subject
	kind    *received // what is done with it
	reply   string
	body    []byte
	from    bcp.Sender // where the server says who it is: of people and about roles

	shows bool // it has a mark, or says that its sender has none
	mark  string

	prepared *state.Prepared  // an ask's spec, compiled
	rules    *kernel.OwnRules // those of a run, compiled
}

// lane is the bounded queue of one agent, or of the server's events.
type lane struct {
	inbox   *inbox
	room    sync.Cond // on the inbox's mutex
	waiting []*input
	bytes   int
	held    bool  // it has no turn
	hurried bool  // nobody waits for room
	aside   aside // owned by the gateway's goroutine: why an agent's lane is held
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

func (b *inbox) lane() *lane {
	l := &lane{inbox: b}
	l.room.L = &b.mu
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lanes = append(b.lanes, l)
	return l
}

// put waits for room in the lane, unless waiting has ended. A closed inbox accepts
// nothing.
func (l *lane) put(in *input) { l.putUntil(context.Background(), in) }

// putUntil is put, but gives up if ctx ends before there is room.
func (l *lane) putUntil(ctx context.Context, in *input) {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	full := func() bool {
		return len(l.waiting) >= laneMessages || l.bytes+in.size() > laneBytes && len(l.waiting) > 0
	}
	for !b.closed && ctx.Err() == nil && !l.hurried && full() {
		stop := context.AfterFunc(ctx, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			l.room.Broadcast()
		})
		l.room.Wait()
		stop()
	}
	if b.closed || ctx.Err() != nil || full() {
		return
	}
	in.lane = l
	l.waiting = append(l.waiting, in)
	l.bytes += in.size()
	if len(l.waiting) == 1 && !l.held {
		b.turns = append(b.turns, l)
	}
	b.wake()
}

// hold keeps the lane's messages, and senders that wait for room, waiting until it is
// released.
func (l *lane) hold(held bool) {
	b := l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.held == held {
		return
	}
	if l.held = held; held {
		b.turns = slices.DeleteFunc(b.turns, func(other *lane) bool { return other == l })
	} else if len(l.waiting) > 0 {
		b.turns = append(b.turns, l)
		b.wake()
	}
}

// endWaiting releases senders that wait for room, and makes none wait any more.
func (l *lane) endWaiting() {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.hurried = true
	l.room.Broadcast()
}

// wake must be called with the mutex held.
func (b *inbox) wake() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take fills an empty batch with waiting messages, one of each lane in turn.
func (b *inbox) take(batch []*input) []*input {
	b.mu.Lock()
	defer b.mu.Unlock()
	for bytes := 0; len(b.turns) > 0 && len(batch) < maxBatch && bytes <= maxBatchBytes; {
		l := b.turns[0]
		b.turns = b.turns[1:]
		in := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		if len(l.waiting) > 0 {
			b.turns = append(b.turns, l)
		}
		batch = append(batch, in)
		bytes += in.size()
		l.bytes -= in.size()
		l.room.Broadcast()
	}
	return batch
}

// putBack has messages of a batch that was too long wait again, each in front of its lane's.
// It returns those of no lane.
func (b *inbox) putBack(batch []*input) (rest []*input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range slices.Backward(batch) {
		l := in.lane
		if l == nil {
			rest = append(rest, in)
			continue
		}
		l.waiting = slices.Insert(l.waiting, 0, in)
		l.bytes += in.size()
		if len(l.waiting) == 1 && !l.held {
			b.turns = append(b.turns, l)
		}
	}
	if len(b.turns) > 0 {
		b.wake()
	}
	return rest
}

// next waits until there are messages for an empty batch, or until the time comes.
func (b *inbox) next(ctx context.Context, batch []*input, due <-chan time.Time) []*input {
	for {
		if batch = b.take(batch); len(batch) > 0 {
			return batch
		}
		select {
		case <-b.arrived:
		case <-due:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
}

// close releases senders that wait for room.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, l := range b.lanes {
		l.room.Broadcast()
	}
}
