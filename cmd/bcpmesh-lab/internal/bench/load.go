package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// answerTimeout is how long a load waits for anything.
const answerTimeout = 10 * time.Second

// What a load does over and over.
const (
	modePush      = "push"      // push, and wait for the receipt
	modeDelivered = "delivered" // push, and wait for the delivery at the Controller
	modeFlow      = "flow"      // ask, and wait for the delivery at the Controller
	modeRun       = "run"       // ask a kernel for a run of two calls, and wait for its end
	modeRunAsk    = "run-ask"   // and one with a question to a Reader
	modeFlood     = "flood"     // push invalid messages, without waiting for replies
)

// load is what agents send during a measurement.
type load struct {
	Mode        string        `json:"mode"`
	InFlight    int           `json:"in_flight"`
	Shape       shape         `json:"shape"`
	Duration    time.Duration `json:"duration"`
	Pause       time.Duration `json:"pause"`        // after each
	FirstReader int           `json:"first_reader"` // for a flood: who
}

// agentsPart is the agents of one mesh or floor.
type agentsPart struct {
	readers, controllers map[bcp.AgentName]*agent
}

// agent is a connection with its received messages.
type agent struct {
	*agents.Connection
	name bcp.AgentName

	mu       sync.Mutex
	arrived  map[string]chan time.Time // deliveries by query, and ends by run
	delivery chan time.Time            // deliveries of no query
}

func (p *agentsPart) close() {
	for _, all := range []map[bcp.AgentName]*agent{p.readers, p.controllers} {
		for _, a := range all {
			a.Close()
		}
	}
}

// read makes a Reader answer every query at once.
func (a *agent) read() error {
	return errors.Join(a.listen(subjects.QueriesOf(a.name), func(m *nats.Msg) {
		if id, ok := member(m.Data, "query_id"); ok {
			_ = m.Respond(answerBody(id)) // without it the flow fails, and says so
		}
	}), a.listen(subjects.DeliveriesOf(bcp.RoleReader, a.name), func(m *nats.Msg) {
		if kind, _ := member(m.Data, "type"); kind == bcp.TypeSubscriptionsActive {
			_ = m.Respond(nil) // it comes again
		}
	}))
}

// listen has messages on a subject handled from now on.
func (a *agent) listen(subject string, handle nats.MsgHandler) error {
	_, err := a.NATS().Subscribe(subject, handle)
	return errors.Join(err, a.NATS().Flush())
}

// control makes a Controller acknowledge every delivery at once.
func (a *agent) control() error {
	return a.listen(subjects.DeliveriesOf(bcp.RoleController, a.name), func(m *nats.Msg) {
		now := time.Now()
		if id, _ := member(m.Data, "run_id"); id != "" { // how it ended
			a.arrival(id) <- now
			return
		}
		_ = m.Respond(nil) // it comes again
		if id, _ := member(m.Data, "query_id"); id != "" {
			a.arrival(id) <- now
			return
		}
		select {
		case a.delivery <- now:
		default:
		}
	})
}

// arrival returns the channel for the delivery time of a query, whoever asks first.
func (a *agent) arrival(query string) chan time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.arrived[query]
	if c == nil {
		c = make(chan time.Time, 16) // it may come again
		a.arrived[query] = c
	}
	return c
}

func (a *agent) forget(query string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.arrived, query)
}

// member finds a text member of a message from the gateway.
func member(message []byte, name string) (string, bool) {
	_, rest, ok := bytes.Cut(message, []byte(`"`+name+`":"`))
	if !ok {
		return "", false
	}
	value, _, ok := bytes.Cut(rest, []byte(`"`))
	return string(value), ok
}

// load sends until its duration is over.
func (p *agentsPart) load(ctx context.Context, l load) (reply, error) {
	if l.Mode == modeFlood {
		return p.flood(ctx, l)
	}
	return work(l, func(w, n int) (time.Duration, error) { return p.runOnce(ctx, l, w, n) })
}

// work runs inFlight workers that call once repeatedly, until the duration of the load
// is over or a call fails. once gets the worker's number and its count of earlier
// calls.
func work(l load, once func(w, n int) (time.Duration, error)) (r reply, failed error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	var end atomic.Bool
	begin := time.Now()
	for w := range l.InFlight {
		workers.Go(func() {
			var took Latencies
			for n := 0; !end.Load() && time.Since(begin) < l.Duration; n++ {
				d, err := once(w, n)
				if err != nil {
					end.Store(true)
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					break
				}
				took.add(d)
				time.Sleep(l.Pause)
			}
			mu.Lock()
			defer mu.Unlock()
			r.Latency.merge(took)
		})
	}
	workers.Wait()
	r.Took, r.Count = time.Since(begin), r.Latency.Count()
	return r, failed
}

// runOnce performs one operation of the load, the nth of worker w.
func (p *agentsPart) runOnce(ctx context.Context, l load, w, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if l.Shape.Kernel {
		return p.run(ctx, l.Mode, w%l.Shape.Controllers)
	}
	reader, controller := w%l.Shape.Readers, w%l.Shape.Readers
	if l.Shape.Crossed {
		// Channels take turns, so that none is used more than others.
		reader, controller = (w+n)%l.Shape.Readers, (w+n/l.Shape.Readers)%l.Shape.Controllers
	}
	if l.Mode == modeFlow {
		return p.flow(ctx, reader, controller)
	}
	a := p.readers[readerName(reader)]
	body := pushBody(controllerName(controller), rand.Text())
	if l.Mode == modeDelivered {
		c := p.controllers[controllerName(controller)]
		select { // drain repeated deliveries
		case <-c.delivery:
		default:
		}
		begin := time.Now()
		if err := a.push(ctx, pushSubject(reader, controller), body); err != nil {
			return 0, err
		}
		select {
		case at := <-c.delivery:
			return at.Sub(begin), nil
		case <-ctx.Done():
			return 0, errSilent
		}
	}
	begin := time.Now()
	err := a.push(ctx, pushSubject(reader, controller), body)
	return time.Since(begin), err
}

var delivered = []byte(`"success":true`)

func (a *agent) push(ctx context.Context, subject string, body []byte) error {
	m, err := a.NATS().RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("a push: %w", err)
	}
	if !bytes.Contains(m.Data, delivered) {
		return fmt.Errorf("a push was refused: %s", m.Data)
	}
	return nil
}

func (p *agentsPart) flow(ctx context.Context, reader, controller int) (time.Duration, error) {
	a := p.controllers[controllerName(controller)]
	return a.await(ctx, subjects.Ask(a.name, readerName(reader)), question, "query_id")
}

// await sends a request, and waits for what comes of the query or run that the receipt names.
func (a *agent) await(ctx context.Context, subject, body, named string) (time.Duration, error) {
	begin := time.Now()
	m, err := a.NATS().RequestWithContext(ctx, subject, []byte(body))
	if err != nil {
		return 0, fmt.Errorf("a request on %s: %w", subject, err)
	}
	id, ok := member(m.Data, named)
	if !ok {
		return 0, fmt.Errorf("a request on %s was refused: %s", subject, m.Data)
	}
	defer a.forget(id)
	select {
	case at := <-a.arrival(id):
		return at.Sub(begin), nil
	case <-ctx.Done():
		return 0, errSilent
	}
}

// flood has one Reader push rubbish as fast as the server takes it.
func (p *agentsPart) flood(ctx context.Context, l load) (r reply, err error) {
	a, subject := p.readers[readerName(l.FirstReader)], pushSubject(l.FirstReader, l.FirstReader)
	body := bytes.Repeat([]byte("x"), 1000)
	begin := time.Now()
	for time.Since(begin) < l.Duration && ctx.Err() == nil {
		// It may have been disconnected for the flood, and reconnects.
		if a.NATS().Publish(subject, body) != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		r.Count++
	}
	r.Took = time.Since(begin)
	return r, nil
}
