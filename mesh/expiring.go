package mesh

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// expiringInterval is how often a mesh checks for credentials that expire soon.
	expiringInterval = time.Hour
	// expiringFile lists the credentials with a recorded alert, so that each gets only
	// one.
	expiringFile = "expiring.json"
)

// expiring records an alert for credentials that expire soon, if their agent or
// person has no others that last longer.
type expiring struct {
	store *accounts.Store
	file  string
	log   hclog.Logger
	now   func() time.Time
	tell  func(alert bcp.Decision, recorded func())

	mu   sync.Mutex
	told map[string]time.Time // when they expire, by the public key
}

// newExpiring reads the file. One that cannot be read is forgotten.
func newExpiring(state string, store *accounts.Store, tell func(bcp.Decision, func()), log hclog.Logger) *expiring {
	e := &expiring{store: store, file: filepath.Join(state, expiringFile), log: log, now: time.Now, tell: tell}
	content, err := os.ReadFile(e.file)
	if err == nil {
		err = json.Unmarshal(content, &e.told)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("what is known of credentials is forgotten", "file", expiringFile, "error", err)
		e.told = nil
	}
	if e.told == nil {
		e.told = map[string]time.Time{}
	}
	return e
}

// look checks once. An alert that is not recorded before the mesh ends is repeated at
// the next check.
func (e *expiring) look(_ context.Context) {
	users, err := e.store.Users()
	if err != nil {
		e.log.Warn("looking for credentials that expire", "error", err)
		return
	}
	now := e.now()
	e.mu.Lock()
	told := maps.Clone(e.told)
	e.mu.Unlock()
	for _, u := range accounts.Lasting(users) {
		if _, known := told[u.PublicKey]; known || !u.Valid(now) || !accounts.EndsSoon(u.Issued, u.Expires, now) {
			continue
		}
		e.tell(bcp.Decision{Kind: bcp.KindAlert, Agent: u.Agent, Role: u.Role, Event: string(bcp.AlertExpiring), Key: u.PublicKey}, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.told[u.PublicKey] = u.Expires
		})
	}
	e.save(now)
}

// save writes the alerts recorded by the last check, without expired credentials.
func (e *expiring) save(now time.Time) {
	e.mu.Lock()
	maps.DeleteFunc(e.told, func(_ string, expires time.Time) bool { return now.After(expires) })
	content, err := json.Marshal(e.told)
	e.mu.Unlock()
	if err == nil {
		err = durable.Replace(e.file, append(content, '\n'), 0o600)
	}
	if err != nil {
		e.log.Warn("writing which credentials were told to expire", "error", err)
	}
}
