package mesh

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
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
	told  *times // expiries
	log   hclog.Logger
	now   func() time.Time
	tell  func(alert bcp.Decision, recorded func())
}

func newExpiring(state string, store *accounts.Store, tell func(bcp.Decision, func()), log hclog.Logger) *expiring {
	return &expiring{store, openTimes(filepath.Join(state, expiringFile), log), log, time.Now, tell}
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
		if u.Valid(now) && accounts.EndsSoon(u.Issued, u.Expires, now) && !e.told.has(u.PublicKey) {
			alert := bcp.Decision{Kind: bcp.KindAlert, Agent: u.Agent, Role: u.Role, Event: string(bcp.AlertExpiring), Key: u.PublicKey}
			e.tell(alert, func() { e.told.set(u.PublicKey, u.Expires) })
		}
	}
	e.save(now)
}

// save writes the alerts recorded by the last check, without expired credentials.
func (e *expiring) save(now time.Time) {
	if err := e.told.save(func(_ string, expires time.Time) bool { return !now.After(expires) }); err != nil {
		e.log.Warn("writing which credentials were told to expire", "error", err)
	}
}
