package mesh

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

const (
	// keysInterval is how often a mesh checks its key store for changes that it
	// was not told of, and for overlaps that have ended.
	keysInterval = time.Second
	// keysTimeout is the timeout of one such check.
	keysTimeout = 30 * time.Second
	// changesAtOnce bounds the changes that wait together to be recorded.
	changesAtOnce = 128
)

// watchKeys records the changes of keys from while the mesh was stopped, and
// then checks for new ones until the mesh stops. The server has the keys as of
// compiled.
func (m *Mesh) watchKeys(compiled time.Time) {
	m.inBackground(func(ctx context.Context) {
		_, due, _ := m.store.Pending(compiled)
		var seen accounts.Stamp
		for more := true; more; more = sleep(ctx, keysInterval) {
			now := time.Now()
			// With thousands of users the record takes long to read.
			stamp, err := m.store.Stamp()
			if ended := !due.IsZero() && !now.Before(due); err == nil && (ended || !stamp.Same(seen)) {
				due, err = m.lookForChanges(ctx, now, due, ended)
			}
			if err != nil && ctx.Err() == nil {
				m.config.Logger.Error("looking at the key store", "error", err)
				stamp = accounts.Stamp{}
			}
			seen = stamp
		}
	})
}

// lookForChanges applies unrecorded changes of keys and overlaps that have ended,
// and returns when the next overlap ends.
func (m *Mesh) lookForChanges(ctx context.Context, now, due time.Time, ended bool) (time.Time, error) {
	pending, next, err := m.store.Pending(now)
	if err == nil && (len(pending) > 0 || ended) {
		ctx, cancel := context.WithTimeout(ctx, keysTimeout)
		defer cancel()
		_, err = m.applyKeys(ctx)
	}
	if err != nil {
		return due, err
	}
	return next, nil
}

// lookAtKeys is the check on the operator's request.
func (m *Mesh) lookAtKeys(ctx context.Context, _ []byte) (any, error) {
	recorded, err := m.applyKeys(ctx)
	return status.Applied{Recorded: recorded, Connections: m.Connections()}, err
}

// applyKeys gives the server the current state of the key store, and then records
// the changes: revocations take effect even while the journal cannot be written.
// If a crash prevents the record, the next start makes it.
func (m *Mesh) applyKeys(ctx context.Context) (int, error) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	changes, _, err := m.store.Pending(time.Now())
	if err != nil {
		return 0, err
	}
	if err := m.updateAccounts(ctx, m.Definition()); err != nil {
		return 0, fmt.Errorf("apply the changes of the key store: %w", err)
	}
	if c := m.running.Load(); c != nil && slices.ContainsFunc(changes, func(c accounts.Change) bool { return c.Act == bcp.CredentialScope }) {
		if err := c.renew(); err != nil {
			m.config.Logger.Error("making credentials of commands again", "error", err)
		}
	}
	for batch := range slices.Chunk(changes, changesAtOnce) {
		if err := m.record(ctx, batch); err != nil {
			return 0, err
		}
		if err := m.store.Recorded(batch[len(batch)-1].Number); err != nil {
			return 0, err
		}
	}
	return len(changes), nil
}

// record waits until changes of credentials are recorded.
func (m *Mesh) record(ctx context.Context, changes []accounts.Change) error {
	recorded := make(chan struct{}, len(changes))
	for _, c := range changes {
		m.gateway.Record(func(s *state.State, now bcp.Moment) bcp.Decision {
			return s.DecideCredential(now, c.Act, c.Agent, c.Key, c.CredentialChange)
		}, func() { recorded <- struct{}{} })
	}
	for range changes {
		select {
		case <-recorded:
		case <-m.gateway.Done():
			return fmt.Errorf("record the changes of the key store: %w", errGatewayEnded)
		case <-ctx.Done():
			return fmt.Errorf("record the changes of the key store: %w", context.Cause(ctx))
		}
	}
	return nil
}
