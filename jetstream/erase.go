package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// FirstAt returns the number of the first decision of the journal at or behind a
// time, and a greater one than any where there is none.
func FirstAt(ctx context.Context, js natsjs.JetStream, at time.Time) (uint64, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return math.MaxUint64, nil
	}
	// first returns the first such decision of one record, 0 where it has none.
	first := func(seq uint64) (n uint64) {
		msg, failed := stream.GetMsg(ctx, seq)
		var decisions [][]byte
		if failed == nil {
			decisions, failed = decodeRecord(msg.Data)
		}
		for _, b := range decisions {
			d, failed := bcp.DecodeDecision(b)
			if err = errors.Join(err, failed); err == nil && d.Time >= at.UnixNano() {
				return d.Seq
			}
		}
		err = errors.Join(err, failed)
		return 0
	}
	n := sort.Search(int(state.LastSeq-state.FirstSeq)+1, func(i int) bool { return first(state.FirstSeq+uint64(i)) > 0 })
	seq := state.FirstSeq + uint64(n)
	number := uint64(math.MaxUint64)
	if seq <= state.LastSeq {
		number = first(seq)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	return number, nil
}

// EraseValidated overwrites a channel's validated messages of the decisions in
// front of a number, and returns how many there were.
func EraseValidated(ctx context.Context, js natsjs.JetStream, channel bcp.ChannelKey, before uint64) (erased int, err error) {
	stream, err := js.Stream(ctx, ValidatedStream)
	if err != nil {
		return 0, fmt.Errorf("erasing validated messages: %w", err)
	}
	subject := subjects.Validated(channel.Controller, channel.Reader)
	for from := uint64(1); ; {
		msg, err := stream.GetMsg(ctx, from, natsjs.WithGetMsgSubject(subject))
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			return erased, nil
		}
		if err != nil {
			return erased, fmt.Errorf("erasing validated messages: %w", err)
		}
		number, err := strconv.ParseUint(msg.Header.Get(decisionHeader), 10, 64)
		if err != nil {
			return erased, fmt.Errorf("%w: %s has a message without %s", ErrRecord, ValidatedStream, decisionHeader)
		}
		if number >= before {
			return erased, nil
		}
		if err := stream.SecureDeleteMsg(ctx, msg.Sequence); err != nil {
			return erased, fmt.Errorf("erasing validated messages: %w", err)
		}
		erased++
		from = msg.Sequence + 1
	}
}
