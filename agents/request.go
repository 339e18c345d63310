package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// request sends body to the gateway until it answers, the context ends, or a
// retry cannot help. Every attempt sends the same bytes, so that the gateway
// recognises a repeat. read checks the reply; the refusal unavailable is
// retried.
func (c *Connection) request(ctx context.Context, subject string, id bcp.ClientID, body []byte, read func(reply []byte) error) error {
	if subject == "" {
		return errors.New("agents: a name or an id is not valid")
	}
	begun := time.Now()
	return c.persist(ctx, subject, id, func() (again bool, err error) {
		reply, err := c.attempt(ctx, subject, body)
		switch {
		case err == nil:
			err = read(reply.Data)
			refused, isRefused := errors.AsType[*RefusedError](err)
			return isRefused && refused.Code == bcp.Unavailable, err
		case isPermanent(err):
			return false, fmt.Errorf("agents: %w", err)
		case ctx.Err() == nil && (errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders)):
			c.changeServer(begun)
		}
		return true, err
	})
}

// persist attempts something on a subject until it succeeds, another attempt cannot help, or the
// context ends.
func (c *Connection) persist(ctx context.Context, subject string, id bcp.ClientID, attempt func() (again bool, err error)) error {
	var last error
	for n := 1; ; n++ {
		again, err := attempt()
		if err == nil || !again {
			return err
		}
		if denied := c.denied("Publish", subject); denied != nil {
			return fmt.Errorf("agents: %w", denied)
		}
		if ctx.Err() == nil {
			last = err
			sleep(ctx, nil, pauseBefore(n, firstWait, c.options.MaxWait))
		}
		if ctx.Err() != nil {
			return &UnansweredError{ID: id, Err: ended(ctx), Last: last}
		}
	}
}

// exchange sends a message as request does, and returns the reply, or the refusal in its place.
// check judges a reply, by its type for instance; nil takes any.
func exchange[R any](ctx context.Context, c *Connection, encoding bcp.Encoding, subject string, id bcp.ClientID, message any, check func(R) error) (reply R, err error) {
	body, err := bcp.Encode(message, encoding)
	if err != nil {
		return reply, fmt.Errorf("agents: %w", err)
	}
	return exchangeBytes(ctx, c, encoding, subject, id, body, check)
}

// exchangeBytes is exchange of a message that is encoded, where the reply is in this encoding.
func exchangeBytes[R any](ctx context.Context, c *Connection, encoding bcp.Encoding, subject string, id bcp.ClientID, body []byte, check func(R) error) (reply R, err error) {
	err = c.request(ctx, subject, id, body, func(b []byte) error {
		var refused bcp.Refusal
		if bcp.Decode(b, encoding, &refused) == nil && refused.Error != "" {
			return &RefusedError{Code: refused.Error, Detail: refused.Detail}
		}
		var got R // of this attempt
		if bcp.Decode(b, encoding, &got) != nil {
			return ErrMessage
		}
		if reply = got; check != nil {
			return check(got)
		}
		return nil
	})
	return reply, err
}

// understood is an error unless a reply is what was expected.
func understood(is bool) error {
	if !is {
		return ErrMessage
	}
	return nil
}

// attempt is one round trip; a reconnect ends it.
func (c *Connection) attempt(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	link := c.linked()
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Attempt, nats.ErrTimeout)
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	stop := context.AfterFunc(link, func() { lost(context.Cause(link)) })
	defer stop()
	m, err := Request(ctx, c.nc, &nats.Msg{Subject: subject, Data: body, Header: c.marks.shown(body)})
	if err == nil {
		c.marks.keepFrom(m)
	}
	if err != nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return m, err
}

// Request sends one request over a connection with the sender's inbox prefix
// ([subjects.InboxPrefix]), and returns its answer. It is like nats.RequestMsgWithContext,
// and also shows the gateway the reply subject of requests to services, where the server
// hides it. It may change the header of m.
func Request(ctx context.Context, nc *nats.Conn, m *nats.Msg) (*nats.Msg, error) {
	if !subjects.Identified(m.Subject) {
		return nc.RequestMsgWithContext(ctx, m)
	}
	answer, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Unsubscribe() }() // the connection may be gone
	m.Reply = answer.Subject
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header.Set(bcp.ReplyHeader, m.Reply)
	if err := nc.PublishMsg(m); err != nil {
		return nil, err
	}
	got, err := answer.NextMsgWithContext(ctx)
	if err == nil && len(got.Data) == 0 && got.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return got, err
}

// leaveAfter is how long one of several servers may give no reply before it is left.
const leaveAfter = 5 * time.Second

// changeServer switches to another server, if there is one and no reply has come for
// leaveAfter: this server may be cut off from the gateway's.
func (c *Connection) changeServer(unanswered time.Time) {
	now, left := time.Now(), c.left.Load()
	if now.Sub(unanswered) < leaveAfter || now.UnixNano()-left < leaveAfter.Nanoseconds() || len(c.nc.Servers()) < 2 {
		return
	}
	if c.left.CompareAndSwap(left, now.UnixNano()) {
		_ = c.nc.ForceReconnect() // unless it is closed
	}
}

// isPermanent reports that a retry cannot help.
func isPermanent(err error) bool {
	return isAny(err, nats.ErrConnectionClosed, nats.ErrConnectionDraining, nats.ErrBadSubject, nats.ErrMaxPayload)
}

// clientID returns id, or a new one if it is empty.
func clientID(id bcp.ClientID) (bcp.ClientID, error) {
	if id == "" {
		return bcp.ClientID(rand.Text()), nil
	}
	return bcp.ParseClientID(string(id))
}
