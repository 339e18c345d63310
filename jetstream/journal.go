package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// recordVersion stands in front of every record. A new format gets a new
// number and is read beside this one.
const recordVersion = 1

// Limits of a record. A batch that is larger becomes several records.
const (
	MaxRecordDecisions = 1024
	MaxRecordBytes     = 768 << 10
)

const (
	// appendTimeout bounds the wait for the acknowledgement of one record.
	appendTimeout = 10 * time.Second
	// readTimeout bounds the wait for the next record that the stream has.
	readTimeout = 10 * time.Second
)

// readAhead is how much of the journal is on its way to a reader at once. It is
// counted in bytes: the server disconnects who has more than 16 MiB waiting, and
// that many full records are few.
const readAhead = natsjs.PullMaxBytes(4 << 20)

// Errors of the journal. Both mean: release nothing, throw the state away.
var (
	// ErrFenced says that somebody else wrote to the journal.
	ErrFenced = errors.New("another gateway writes to this journal")
	// ErrUncertain says that the record may or may not be stored.
	ErrUncertain = errors.New("the journal did not acknowledge a record")
	// ErrRecord says that a record of the journal cannot be read.
	ErrRecord = errors.New("a record of the journal is damaged")
	// ErrPosition says that the journal does not have what a snapshot was made
	// of.
	ErrPosition = errors.New("the journal does not have the decision of the snapshot")
)

var errMissing = fmt.Errorf("%w: records are missing", ErrRecord)

// record is one message of the journal: MessagePack with short keys.
type record struct {
	Version   int      `msgpack:"v"`
	Decisions [][]byte `msgpack:"d"` // as bcp.EncodeDecision wrote them
}

// Journal is the commit log of one shard. It is not safe for concurrent use:
// the gateway's one goroutine owns it.
type Journal struct {
	js      natsjs.JetStream
	subject string
	last    uint64 // sequence of the newest record in the stream
}

// Last is the sequence of the newest record that was read or written.
func (j *Journal) Last() uint64 { return j.last }

// OpenJournal returns the journal of a shard. Call Replay before Append.
func OpenJournal(ctx context.Context, js natsjs.JetStream, shard int) (*Journal, error) {
	if _, err := js.Stream(ctx, CommitStream); err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	return &Journal{js: js, subject: subjects.Commit(shard)}, nil
}

// Replay calls apply with each decision's bytes, oldest first, and leaves the
// journal ready for Append. An error of apply ends it, and leaves the journal as
// it was.
func (j *Journal) Replay(ctx context.Context, apply func(decision []byte) error) error {
	return j.ReplayBehind(ctx, Position{}, apply)
}

// ReplayBehind is Replay of what stands behind a position. Where the journal
// does not have the position's decision there, it is [ErrPosition]: the journal
// is another one, or has lost its end.
func (j *Journal) ReplayBehind(ctx context.Context, p Position, apply func(decision []byte) error) error {
	last, err := readRecords(ctx, j.js, max(1, p.Sequence), func(seq uint64, decisions [][]byte) error {
		if seq == p.Sequence {
			if bcp.RecordDigest(decisions[len(decisions)-1]) != p.Head {
				return ErrPosition
			}
			return nil
		}
		for _, d := range decisions {
			if err := apply(d); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && last < p.Sequence {
		err = ErrPosition
	}
	if err != nil {
		return err
	}
	j.last = last
	return nil
}

// Append writes the decisions as one record, or as several where they exceed
// [MaxRecordDecisions] or [MaxRecordBytes] together, and waits until all are
// stored: with sync: always, until they are on disk.
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
	data, err := msgpack.Marshal(record{Version: recordVersion, Decisions: decisions})
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	ack, err := j.js.PublishMsg(ctx, &nats.Msg{Subject: j.subject, Data: data},
		natsjs.WithExpectLastSequence(j.last), natsjs.WithRetryAttempts(0))
	if err != nil {
		var api *natsjs.APIError
		if errors.As(err, &api) && (api.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequenceConstant) {
			return ErrFenced
		}
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	j.last = ack.Sequence
	return nil
}

// readRecords calls each with the records of the journal from a sequence on,
// until it has caught up, and returns the last sequence that it read.
func readRecords(ctx context.Context, js natsjs.JetStream, from uint64, each func(seq uint64, decisions [][]byte) error) (uint64, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	if state := stream.CachedInfo().State; state.Msgs != state.LastSeq || state.NumDeleted > 0 {
		return 0, errMissing
	}
	return salvageRecords(ctx, js, from, each)
}

// salvageRecords is readRecords of a journal that may lack some: it reads up to
// the first that is missing.
func salvageRecords(ctx context.Context, js natsjs.JetStream, from uint64, each func(seq uint64, decisions [][]byte) error) (uint64, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	state := stream.CachedInfo().State
	last := state.LastSeq
	if state.Msgs == 0 || from > last {
		return last, nil
	}
	consumer, err := stream.OrderedConsumer(ctx, natsjs.OrderedConsumerConfig{DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	messages, err := consumer.Messages(readAhead)
	if err != nil {
		return 0, fmt.Errorf("reading the journal: %w", err)
	}
	defer messages.Stop()
	for expected := from; ; expected++ {
		// A server that has lost what its index promises sends nothing.
		patient, cancel := context.WithTimeout(ctx, readTimeout)
		seq, decisions, err := nextRecord(patient, messages)
		silent := errors.Is(patient.Err(), context.DeadlineExceeded)
		cancel()
		if err != nil && silent && ctx.Err() == nil || err == nil && seq != expected {
			return 0, errMissing
		}
		if err != nil {
			return 0, err
		}
		if err := each(seq, decisions); err != nil {
			return 0, err
		}
		if seq >= last {
			return seq, nil
		}
	}
}

func nextRecord(ctx context.Context, messages natsjs.MessagesContext) (uint64, [][]byte, error) {
	msg, err := messages.Next(natsjs.NextContext(ctx))
	if err != nil {
		return 0, nil, fmt.Errorf("reading the journal: %w", err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return 0, nil, fmt.Errorf("reading the journal: %w", err)
	}
	decisions, err := decodeRecord(msg.Data())
	if err != nil {
		return 0, nil, fmt.Errorf("%w: message %d: %w", ErrRecord, meta.Sequence.Stream, err)
	}
	return meta.Sequence.Stream, decisions, nil
}

// decodeRecord reads what append wrote. A disk may lie: no length is believed
// before its bytes are there.
func decodeRecord(data []byte) (decisions [][]byte, err error) {
	rest := bytes.NewReader(data)
	decoder := msgpack.NewDecoder(rest)
	members, err := decoder.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	version := 0
	for range members {
		key, err := decoder.DecodeString()
		switch {
		case err != nil:
			return nil, err
		case key == "v":
			version, err = decoder.DecodeInt()
		case key == "d" && version == recordVersion && decisions == nil:
			decisions, err = decodeDecisions(decoder, rest)
		default:
			return nil, fmt.Errorf("%w: version %d has no such member", errFormat, version)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := decoder.PeekCode(); err == nil || version != recordVersion || len(decisions) == 0 {
		return nil, errFormat
	}
	return decisions, nil
}

func decodeDecisions(decoder *msgpack.Decoder, rest *bytes.Reader) ([][]byte, error) {
	n, err := decoder.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	if n < 1 || n > MaxRecordDecisions {
		return nil, errFormat
	}
	decisions := make([][]byte, 0, n)
	for range n {
		size, err := decoder.DecodeBytesLen()
		if err != nil {
			return nil, err
		}
		if size < 0 || size > rest.Len() {
			return nil, errFormat
		}
		d := make([]byte, size)
		if err := decoder.ReadFull(d); err != nil {
			return nil, err
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

var errFormat = errors.New("it is no record of this format")

// RawPage is a message of the raw stream: the answers of one record as their
// Readers sent them, with what opens the commitments in the journal.
type RawPage struct {
	Version int         `msgpack:"v"`
	Answers []RawAnswer `msgpack:"a"`
}

// RawAnswer is one message of an agent as it came.
type RawAnswer struct {
	Seq   uint64        `msgpack:"n"` // of the decision
	Agent bcp.AgentName `msgpack:"g"`
	Salt  [16]byte      `msgpack:"s"`
	Body  []byte        `msgpack:"b"` // at most MaxRawBytes of it
	Size  int           `msgpack:"l"` // of the whole
}

// MaxRawBytes is how much of one message a page keeps.
const MaxRawBytes = 64 << 10

// WriteRaw starts writing the pages and returns their acknowledgements, which
// the caller awaits together with the journal's.
func (j *Journal) WriteRaw(answers []RawAnswer) ([]natsjs.PubAckFuture, error) {
	var acks []natsjs.PubAckFuture
	for len(answers) > 0 {
		size, n := 0, 0
		for n < len(answers) && (n == 0 || size+len(answers[n].Body) <= MaxRecordBytes) {
			size += len(answers[n].Body)
			n++
		}
		data, err := msgpack.Marshal(RawPage{Version: recordVersion, Answers: answers[:n]})
		if err != nil {
			return nil, fmt.Errorf("encoding raw answers: %w", err)
		}
		shard, err := subjects.Parse(j.subject)
		if err != nil {
			return nil, err
		}
		ack, err := j.js.PublishMsgAsync(&nats.Msg{Subject: subjects.Raw(shard.Shard), Data: data})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		acks = append(acks, ack)
		answers = answers[n:]
	}
	return acks, nil
}

// AwaitRaw waits for acknowledgements of WriteRaw.
func AwaitRaw(ctx context.Context, acks []natsjs.PubAckFuture) error {
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
