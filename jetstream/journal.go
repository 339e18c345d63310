package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// appendTimeout bounds the wait for the acknowledgement of one record.
const appendTimeout = 10 * time.Second

// Errors of the journal. The first ones mean: release nothing, throw the state away.
var (
	// ErrFenced says that another process wrote to the journal.
	ErrFenced = errors.New("another gateway writes to this journal")
	// ErrUncertain says that the record may or may not be stored.
	ErrUncertain = errors.New("the journal did not acknowledge a record")
	// ErrFull, a kind of ErrUncertain, says that the journal has no room for the
	// record.
	ErrFull = fmt.Errorf("%w: it is full", ErrUncertain)
	// ErrRecord says that a record of the journal cannot be read.
	ErrRecord = errors.New("a record of the journal is damaged")
	// ErrMissing, a kind of ErrRecord, says that the server does not have all records: it
	// skips those that it could not read when it started.
	ErrMissing = fmt.Errorf("%w: records are missing", ErrRecord)
	// ErrPosition says that the journal does not have the position of a
	// snapshot.
	ErrPosition = errors.New("the journal does not have the decision of the snapshot")
	// errEnds, a kind of ErrPosition, says that it ends earlier.
	errEnds = fmt.Errorf("%w: it ends", ErrPosition)
)

// Journal is the commit log. It is not safe for concurrent use:
// the gateway's one goroutine owns it.
type Journal struct {
	js      natsjs.JetStream
	subject string
	last    uint64 // sequence of the newest record in the stream
	record  []byte // buffer of the last written record
}

// Last returns the sequence of the newest record read or written.
func (j *Journal) Last() uint64 { return j.last }

// OpenJournal returns the journal. Call Replay before Append.
func OpenJournal(ctx context.Context, js natsjs.JetStream) (*Journal, error) {
	if _, err := js.Stream(ctx, CommitStream); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return &Journal{js: js, subject: subjects.Commit()}, nil
}

// Replay calls apply with each decision's bytes, oldest first, from wherever the
// journal begins, and leaves the journal ready for Append. An error of apply ends
// it, and leaves the journal as it was.
func (j *Journal) Replay(ctx context.Context, apply func(decision []byte) error) error {
	if _, err := Begin(ctx, j.js); err != nil {
		return err
	}
	return j.ReplayBehind(ctx, Position{}, apply)
}

// ReplayBehind is Replay from after a position on. If the journal does not have
// the position's decision there, the error is [ErrPosition]: the journal is
// another one, has lost its end, or begins further on. At the beginning of a
// truncated journal, only the chain of the decisions shows that it continues
// the position.
func (j *Journal) ReplayBehind(ctx context.Context, p Position, apply func(decision []byte) error) error {
	last, err := readRecords(ctx, j.js, p.Sequence, false, p.applyAfter(apply))
	if err == nil && last < p.Sequence {
		err = fmt.Errorf("%w with record %d", errEnds, last)
	}
	if err != nil {
		return err
	}
	j.last = last
	return nil
}

// Holds checks that the journal has the last decision of a position, whose number is not
// compared: [ErrPosition] if it has another one there, or ends earlier. It does not check
// the truncated part.
func (j *Journal) Holds(ctx context.Context, p Position) error {
	if p.Sequence > j.last {
		return fmt.Errorf("%w with record %d", errEnds, j.last)
	}
	stream, err := j.js.Stream(ctx, CommitStream)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	if p.Sequence < stream.CachedInfo().State.FirstSeq {
		return nil
	}
	m, err := stream.GetMsg(ctx, p.Sequence)
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	decisions, err := decodeRecord(m.Data)
	if err != nil {
		return fmt.Errorf("%w: message %d: %w", ErrRecord, p.Sequence, err)
	}
	if bcp.RecordDigest(decisions[len(decisions)-1]) != p.Head {
		return ErrPosition
	}
	return nil
}

// LastDecision returns the number of the newest decision of a journal, 0 if it has none.
func LastDecision(ctx context.Context, js natsjs.JetStream) (uint64, error) {
	m, err := newest(ctx, js, CommitStream, subjects.Commit())
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	decisions, err := DecodeRecord(m.Data)
	if err != nil {
		return 0, err
	}
	d, err := bcp.DecodeDecision(decisions[len(decisions)-1])
	return d.Seq, err
}

// applyAfter calls apply with each decision after the position, of records that begin
// with the position's own.
func (p *Position) applyAfter(apply func(decision []byte) error) func(Record) error {
	return func(r Record) error {
		if r.Sequence == p.Sequence {
			if bcp.RecordDigest(r.Decisions[len(r.Decisions)-1]) != p.Head {
				return ErrPosition
			}
			return nil
		}
		for _, d := range r.Decisions {
			if err := apply(d); err != nil {
				return err
			}
		}
		return nil
	}
}

// Append writes the decisions as one record, or as several where they exceed
// [MaxRecordDecisions] or [MaxRecordBytes] together, and waits until all are
// stored; with sync: always, on disk.
func (j *Journal) Append(ctx context.Context, decisions [][]byte) error {
	for len(decisions) > 0 {
		n, size := 0, 0
		for n < len(decisions) && n < MaxRecordDecisions && (n == 0 || size+len(decisions[n]) <= MaxRecordBytes) {
			size += len(decisions[n])
			n++
		}
		if err := j.append(ctx, decisions[:n]); err != nil {
			return err
		}
		decisions = decisions[n:]
	}
	return nil
}

func (j *Journal) append(ctx context.Context, decisions [][]byte) error {
	j.record = appendRecord(j.record[:0], decisions)
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	answer, err := j.js.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: j.subject, Data: j.record, // copied here
		Header: nats.Header{natsjs.ExpectedLastSeqHeader: {strconv.FormatUint(j.last, 10)}}})
	if err == nil {
		err = acknowledged(answer.Data, j.last+1)
	}
	if wrongSequence(err) {
		return ErrFenced
	}
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	j.last++
	return nil
}

// acknowledged reads the server's reply to a record that must get this sequence.
// The client library's own way takes a fortieth of the latency of a single
// message.
func acknowledged(answer []byte, sequence uint64) error {
	var ack struct {
		Sequence uint64           `json:"seq"`
		Error    *natsjs.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer, &ack); err != nil {
		return err
	}
	if ack.Error != nil {
		return ack.Error
	}
	if ack.Sequence != sequence {
		return fmt.Errorf("record %d is acknowledged as %d", sequence, ack.Sequence)
	}
	return nil
}

// noRoom is what the server says of a message for which the stream has no room.
const noRoom = "maximum bytes exceeded"

func isFull(err error) bool {
	var api *natsjs.APIError
	return errors.As(err, &api) && api.Description == noRoom
}

// readRecords calls each with the records of the journal from a sequence on,
// until it has caught up, and returns the last sequence that it read. From 0 it
// reads all; for any other sequence, the record after it must exist. To salvage a journal
// that may lack records, it reads up to the first missing one.
func readRecords(ctx context.Context, js natsjs.JetStream, from uint64, salvage bool, each func(Record) error) (uint64, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	state := stream.CachedInfo().State
	first, last := max(1, state.FirstSeq), state.LastSeq
	switch {
	case !salvage && (state.Msgs != last-(first-1) || state.NumDeleted > 0):
		return 0, ErrMissing
	case !salvage && from > 0 && from+1 < first:
		return 0, fmt.Errorf("%w: it begins with record %d", ErrPosition, first)
	}
	from = max(from, state.FirstSeq)
	if state.Msgs == 0 || from > last {
		return last, nil
	}
	r, err := read(js, stream, from, true)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	defer r.end()
	for expected := from; ; expected++ {
		seq, decisions, err := r.record(ctx)
		if err == nil && seq != expected {
			err = ErrMissing
		}
		if err == nil {
			err = each(Record{seq, last - min(last, seq), decisions})
		}
		if err != nil {
			return 0, err
		}
		if seq >= last {
			return seq, nil
		}
	}
}

// record reads the next message as a record.
func (r *reader) record(ctx context.Context) (uint64, [][]byte, error) {
	m, err := r.message(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the journal: %w", err)
	}
	decisions, err := decodeRecord(m.data)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: message %d: %w", ErrRecord, m.sequence, err)
	}
	return m.sequence, decisions, nil
}

// Await waits for acknowledgements.
func Await(ctx context.Context, acks []natsjs.PubAckFuture) error {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
		}
	}
	return nil
}
