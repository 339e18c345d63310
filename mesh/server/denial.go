package server

import (
	"sync"
	"time"
)

const (
	// denialPause is the time between two looks at refusals: those of a party in between
	// are reported together. The gateway records them once a second (PROTOCOL P4.7).
	denialPause = 250 * time.Millisecond
	// denialPatience is how long it may be unknown who was refused.
	denialPatience = time.Second
	// maxDenials bounds the refusals that wait to be identified.
	maxDenials = 1024
	// maxSubject bounds the subject in a Denial, in bytes: sealed, all of them are
	// of one size.
	maxSubject = 120
)

// Operation is what was refused.
type Operation string

// The operations.
const (
	Connect   Operation = "connect"
	Publish   Operation = "publish"
	Subscribe Operation = "subscribe"
	Unknown   Operation = "unknown" // more was refused at once than could be identified
)

// Denial says that the server refused something (PROTOCOL P11.1). The first of a party and
// operation is reported at once, the others of the next quarter of a second together.
type Denial struct {
	Operation Operation
	// Party is zero for [Connect], where nobody is authenticated, and if more was refused
	// than could be identified.
	Party
	// Subject is one of the refused: printable ASCII, escaped, at most 120
	// bytes. The client chose it: it is for the journal, sealed, and not for a log.
	Subject string
	Count   int // how many were refused
}

// denials counts refusals in the server's log, and reports them.
type denials struct {
	// identify returns who a client is, if it has shown that; false for one that is not
	// listed.
	identify func(clientID uint64) (Party, bool)
	handle   func(Denial)
	wake     chan struct{}
	quit     chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex
	incoming map[refusal]*refused
	lost     int // refusals beyond maxDenials
}

// refusal is what the log line itself identifies.
type refusal struct {
	clientID  uint64
	operation Operation
}

type refused struct {
	subject string
	count   int
	since   time.Time // of the first
}

func newDenials(identify func(uint64) (Party, bool), handle func(Denial)) *denials {
	d := &denials{
		identify: identify, handle: handle,
		wake: make(chan struct{}, 1), quit: make(chan struct{}),
		incoming: map[refusal]*refused{},
	}
	d.running.Go(d.run)
	return d
}

// stop ends the counting and returns when the last call of handle has.
func (d *denials) stop() {
	close(d.quit)
	d.running.Wait()
}

// add counts a refusal. It never waits.
func (d *denials) add(clientID uint64, operation Operation, subject string) {
	d.put(refusal{clientID, operation}, refused{subject: printable(subject, maxSubject), count: 1, since: time.Now()})
}

// put adds to the refusals that wait.
func (d *denials) put(key refusal, r refused) {
	d.mu.Lock()
	if before := d.incoming[key]; before != nil {
		before.count += r.count
		if r.since.Before(before.since) {
			before.since = r.since
		}
	} else if len(d.incoming) < maxDenials {
		d.incoming[key] = &r
	} else {
		d.lost += r.count
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *denials) take() (map[refusal]*refused, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	incoming, lost := d.incoming, d.lost
	d.incoming, d.lost = map[refusal]*refused{}, 0
	return incoming, lost
}

func (d *denials) run() {
	for {
		select {
		case <-d.wake:
			d.report(time.Now())
		case <-d.quit:
			d.report(time.Now().Add(denialPatience)) // nothing is put back any more
			return
		}
		select {
		case <-time.After(denialPause):
		case <-d.quit:
		}
	}
}

// report reports the refusals of each party and operation. A client that has just ended is
// for a moment neither among the open nor among the closed ones: its refusals are put back,
// for at most [denialPatience].
func (d *denials) report(now time.Time) {
	incoming, lost := d.take()
	sums := map[Denial]*Denial{}
	if lost > 0 {
		sums[Denial{}] = &Denial{Operation: Unknown, Count: lost}
	}
	for key, r := range incoming {
		of := Denial{Operation: key.operation}
		if key.operation != Connect { // of nobody
			if party, found := d.identify(key.clientID); found {
				of.Party = party
			} else if now.Before(r.since.Add(denialPatience)) {
				d.put(key, *r)
				continue
			}
		}
		sum := sums[of]
		if sum == nil {
			sum = &Denial{Operation: of.Operation, Party: of.Party}
			sums[of] = sum
		}
		sum.Subject = r.subject
		sum.Count += r.count
	}
	for _, sum := range sums {
		d.handle(*sum)
	}
}
