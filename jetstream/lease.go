package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// LeaseBucket is the key-value bucket of the lease of a cluster's gateways: the value
// of its key names the holder.
const LeaseBucket = "BCP_LEASES"

// LeaseTime is how long a lease is valid after it was last renewed, and so how
// long a crashed gateway is waited for.
const LeaseTime = 3 * time.Second

// LeaseHolder is who holds a lease.
type LeaseHolder struct {
	Gateway string    `json:"gateway"`
	Since   time.Time `json:"since"`
}

// ErrLeaseLost says that another gateway holds the lease, or none does.
var ErrLeaseLost = errors.New("the lease is lost")

// Lease is permission to serve. It only keeps gateways out of each
// other's way: the journal stays exact because it refuses writers that do not
// know its end. It is not safe for concurrent use.
type Lease struct {
	conn     *nats.Conn
	bucket   natsjs.KeyValue
	key      string
	revision uint64 // 0: it is not ours
	value    []byte
}

// OpenLeases creates the bucket, or changes it to this number of replicas. It retries
// for a while: a server that has just started may not know the account yet.
func OpenLeases(ctx context.Context, js natsjs.JetStream, replicas int) (bucket natsjs.KeyValue, err error) {
	err = AwaitAnswer(ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, createAttempt)
		defer cancel()
		bucket, err = js.CreateOrUpdateKeyValue(attempt, natsjs.KeyValueConfig{
			Bucket: LeaseBucket, Description: "which gateway serves", TTL: LeaseTime, Replicas: replicas,
			// A cluster that loses all servers at once starts with new leases.
			Storage: natsjs.MemoryStorage,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making the bucket %s: %w", LeaseBucket, err)
	}
	return bucket, nil
}

// NewLease returns the lease in a bucket, not held yet.
func NewLease(js natsjs.JetStream, bucket natsjs.KeyValue) *Lease {
	return &Lease{conn: js.Conn(), bucket: bucket, key: leaseKey}
}

const leaseKey = "gateway"

// Take takes the lease if it is free, or is this holder's: of an earlier Take of the same
// holder whose answer was lost. Otherwise the error is [ErrLeaseLost].
func (l *Lease) Take(ctx context.Context, holder LeaseHolder) error {
	value, err := json.Marshal(holder)
	if err != nil {
		return err
	}
	revision, err := l.bucket.Create(ctx, l.key, value)
	if errors.Is(err, natsjs.ErrKeyExists) {
		entry, failed := l.bucket.Get(ctx, l.key)
		if err = ErrLeaseLost; failed == nil && bytes.Equal(entry.Value(), value) {
			revision, err = entry.Revision(), nil
		}
	}
	if err != nil {
		return fmt.Errorf("taking the lease %s: %w", l.key, err)
	}
	l.revision, l.value = revision, value
	return nil
}

// Keep renews the lease for another [LeaseTime]. The error is [ErrLeaseLost] if
// it is no longer ours; after any other error it may be.
func (l *Lease) Keep(ctx context.Context) error {
	revision, err := l.bucket.Update(ctx, l.key, l.value, l.revision)
	if err == nil {
		l.revision = revision
		return nil
	}
	if errors.Is(err, natsjs.ErrKeyExists) || wrongSequence(err) {
		// It is ours if the bucket stored the last renewal but the reply was lost, even
		// if the replica that answers here does not have it yet.
		entry, failed := l.bucket.Get(ctx, l.key)
		switch {
		case failed == nil && bytes.Equal(entry.Value(), l.value):
			if entry.Revision() > l.revision {
				l.revision = entry.Revision()
				return nil
			}
		case failed == nil || errors.Is(failed, natsjs.ErrKeyNotFound):
			err = ErrLeaseLost
		default:
			err = failed
		}
	}
	return fmt.Errorf("keeping the lease %s: %w", l.key, err)
}

// Release gives the lease back. A lease that is not ours is unchanged.
func (l *Lease) Release(ctx context.Context) error {
	err := l.bucket.Delete(ctx, l.key, natsjs.LastRevision(l.revision))
	if wrongSequence(err) { // ours if the reply to a renewal was lost
		entry, failed := l.bucket.Get(ctx, l.key)
		if failed == nil && bytes.Equal(entry.Value(), l.value) {
			err = l.bucket.Delete(ctx, l.key, natsjs.LastRevision(entry.Revision()))
		}
	}
	if err != nil {
		return fmt.Errorf("giving back the lease %s: %w", l.key, err)
	}
	return nil
}

// Holder returns the holder of the lease; the zero holder is nobody.
func (l *Lease) Holder(ctx context.Context) (LeaseHolder, error) {
	entry, err := l.bucket.Get(ctx, l.key)
	if errors.Is(err, natsjs.ErrKeyNotFound) {
		return LeaseHolder{}, nil
	}
	if err != nil {
		return LeaseHolder{}, fmt.Errorf("looking at the lease %s: %w", l.key, err)
	}
	var holder LeaseHolder
	if err := json.Unmarshal(entry.Value(), &holder); err != nil {
		return LeaseHolder{}, fmt.Errorf("looking at the lease %s: %w", l.key, err)
	}
	return holder, nil
}

// What the holder of a key says of its deletion.
const (
	operationHeader = "KV-Operation"
	deletion        = "DEL"
)

// freedAgain is how long after its release a lease is announced again: on a cluster,
// an immediate attempt may reach a replica of the bucket that does not have the
// release yet.
const freedAgain = 100 * time.Millisecond

// Freed returns a channel that gets each released lease, twice, until stop is called. It
// does not get leases that expire. The holder itself announces the release, so that no
// other reply is needed.
func (l *Lease) Freed() (freed <-chan struct{}, stop func() error, err error) {
	heard := make(chan struct{}, 1)
	tell := func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
	sub, err := l.conn.Subscribe(subjects.KeyChanges(LeaseBucket, l.key), func(m *nats.Msg) {
		if m.Header.Get(operationHeader) == deletion {
			tell()
			time.AfterFunc(freedAgain, tell)
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watching the lease %s: %w", l.key, err)
	}
	return heard, sub.Unsubscribe, nil
}
