package mesh

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// expiringInterval is how often a mesh checks for credentials that expire soon.
const expiringInterval = time.Hour

// expiring records an alert for credentials that expire soon, once while a mesh runs, if
// their agent or person has no others that last longer.
type expiring struct {
	store *accounts.Store
	log   hclog.Logger
	now   func() time.Time
	tell  func(alert bcp.Decision, recorded func())

	mu   sync.Mutex
	told map[string]time.Time // when they expire, by the public key, where the alert is recorded
}

// look checks once. An alert that is not recorded is repeated at the next check.
func (e *expiring) look(context.Context) {
	users, err := e.store.Users()
	if err != nil {
		e.log.Warn("looking for credentials that expire", "error", err)
		return
	}
	now := e.now()
	e.mu.Lock()
	maps.DeleteFunc(e.told, func(_ string, expires time.Time) bool { return now.After(expires) })
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
}
