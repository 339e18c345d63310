package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// expiringInterval is how often a mesh looks for credentials that expire soon.
	expiringInterval = time.Hour
	// expiringFile has those of which an alert is recorded, so that there is one for each.
	expiringFile = "expiring.json"
)

// expiring has an alert recorded of credentials that expire soon, where an agent or a
// person has no others that last longer.
type expiring struct {
	store *accounts.Store
	file  string
	log   hclog.Logger
	now   func() time.Time
	alert func(agent bcp.AgentName, role bcp.Role, key string, recorded func())

	mu   sync.Mutex
	told map[string]time.Time // when they expire, by public key
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

// look looks once. What is not recorded before the mesh ends is told at the next look.
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

// save writes what was recorded by the last look, without what has expired.
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
