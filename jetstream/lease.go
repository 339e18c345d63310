package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	natsjs "github.com/nats-io/nats.go/jetstream"
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
	bucket   natsjs.KeyValue
	revision uint64 // 0: it is not ours
	value    []byte
}

// leaseKey is the key of the lease in its bucket.
const leaseKey = "gateway"

// OpenLease returns the lease, not held yet. It creates the bucket, or changes it to this
// number of replicas, and retries for a while: a server that has just started may not know
// the account yet.
func OpenLease(ctx context.Context, js natsjs.JetStream, replicas int) (*Lease, error) {
	var l Lease
	err := AwaitAnswer(ctx, func() (err error) {
		attempt, cancel := context.WithTimeout(ctx, createAttempt)
		defer cancel()
		l.bucket, err = js.CreateOrUpdateKeyValue(attempt, natsjs.KeyValueConfig{
			Bucket: LeaseBucket, Description: "which gateway serves", TTL: LeaseTime, Replicas: replicas,
			// A cluster that loses all servers at once starts with new leases.
			Storage: natsjs.MemoryStorage,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making the bucket %s: %w", LeaseBucket, err)
	}
	return &l, nil
}

// Take takes the lease if it is free, or is this holder's: of an earlier Take of the same
// holder whose answer was lost. Otherwise the error is [ErrLeaseLost].
func (l *Lease) Take(ctx context.Context, holder LeaseHolder) error {
	value, err := json.Marshal(holder)
	if err != nil {
		return err
	}
	revision, err := l.bucket.Create(ctx, leaseKey, value)
	if errors.Is(err, natsjs.ErrKeyExists) {
		entry, failed := l.bucket.Get(ctx, leaseKey)
		if err = ErrLeaseLost; failed == nil && bytes.Equal(entry.Value(), value) {
			revision, err = entry.Revision(), nil
		}
	}
	if err != nil {
		return fmt.Errorf("taking the lease: %w", err)
	}
	l.revision, l.value = revision, value
	return nil
}

// Keep renews the lease for another [LeaseTime]. The error is [ErrLeaseLost] if
// it is no longer ours; after any other error it may be.
func (l *Lease) Keep(ctx context.Context) error {
	revision, err := l.bucket.Update(ctx, leaseKey, l.value, l.revision)
	if err == nil {
		l.revision = revision
		return nil
	}
	if errors.Is(err, natsjs.ErrKeyExists) || wrongSequence(err) {
		// It is ours if the bucket stored the last renewal but the reply was lost, even
		// if the replica that answers here does not have it yet.
		entry, failed := l.bucket.Get(ctx, leaseKey)
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
	return fmt.Errorf("keeping the lease: %w", err)
}

// Release gives the lease back. A lease that is not ours is unchanged.
func (l *Lease) Release(ctx context.Context) error {
	err := l.bucket.Delete(ctx, leaseKey, natsjs.LastRevision(l.revision))
	if wrongSequence(err) { // ours if the reply to a renewal was lost
		entry, failed := l.bucket.Get(ctx, leaseKey)
		if failed == nil && bytes.Equal(entry.Value(), l.value) {
			err = l.bucket.Delete(ctx, leaseKey, natsjs.LastRevision(entry.Revision()))
		}
	}
	if err != nil {
		return fmt.Errorf("giving back the lease: %w", err)
	}
	return nil
}

// Holder returns the holder of the lease; the zero holder is nobody.
func (l *Lease) Holder(ctx context.Context) (LeaseHolder, error) {
	entry, err := l.bucket.Get(ctx, leaseKey)
	if errors.Is(err, natsjs.ErrKeyNotFound) {
		return LeaseHolder{}, nil
	}
	if err != nil {
		return LeaseHolder{}, fmt.Errorf("looking at the lease: %w", err)
	}
	var holder LeaseHolder
	if err := json.Unmarshal(entry.Value(), &holder); err != nil {
		return LeaseHolder{}, fmt.Errorf("looking at the lease: %w", err)
	}
	return holder, nil
}
