package server

import (
	"sync"
	"time"
)

const (
	// denialWindow is the time in which refusals of one kind to one party
	// become at most two records (PROTOCOL P4.7).
	denialWindow = time.Second
	// denialPause is the minimum time between two checks of refusals.
	denialPause = 2 * time.Millisecond
	// maxDenials bounds the refusals that wait to be identified, and the
	// parties that are counted at a time.
	maxDenials = 1024
	// maxSubject bounds the subject in a Denial, in bytes: sealed, all of them are
	// of one size.
	maxSubject = 120
)

// Operation is what was refused. The zero value is unknown: more was refused at
// once than could be identified.
type Operation uint8

// The operations.
const (
	Connect   Operation = 1
	Publish   Operation = 2
	Subscribe Operation = 3
)

func (o Operation) String() string {
	switch o {
	case Connect:
		return "connect"
	case Publish:
		return "publish"
	case Subscribe:
		return "subscribe"
	}
	return "unknown"
}

// Denial says that the server refused something (PROTOCOL P11.1). The first of
// a party and operation in a second is reported at once, the others of that
// second together at its end.
type Denial struct {
	Operation Operation
	// Party and UserKey are zero for [Connect], where nobody is authenticated,
	// and if more was refused than could be identified.
	Party
	UserKey  string
	ClientID uint64 // one of the connections
	Host     string // host of that connection; empty inside this process
	// Subject is one of the refused: printable ASCII, escaped, at most 120
	// bytes. The client chose it: it is for the journal, sealed, and not for a log.
	Subject string
	Count   int // how many were refused
}

// denials counts refusals in the server's log, and reports them.
type denials struct {
	// identify returns who a client is, if it has shown that, and its host; false for
	// one that is not listed.
	identify func(clientID uint64) (source, bool)
	handle   func(Denial)
	wake     chan struct{}
	quit     chan struct{}
	ended    chan struct{}

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

// source is who is counted together.
type source struct {
	party     Party
	userKey   string
	host      string // only of Connect
	operation Operation
}

// window is the count of a source since it was reported.
type window struct {
	denial Denial
	until  time.Time
}

func newDenials(identify func(uint64) (source, bool), handle func(Denial)) *denials {
	d := &denials{
		identify: identify, handle: handle,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		incoming: map[refusal]*refused{},
	}
	go d.run()
	return d
}

// stop ends the counting and returns when the last call of handle has.
func (d *denials) stop() {
	close(d.quit)
	<-d.ended
}

// add counts a refusal. It never waits.
func (d *denials) add(clientID uint64, operation Operation, subject string) {
	d.mu.Lock()
	key := refusal{clientID, operation}
	if r := d.incoming[key]; r != nil {
		r.count++
	} else if len(d.incoming) < maxDenials {
		d.incoming[key] = &refused{subject: printable(subject, maxSubject), count: 1, since: time.Now()}
	} else {
		d.lost++
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

// putBack has a refusal wait for the next look at who it was.
func (d *denials) putBack(key refusal, r *refused) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if newer := d.incoming[key]; newer != nil {
		newer.count += r.count
		newer.since = r.since
	} else if len(d.incoming) < maxDenials {
		d.incoming[key] = r
	} else {
		d.lost += r.count
	}
}

func (d *denials) run() {
	defer close(d.ended)
	// Only this goroutine uses both.
	open := map[source]*window{}
	known := map[uint64]source{}
	tick := time.NewTicker(denialWindow / 4)
	defer tick.Stop()
	pause := time.NewTimer(denialPause)
	defer pause.Stop()
	var wake <-chan struct{}
	for {
		select {
		case <-wake:
			d.sort(open, known, time.Now())
			// A flood is sorted now and then, not message by message.
			wake = nil
			pause.Reset(denialPause)
		case <-pause.C:
			wake = d.wake
		case now := <-tick.C:
			d.sort(open, known, now)
			d.close(open, now)
			clear(known)
		case <-d.quit:
			late := time.Now().Add(denialWindow) // nothing is put back any more
			d.sort(open, known, late)
			d.close(open, late.Add(denialWindow))
			return
		}
	}
}

// sort reports the first refusal of each source at once, and counts the others. A client
// that has just ended is for a moment neither among the open nor among the closed ones:
// its refusals are put back, for at most [denialWindow].
func (d *denials) sort(open map[source]*window, known map[uint64]source, now time.Time) {
	incoming, lost := d.take()
	if lost > 0 {
		d.count(open, source{}, Denial{Count: lost}, now)
	}
	for key, r := range incoming {
		from, found := d.source(known, key.clientID)
		if !found && now.Before(r.since.Add(denialWindow)) {
			d.putBack(key, r)
			continue
		}
		denial := Denial{Operation: key.operation, Party: from.party, UserKey: from.userKey, ClientID: key.clientID, Host: from.host, Subject: r.subject, Count: r.count}
		if from.operation = key.operation; from.operation == Connect { // nobody
			denial.Party, denial.UserKey, from.party, from.userKey = Party{}, "", Party{}, ""
		} else {
			from.host = "" // an agent is one, wherever it is
		}
		d.count(open, from, denial, now)
	}
}

func (d *denials) count(open map[source]*window, from source, denial Denial, now time.Time) {
	if w := open[from]; w != nil {
		denial.Count += w.denial.Count
		w.denial = denial
		return
	}
	if len(open) >= maxDenials {
		// No more sources are distinguished until windows close.
		from = source{}
		denial = Denial{Count: denial.Count}
		if w := open[from]; w != nil {
			w.denial.Count += denial.Count
			return
		}
	}
	open[from] = &window{until: now.Add(denialWindow)}
	d.handle(denial)
}

func (d *denials) source(known map[uint64]source, clientID uint64) (from source, found bool) {
	if from, found = known[clientID]; found {
		return from, true
	}
	if from, found = d.identify(clientID); !found {
		return source{}, false
	}
	known[clientID] = from
	return from, true
}

// close ends the windows whose time has passed. One with refusals is reported
// and begins again, so that a flood is one record a second.
func (d *denials) close(open map[source]*window, now time.Time) {
	for from, w := range open {
		if now.Before(w.until) {
			continue
		}
		if w.denial.Count == 0 {
			delete(open, from)
			continue
		}
		d.handle(w.denial)
		*w = window{until: now.Add(denialWindow)}
	}
}
