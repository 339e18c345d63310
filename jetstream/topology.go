package jetstream

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The streams of a mesh. Agents hold no permission on any of them.
const (
	CommitStream = "BCP_COMMIT"
	KeyStream    = "BCP_KEYS"
	AuditStream  = "BCP_AUDIT"
	LedgerStream = "BCP_LEDGER"
	// BaseStream exists on a cluster with a truncated journal.
	BaseStream = "BCP_BASE"
)

// leastDuplicates is the shortest time for which a server remembers message ids.
// Ours have none, and a starting server reads all messages of that time, by
// default two minutes.
const leastDuplicates = 100 * time.Millisecond

// Topology are the settings of a mesh's streams.
type Topology struct {
	Replicas int // 1, or 3 on a cluster
	// MaxDisk is the maximum size of all streams together, in bytes; 0 is no
	// limit. Half of it is for the journal, which refuses writes when that is
	// full. The others lose their oldest messages.
	MaxDisk int64
	// Begins is the sequence after which a new journal begins, when it is restored.
	Begins uint64
}

// Create makes the streams, or brings them to this topology. It is safe to
// call at every start; it never deletes a message.
func Create(ctx context.Context, js natsjs.JetStream, t Topology) error {
	return createAll(ctx, js, append(t.journal(), t.projections()...))
}

// CreateJournal is Create for the streams that a gateway needs.
func CreateJournal(ctx context.Context, js natsjs.JetStream, t Topology) error {
	return createAll(ctx, js, t.journal())
}

func createAll(ctx context.Context, js natsjs.JetStream, streams []natsjs.StreamConfig) error {
	for _, c := range streams {
		if err := create(ctx, js, c); err != nil {
			return fmt.Errorf("making stream %s: %w", c.Name, err)
		}
	}
	return nil
}

const (
	// answerPatience is how long a server may have its streams closed, or a stream no
	// leader: requests are retried until then.
	answerPatience = 30 * time.Second
	answerPause    = 100 * time.Millisecond
	// createAttempt is the timeout of a change, lookAttempt that of a read: a leader
	// that is gone gives no reply.
	createAttempt = 2 * time.Second
	lookAttempt   = 500 * time.Millisecond
)

// AwaitAnswer retries until it succeeds or the error says something about the streams
// (see [Unanswered]). It gives up after half a minute, or when ctx ends.
func AwaitAnswer(ctx context.Context, try func() error) error {
	for patience := time.Now().Add(answerPatience); ; {
		err := try()
		if err == nil || !Unanswered(err) || time.Now().After(patience) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(answerPause):
		}
	}
}

func create(ctx context.Context, js natsjs.JetStream, c natsjs.StreamConfig) error {
	return AwaitAnswer(ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, createAttempt)
		defer cancel()
		return createOnce(attempt, js, c)
	})
}

// createOnce reads first: on a cluster that needs only the stream's leader, and a
// change needs the cluster's leader too.
func createOnce(ctx context.Context, js natsjs.JetStream, c natsjs.StreamConfig) error {
	look, cancel := ctx, func() {}
	if c.Replicas > 1 {
		look, cancel = context.WithTimeout(ctx, lookAttempt)
	}
	stream, err := js.Stream(look, c.Name)
	cancel()
	if err == nil && asWanted(stream.CachedInfo().Config, c) {
		return nil
	}
	if err == nil || errors.Is(err, natsjs.ErrStreamNotFound) {
		_, err = js.CreateOrUpdateStream(ctx, c)
	}
	return err
}

// asWanted reports whether a stream is as it is wanted, in everything.
func asWanted(found, want natsjs.StreamConfig) bool {
	found.Metadata = nil // the server's own
	if want.FirstSeq == 0 {
		found.FirstSeq = 0
	}
	want.Replicas = max(1, want.Replicas)
	want.MaxConsumers, want.MaxMsgs, want.MaxMsgsPerSubject, want.MaxMsgSize = -1, -1, -1, -1
	if want.MaxBytes == 0 {
		want.MaxBytes = -1
	}
	return reflect.DeepEqual(found, want)
}

// neverLast is a sequence that no message has: a message that must follow it is
// refused.
const neverLast = 1 << 62

// awaitInterest waits until messages on the subject reach its stream. Just after its
// creation, a node of the cluster that does not lead it may still answer that nobody
// listens. It stores nothing.
func awaitInterest(ctx context.Context, js natsjs.JetStream, subject string) error {
	return AwaitAnswer(ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, createAttempt)
		defer cancel()
		_, err := js.Publish(attempt, subject, nil, natsjs.WithExpectLastSequence(neverLast), natsjs.WithRetryAttempts(0))
		if wrongSequence(err) {
			return nil
		}
		return err
	})
}

func (t Topology) stream(name, filter string) natsjs.StreamConfig {
	return natsjs.StreamConfig{
		Name: name, Subjects: []string{filter}, Storage: natsjs.FileStorage, Replicas: t.Replicas,
		Retention: natsjs.LimitsPolicy, Discard: natsjs.DiscardNew, AllowDirect: true, Duplicates: leastDuplicates,
	}
}

func (t Topology) journal() []natsjs.StreamConfig {
	commit := t.stream(CommitStream, subjects.All(subjects.KindCommit))
	commit.DenyDelete, commit.DenyPurge = true, true // for good: see Truncate
	commit.MaxBytes = t.part(journalShare)
	if t.Begins > 0 {
		commit.FirstSeq = t.Begins + 1
	}
	// A lagging replica may lack a tombstone.
	keys := t.stream(KeyStream, subjects.All(subjects.KindKey))
	keys.AllowDirect = false
	return []natsjs.StreamConfig{commit, keys}
}

func (t Topology) projections() []natsjs.StreamConfig {
	var streams []natsjs.StreamConfig
	for _, p := range projections {
		c := t.stream(p.stream, p.filter())
		c.MaxBytes, c.Discard = t.part(p.share), natsjs.DiscardOld
		if t.Replicas <= 1 {
			// A projection that loses its newest messages in a crash is filled
			// again from the journal.
			c.PersistMode = natsjs.AsyncPersistMode
		}
		streams = append(streams, c)
	}
	return streams
}

// journalShare is the journal's part of MaxDisk, in sixteenths; the projections
// have six. Two are left for the sealing keys, and for the streams' overhead.
const journalShare = bcp.JournalShare

func (t Topology) part(share int64) int64 {
	if t.MaxDisk == 0 {
		return -1
	}
	return max(1, t.MaxDisk/16*share)
}
