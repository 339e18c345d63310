package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// readTimeout is the timeout for the next message that the stream has.
	readTimeout = 10 * time.Second
	// A page is one request. While a server reads it, the server writes nothing to the
	// stream.
	pageMessages = 4096
	pageBytes    = 256 << 10
	// pagePatience is how long a page may make no progress.
	pagePatience = 2 * time.Second
	// On a cluster any server may be chosen, even one that is down, until the others
	// notice. So a server has copyPatience to begin, the next one half as much more, and
	// pages are few.
	copyMessages = 16 << 10
	copyBytes    = 4 << 20
	copyPatience = 100 * time.Millisecond
	// copyPause is the pause after a replica that lacks the next message.
	copyPause = 50 * time.Millisecond
)

// message is one of a stream.
type message struct {
	sequence uint64
	data     []byte
}

// reader reads a stream from a sequence on, from any server with a replica: it needs
// no leader and no consumer. A replica has what was written; it may lack the end or
// be damaged, and then another one is asked.
type reader struct {
	conn     *nats.Conn
	subject  string
	copies   bool
	whole    bool   // the stream lacks no message
	bare     bool   // so messages come without their sequences
	next     uint64 // the next message has this sequence or a later one
	messages int    // of a page, at most
	bytes    int    // of a page, about
	patience time.Duration
	page     []message
	replies  *nats.Subscription
	inbox    string
	asked    int
}

// read begins to read a stream from a sequence on. The caller calls end.
func read(js natsjs.JetStream, stream natsjs.Stream, from uint64, whole bool) (*reader, error) {
	config := stream.CachedInfo().Config
	r := &reader{
		conn: js.Conn(), subject: subjects.DirectGet(config.Name), copies: config.Replicas > 1, whole: whole, bare: whole, next: max(1, from),
		messages: pageMessages, bytes: pageBytes, patience: pagePatience,
	}
	if r.copies {
		r.messages, r.bytes, r.patience = copyMessages, copyBytes, copyPatience
	}
	r.inbox = r.conn.NewInbox()
	var err error
	if r.replies, err = r.conn.SubscribeSync(r.inbox + ".*"); err != nil {
		return nil, fmt.Errorf("beginning to read: %w", err)
	}
	return r, nil
}

func (r *reader) end() { _ = r.replies.Unsubscribe() } // the connection may be gone

// message returns the next message, which the caller knows to exist. The error is
// [ErrRecord] if the server has lost it; on a cluster an error says nothing about the
// stream.
func (r *reader) message(ctx context.Context) (message, error) {
	if len(r.page) == 0 {
		if err := r.turn(ctx); err != nil {
			return message{}, err
		}
	}
	m := r.page[0]
	r.page, r.next = r.page[1:], m.sequence+1
	return m, nil
}

// turn gets the next page, with a message at least.
func (r *reader) turn(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for patience := r.patience; ; {
		page, err := r.ask(patient, patience)
		if r.whole && r.copies {
			page = r.following(page)
		}
		if r.page = page; len(page) > 0 {
			return nil
		}
		if errors.Is(err, errGap) {
			r.bare = false
			continue
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case patient.Err() != nil && r.copies:
			return fmt.Errorf("no copy gives message %d: %w", r.next, patient.Err())
		case patient.Err() != nil, err == nil && !r.copies:
			return ErrMissing
		case errors.Is(err, errSilent):
			patience = min(patience*3/2, pagePatience)
			continue
		case !r.copies:
			return err
		}
		select {
		case <-patient.Done():
		case <-time.After(copyPause):
		}
	}
}

var (
	// errGap says that a page lacks a message.
	errGap = errors.New("a page lacks messages")
	// errSilent says that the next part of a page did not come in time.
	errSilent = errors.New("a page does not come")
)

// following returns the part of a page without gaps.
func (r *reader) following(page []message) []message {
	for i, m := range page {
		if m.sequence != r.next+uint64(i) {
			return page[:i]
		}
	}
	return page
}

// pageRequest is one of the server's direct-get interface.
type pageRequest struct {
	Sequence uint64 `json:"seq"`
	Messages int    `json:"batch"`
	Bytes    int    `json:"max_bytes"`
	Bare     bool   `json:"no_hdr,omitempty"` // without the header, which has the sequence
}

// ask requests the next page from one server, which must begin in time. The page
// is empty if the server has nothing there.
func (r *reader) ask(ctx context.Context, patience time.Duration) (page []message, err error) {
	body, err := json.Marshal(pageRequest{r.next, r.messages, r.bytes, r.bare})
	if err != nil {
		return nil, err
	}
	r.asked++
	inbox := r.inbox + "." + strconv.Itoa(r.asked)
	if err := r.conn.PublishRequest(r.subject, inbox, body); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(patience, cancel)
	defer silence.Stop()
	for {
		reply, err := r.replies.NextMsgWithContext(waiting)
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			err = errSilent
		}
		if err != nil {
			return nil, err
		}
		if reply.Subject != inbox { // of an abandoned page
			continue
		}
		silence.Reset(pagePatience)
		switch status := reply.Header.Get("Status"); status {
		case "":
		case "404":
			return nil, nil
		case "204":
			if last := number(reply, nats.JSLastSequence); r.bare && last != r.next+uint64(len(page))-1 {
				return nil, errGap
			}
			return page, nil
		default:
			return nil, fmt.Errorf("reading %s: %s %s", r.subject, status, reply.Header.Get("Description"))
		}
		m := message{r.next + uint64(len(page)), reply.Data}
		if !r.bare {
			m.sequence = number(reply, nats.JSSequence)
		}
		page = append(page, m)
	}
}

// number returns the number in a header, or 0.
func number(m *nats.Msg, header string) uint64 {
	n, err := strconv.ParseUint(m.Header.Get(header), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newest returns the newest message on a pattern from any replica of a stream: that
// of the leader, or an older one. The error is [natsjs.ErrMsgNotFound] if the replica
// has none.
func newest(ctx context.Context, js natsjs.JetStream, stream, pattern string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := json.Marshal(struct {
		Last string `json:"last_by_subj"`
	}{pattern})
	if err != nil {
		return nil, err
	}
	for patience := copyPatience; ; patience = min(2*patience, pagePatience) {
		patient, cancel := context.WithTimeout(ctx, patience)
		m, err := js.Conn().RequestWithContext(patient, subjects.DirectGet(stream), body)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			continue
		case err == nil && m.Header.Get("Status") == "404":
			err = natsjs.ErrMsgNotFound
		}
		return m, err
	}
}
