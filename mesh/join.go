package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// maxJoins is how many requests to join may wait; more are dropped, and the
	// joiners retry.
	maxJoins = 64
	// maxJoinTries is how often one invitation is looked at in a minute. Beyond it its
	// requests are refused unread, and counted.
	maxJoinTries = 30
	// joinTimeout bounds one.
	joinTimeout = 10 * time.Second
	// joinsCounted is how often requests that were refused unread are reported.
	joinsCounted = time.Second
)

// joins lets in requests to join. Its methods but refusals are called by one goroutine.
type joins struct {
	waiting chan *nats.Msg
	minute  time.Time
	tries   map[string]int // in that minute, by key of the invitation
	// refused counts the requests that were refused unread and not yet reported.
	refused atomic.Int64
}

// admit reports whether a request of the holder of an invitation is looked at.
func (j *joins) admit(invitation string, now time.Time) bool {
	if minute := now.Truncate(time.Minute); !minute.Equal(j.minute) {
		j.minute = minute
		clear(j.tries)
	}
	if j.tries[invitation] >= maxJoinTries {
		j.refused.Add(1)
		return false
	}
	j.tries[invitation]++
	return true
}

// serveJoins gives credentials to holders of invitations, one at a time, until the mesh
// stops (PROTOCOL P7.5). Joiners that ask too often delay nobody else, and do not cause
// reads of the key store.
func (m *Mesh) serveJoins() error {
	conn, err := m.connect()
	if err != nil {
		return err
	}
	j := &joins{waiting: make(chan *nats.Msg, maxJoins), tries: make(map[string]int)}
	m.inBackground(func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case r := <-j.waiting:
				m.answerJoin(conn, r, m.join(ctx, r))
			}
		}
	})
	m.runEvery(joinsCounted, func(context.Context) {
		if n := j.refused.Swap(0); n > 0 {
			m.config.Logger.Warn("requests to join were refused unread: somebody floods with an invitation", "requests", n)
			m.gateway.Refused(int(n))
		}
	})
	subscription, err := conn.Subscribe(subjects.Joins, func(r *nats.Msg) {
		if !j.admit(subjects.JoinKey(r.Subject), time.Now()) {
			m.answerJoin(conn, r, bcp.RefusalOf(bcp.RateLimited))
			return
		}
		select {
		case j.waiting <- r:
		default:
		}
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		return fmt.Errorf("serve who joins: %w", err)
	}
	// Later requests get no reply before the connection is closed.
	m.onStop(subscription.Unsubscribe)
	return nil
}

func (m *Mesh) answerJoin(conn *nats.Conn, r *nats.Msg, answer any) {
	reply, err := bcp.Encode(answer, bcp.JSON)
	if to := subjects.JoinAnswer(subjects.JoinKey(r.Subject), r.Reply); err == nil && to != "" {
		err = conn.Publish(to, reply)
	}
	if err != nil {
		m.config.Logger.Warn("answering who joins", "error", err)
	}
}

// join answers one request. The holder gets the same error for every problem with
// an invitation; the audit has the reason. Credentials are released when they are
// recorded; if that fails, the holder retries with the same key.
func (m *Mesh) join(ctx context.Context, r *nats.Msg) any {
	request, ok := bcp.ParseJoinRequest(r.Data)
	if !ok {
		return bcp.RefusalOf(bcp.Malformed)
	}
	user, token, err := m.store.Join(subjects.JoinKey(r.Subject), request.Key, request.Passkey, request.Signature)
	switch {
	case errors.Is(err, accounts.ErrNotInvited):
		m.config.Logger.Warn("somebody was refused who wanted to join", "error", err)
		return bcp.RefusalOf(bcp.NotPermitted)
	case err == nil:
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		_, err = m.applyKeys(ctx)
	}
	if err != nil {
		m.config.Logger.Error("letting somebody join", "error", err)
		return bcp.RefusalOf(bcp.Unavailable)
	}
	return bcp.Joined{Type: bcp.TypeJoined, Agent: user.Agent, Role: user.Role, JWT: token}
}
