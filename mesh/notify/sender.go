package notify

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// sender sends the messages of one route, in its goroutine.
type sender struct {
	notifier *Notifier
	route    *bcp.Route
	wake     chan struct{} // has room for one
	urgent   chan bcp.Alert
	cancel   context.CancelFunc
	done     chan struct{}
	log      hclog.Logger

	// The goroutine owns the rest.

	cursor   natsjs.Consumer
	waiting  []Notice        // of alerts without a record
	told     map[uint64]bool // sent decisions of records that come again because of another
	tokens   float64         // messages that may be sent now
	filled   time.Time       // when tokens were counted
	failures int             // in a row
	pause    time.Time       // no attempt before
}

func (s *sender) run(ctx context.Context) {
	s.tokens, s.filled = burst, time.Now()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	quiet := false // the error was already logged
	defer s.lastWords()
	for {
		s.tellUrgent(ctx)
		err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !quiet:
			s.log.Warn("notifications wait", "error", err)
		}
		quiet = err != nil
		select {
		case <-ctx.Done():
			return
		case a := <-s.urgent:
			s.queueAlert(&a)
		case <-s.wake:
		case <-ticker.C:
		}
	}
}

// queueAlert queues an alert without a record, if this route sends it.
func (s *sender) queueAlert(a *bcp.Alert) {
	n, ok := noticeOfAlert(s.notifier.definition(), s.route, a)
	if !ok {
		return
	}
	n.ID += "." + string(n.Kind) + "." + strconv.FormatInt(n.Time.UnixNano(), 10)
	if len(s.waiting) < maxUrgent {
		s.waiting = append(s.waiting, n)
	}
}

// tellUrgent sends alerts without a record; those that fail stay queued.
func (s *sender) tellUrgent(ctx context.Context) {
	now := time.Now()
	if len(s.waiting) == 0 || now.Before(s.pause) {
		return
	}
	m := newMessage(s.notifier.definition(), s.route, s.waiting)
	failed := Send(ctx, s.route, s.notifier.config.Place, &m, s.log)
	if failed == nil {
		s.waiting = nil
	}
	if ctx.Err() == nil {
		s.countAttempt(failed, now)
	}
}

// lastWords tries once more to send alerts without a record: nobody else will.
func (s *sender) lastWords() {
	for len(s.urgent) > 0 {
		a := <-s.urgent
		s.queueAlert(&a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTry)
	defer cancel()
	s.pause = time.Time{}
	s.tellUrgent(ctx)
}

// look sends everything that is due.
func (s *sender) look(ctx context.Context) error {
	if s.cursor == nil {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		entries, err := nextEntries(s.cursor)
		if err != nil {
			s.cursor = nil // the streams may have been reopened
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		if err := s.handle(ctx, entries); err != nil {
			return err
		}
	}
	return nil
}

// open finds the route's cursor in the journal. A new route begins with what is held
// now, and gets no earlier alerts.
func (s *sender) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, itemsTimeout)
	defer cancel()
	items, err := s.notifier.config.Items(ctx)
	if err != nil {
		return fmt.Errorf("look at what is held: %w", err)
	}
	since := time.Now()
	for i := range items {
		if at := items[i].Since.Add(-time.Minute); at.Before(since) {
			since = at
		}
	}
	s.cursor, err = openCursor(ctx, s.notifier.config.JS, s.route.Name, since)
	return err
}

// due is a record with something to send.
type due struct {
	*entry
	notices []Notice
	held    bool // some of it may have to be repeated
}

// handle decides about each of some records: there is nothing to send, or it is sent, or
// comes again. newNotice and pure arithmetic decide; the effects are here.
func (s *sender) handle(ctx context.Context, entries []entry) error {
	open, err := s.heldNow(ctx, entries)
	if err != nil {
		return err
	}
	now := time.Now()
	def := s.notifier.definition()
	var all []due
	for i := range entries {
		d := s.findDue(def, &entries[i], open, now)
		if len(d.notices) == 0 {
			if err := s.finish(&d); err != nil {
				return err
			}
			continue
		}
		all = append(all, d)
	}
	if wait := max(s.pause.Sub(now), s.untilToken(now)); wait > 0 || len(all) == 0 {
		return later(all, wait)
	}
	var notices []Notice
	for _, d := range all {
		notices = append(notices, d.notices...)
	}
	m := newMessage(def, s.route, notices)
	failed := s.send(ctx, &m, all)
	if ctx.Err() != nil {
		return ctx.Err() // it comes again
	}
	s.countAttempt(failed, now)
	if failed != nil {
		return later(all, max(s.pause.Sub(now), time.Millisecond))
	}
	for i := range all {
		if d := &all[i]; d.held && s.route.Repeat > 0 {
			for _, decision := range d.decisions {
				s.told[decision.Seq] = true
			}
			err = later(all[i:i+1], s.route.Repeat)
		} else {
			err = s.finish(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// later has records come again: when the route may be retried, when it may send another
// message, or when what is held is repeated.
func later(all []due, wait time.Duration) error {
	for i := range all {
		if err := all[i].NakWithDelay(wait); err != nil {
			return fmt.Errorf("keep the place in the journal: %w", err)
		}
	}
	return nil
}

// finish marks a record as finished.
func (s *sender) finish(d *due) error {
	for i := range d.decisions {
		delete(s.told, d.decisions[i].Seq)
	}
	if err := d.Ack(); err != nil {
		return fmt.Errorf("keep the place in the journal: %w", err)
	}
	return nil
}

// heldNow returns the held items, if one of the records is about them.
func (s *sender) heldNow(ctx context.Context, entries []entry) (map[bcp.ItemID]bool, error) {
	about := slices.ContainsFunc(entries, func(e entry) bool {
		return slices.ContainsFunc(e.decisions, func(d bcp.Decision) bool {
			alert, ok := d.Alert()
			return ok && alert.Alert == bcp.AlertHeld
		})
	})
	if !about {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, itemsTimeout)
	defer cancel()
	items, err := s.notifier.config.Items(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at what is held: %w", err)
	}
	open := make(map[bcp.ItemID]bool, len(items))
	for i := range items {
		open[items[i].ID] = true
	}
	return open, nil
}

// findDue returns what to send for a record.
func (s *sender) findDue(def *bcp.Mesh, e *entry, open map[bcp.ItemID]bool, now time.Time) due {
	result := due{entry: e}
	for i := range e.decisions {
		d := &e.decisions[i]
		n, ok := newNotice(def, s.route, d)
		switch {
		case !ok:
			continue
		case n.Kind != bcp.AlertHeld:
			if s.told[d.Seq] || e.stored.Before(s.cursor.CachedInfo().Created) {
				continue
			}
		case !open[d.HeldItem()] || s.notifier.hasSeen(s.route.Person, d.HeldItem()):
			continue
		default:
			result.held = true
			if repeat := s.route.Repeat; repeat > 0 {
				if times := now.Sub(e.stored) / repeat; times > 0 {
					n.ID += fmt.Sprintf(".%d", times)
				}
			}
		}
		result.notices = append(result.notices, n)
	}
	return result
}

// untilToken is how long to wait until another message may be sent.
func (s *sender) untilToken(now time.Time) time.Duration {
	s.tokens = min(burst, s.tokens+now.Sub(s.filled).Seconds()/s.route.Gather.Seconds())
	s.filled = now
	if s.tokens >= 1 {
		return 0
	}
	return time.Duration((1-s.tokens)*float64(s.route.Gather)) + time.Millisecond
}

// send sends a message while its records are kept from coming again.
func (s *sender) send(ctx context.Context, m *Message, all []due) error {
	working, stop := context.WithCancel(ctx)
	var progress sync.WaitGroup
	progress.Go(func() {
		ticker := time.NewTicker(cursorPatience / 4)
		defer ticker.Stop()
		for {
			select {
			case <-working.Done():
				return
			case <-ticker.C:
				for i := range all {
					_ = all[i].InProgress() // otherwise it comes again, and is sent twice
				}
			}
		}
	})
	defer func() { stop(); progress.Wait() }()
	return Send(ctx, s.route, s.notifier.config.Place, m, s.log)
}

// countAttempt counts an attempt.
func (s *sender) countAttempt(failed error, now time.Time) {
	if failed == nil {
		if s.failures > 0 {
			s.log.Info("notifications are taken again")
		}
		s.failures, s.pause, s.tokens = 0, time.Time{}, s.tokens-1
	} else {
		if s.failures == 0 {
			s.log.Error("a notification is not taken; it is tried again", "error", failed)
		}
		s.pause = now.Add(min(lastPause, firstPause<<min(s.failures, 20)))
		s.failures++
	}
	s.notifier.status.note(s.route.Name, failed, now)
	if told := s.notifier.config.Told; told != nil {
		told(s.route.Name, failed)
	}
}
