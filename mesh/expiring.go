package mesh

import (
	"context"
	"errors"
	"io/fs"
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
	alert func(agent bcp.AgentName, role bcp.Role, key string, recorded func())

	mu   sync.Mutex
	told map[string]time.Time // expiry by public key
}

func newExpiring(state string, store *accounts.Store, alert func(bcp.AgentName, bcp.Role, string, func()), log hclog.Logger) *expiring {
	e := &expiring{store: store, file: filepath.Join(state, expiringFile), log: log, now: time.Now, alert: alert, told: map[string]time.Time{}}
	content, err := os.ReadFile(e.file)
	if err == nil {
		err = json.Unmarshal(content, &e.told)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("which credentials were told to expire is forgotten", "error", err)
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
	for _, u := range accounts.Lasting(users) {
		if !u.Valid(now) || !accounts.EndsSoon(u.Issued, u.Expires, now) {
			continue
		}
		e.mu.Lock()
		_, told := e.told[u.PublicKey]
		e.mu.Unlock()
		if !told {
			e.alert(u.Agent, u.Role, u.PublicKey, func() {
				e.mu.Lock()
				e.told[u.PublicKey] = u.Expires
				e.mu.Unlock()
			})
		}
	}
	e.save(now)
}

// save writes the alerts recorded by the last check, without expired credentials.
func (e *expiring) save(now time.Time) {
	e.mu.Lock()
	for key, expires := range e.told {
		if now.After(expires) {
			delete(e.told, key)
		}
	}
	content, err := json.Marshal(e.told)
	e.mu.Unlock()
	if err == nil {
		err = durable.Replace(e.file, append(content, '\n'), 0o600)
	}
	if err != nil {
		e.log.Warn("writing which credentials were told to expire", "error", err)
	}
}
