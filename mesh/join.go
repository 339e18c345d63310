package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxJoins is how many requests to join wait; beyond it they are dropped, and
	// sent again by who joins.
	maxJoins = 64
	// joinTimeout bounds one.
	joinTimeout = 10 * time.Second
)

// serveJoins gives credentials to those who hold an invitation, one after the
// other, until the mesh stops (PROTOCOL P7.5).
func (m *Mesh) serveJoins() error {
	conn, err := m.connect()
	if err != nil {
		return err
	}
	subscription, err := conn.Subscribe(subjects.Joins, func(r *nats.Msg) {
		reply, err := bcp.Encode(m.join(r), bcp.JSON)
		if err == nil {
			err = r.Respond(reply)
		}
		if err != nil {
			m.config.Logger.Warn("answering who joins", "error", err)
		}
	})
	if err == nil {
		err = subscription.SetPendingLimits(maxJoins, -1)
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("serve who joins: %w", err)
	}
	return nil
}

// join answers one request. Whatever is wrong with an invitation, its holder hears
// the same: what it is, is in the audit. Credentials are released when they are
// recorded; without a record the holder asks again, with the same key.
func (m *Mesh) join(r *nats.Msg) any {
	request, ok := bcp.ParseJoinRequest(r.Data)
	if !ok {
		return bcp.RefusalOf(bcp.Malformed)
	}
	user, token, err := m.store.Join(subjects.JoinKey(r.Subject), request.Key, request.Signature)
	switch {
	case errors.Is(err, accounts.ErrNotInvited):
		m.config.Logger.Warn("somebody was refused who wanted to join", "error", err)
		return bcp.RefusalOf(bcp.NotPermitted)
	case err == nil:
		ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
		defer cancel()
		_, err = m.applyKeys(ctx)
	}
	if err != nil {
		m.config.Logger.Error("letting somebody join", "error", err)
		return bcp.RefusalOf(bcp.Unavailable)
	}
	return bcp.Joined{Type: bcp.TypeJoined, Agent: user.Agent, Role: user.Role, JWT: token}
}
