package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxLines is how many lines one message of the ledger has at most.
	maxLines = 256
	// maxProjected is how many decisions are projected together at most: fewer than
	// gatherDecisions, and one record.
	maxProjected = gatherDecisions - 1 + MaxRecordDecisions
)

// lines are the ledger lines of decisions that are projected together, by channel.
type lines struct {
	channels map[bcp.ChannelKey]int // index in groups of the newest
	groups   [][]bcp.LedgerLine
}

func (l *lines) add(line bcp.LedgerLine) {
	key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
	at, ok := l.channels[key]
	if !ok || len(l.groups[at]) == maxLines {
		at = len(l.groups)
		l.channels[key], l.groups = at, append(l.groups, nil)
	}
	l.groups[at] = append(l.groups[at], line)
}

func (l *lines) messages() []outgoing {
	messages := make([]outgoing, 0, len(l.groups))
	for _, group := range l.groups {
		newest := &group[len(group)-1]
		messages = append(messages, outgoing{
			subjects.Ledger(newest.Controller, newest.Reader), bcp.EncodeLedgerLine(newest, group[:len(group)-1]...), newest.Seq,
		})
	}
	return messages
}

// ledgerState is the state of a ledger when a projector begins. Of decisions that are
// projected together, it may have the messages of some channels and not of others.
type ledgerState struct {
	ledger  natsjs.Stream
	newest  uint64                    // newest decision that it shows
	channel map[bcp.ChannelKey]uint64 // the same for a channel, if it was looked up
}

// shows reports whether the ledger has a line. It has none after its newest, and all that
// are too far before it to have been projected together with it. For those between, the
// newest message of the channel decides, since a channel's lines come in order.
func (s *ledgerState) shows(ctx context.Context, line *bcp.LedgerLine) (bool, error) {
	if line.Seq > s.newest || line.Seq+maxProjected <= s.newest {
		return line.Seq <= s.newest, nil
	}
	key := bcp.ChannelKey{Controller: line.Controller, Reader: line.Reader}
	newest, known := s.channel[key]
	if !known {
		msg, err := s.ledger.GetLastMsgForSubject(ctx, subjects.Ledger(line.Controller, line.Reader))
		var of bcp.LedgerLine
		if err == nil {
			of, err = bcp.DecodeLedgerLine(msg.Data)
		}
		if err != nil && !errors.Is(err, natsjs.ErrMsgNotFound) {
			return false, fmt.Errorf("reading %s: %w", ledger.stream, err)
		}
		newest = of.Seq
		s.channel[key] = newest
	}
	return line.Seq <= newest, nil
}
