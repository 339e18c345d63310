package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Mesh is the mesh that the pages show. Its functions are called concurrently.
type Mesh struct {
	// Auditor reads the audit, Budgets what is asked of the gateway: forecasts, sessions
	// and storage, with creds of an auditor or of the operator. Without them (nil) the
	// pages know nothing of either.
	Auditor *agents.Auditor
	Budgets *agents.Operator
	// Operator is asked how agents are, with creds of the operator; nil without them.
	Operator *agents.Operator
	// Connected reports whether the mesh can be reached; pages say when it cannot.
	Connected func() bool
	// Owner is the person for decisions by users who logged in with a code of the
	// terminal; nil if these may not decide.
	Owner *Person
	// Proof returns the newest checkpoint; nil if the state folder is not at hand.
	Proof func() Proof
	// Definition returns the definitions, nil if they are not at hand.
	Definition func() *bcp.Mesh
	// Close ends the connections. It is called once, when nothing is shown over them any more.
	Close func()
}

const (
	// lookPause is between two looks whether the mesh is there.
	lookPause = time.Second
	// silence is how long a connection may be lost before another is made: the mesh may
	// have started again at another address.
	silence = 5 * time.Second
)

// Serve serves pages about a mesh until ctx ends, and then returns nil; it is called once.
// Running requests get a second to finish. again connects anew: when a connection is as old
// as renewal, which is before its credentials expire, and when it is lost. While it fails,
// the connection that there was is shown, and it is called again. Without again (nil) the
// first connection stays.
func (s *Server) Serve(ctx context.Context, first Mesh, again func(context.Context) (Mesh, error), renewal time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	var attended sync.WaitGroup
	attended.Go(func() {
		for mesh := &first; mesh != nil; {
			attending, stop := context.WithCancel(ctx)
			var shown sync.WaitGroup
			shown.Go(func() { s.attend(attending, *mesh) })
			next := reconnect(ctx, mesh, again, renewal)
			stop()
			shown.Wait()
			mesh.Close()
			mesh = next
		}
	})
	err := s.run(ctx)
	cancel()
	attended.Wait()
	return err
}

// reconnect returns the mesh that follows, nil when ctx has ended.
func reconnect(ctx context.Context, mesh *Mesh, again func(context.Context) (Mesh, error), renewal time.Duration) *Mesh {
	due := time.Now().Add(renewal)
	seen := time.Now()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		now := time.Now()
		if mesh.Connected() {
			seen = now
		}
		if again == nil || now.Before(due) && now.Sub(seen) < silence {
			continue
		}
		next, err := again(ctx)
		if err == nil {
			return &next
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
	}
}

// attend shows a mesh until ctx ends: it follows the audit, beginning with the newest
// decisions, as many as are kept. If it cannot be read, the pages say so, and it retries.
// Only one mesh is shown at a time.
func (s *Server) attend(ctx context.Context, mesh Mesh) {
	s.mesh.Store(&mesh)
	for ctx.Err() == nil {
		err := s.follow(ctx, mesh.Auditor)
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.history.fail(true)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s *Server) follow(ctx context.Context, auditor *agents.Auditor) error {
	last, err := auditor.Last(ctx)
	if err != nil && !errors.Is(err, agents.ErrNoRecords) {
		return err
	}
	next := s.history.next()
	if next == 0 || next > last.Sequence+1 {
		next = max(last.Sequence, maxHistory) - maxHistory + 1
	}
	s.history.fail(false)
	for r, err := range auditor.Select(ctx, agents.Selection{From: next, Follow: true}) {
		if err != nil {
			return err
		}
		s.history.add(r.Sequence, &r.Decision)
	}
	return nil
}

// read returns the decision with a number from the audit, if it is not kept.
func (s *Server) read(ctx context.Context, seq uint64) *entry {
	auditor := s.mesh.Load().Auditor
	if auditor == nil {
		return nil
	}
	if r, ok, err := auditor.At(ctx, seq); err == nil && ok && r.Decision.Seq == seq {
		return &entry{Decision: r.Decision}
	}
	return nil
}

// known is the reply of a mesh. It is immutable.
type known struct {
	forecasts []bcp.Forecast
	sessions  []bcp.SessionView
	agents    []status.Agent
	storage   status.Storage
	ledger    []bcp.LedgerLine
	err       error
}

const (
	// readTime is the timeout for a page's data.
	readTime = 5 * time.Second
	// viewAge is how long the mesh's reply is shown as it is.
	viewAge = time.Second
)

// viewCache caches the reply of a mesh for a moment, so that many pages cause as many
// requests as one.
type viewCache struct {
	mu    sync.Mutex // held during requests to the mesh
	mesh  *Mesh      // whose reply it is
	at    time.Time
	known *known
}

// current returns the last reply of a mesh; it refreshes it if it is old and the mesh is
// reachable. What the mesh does not say stays as it was.
func (c *viewCache) current(mesh *Mesh, connected bool) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mesh != mesh {
		c.mesh, c.known = mesh, nil
	}
	if c.known != nil && (!connected || time.Since(c.at) < viewAge) {
		return c.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	said := ask(ctx, mesh)
	if said.err != nil && c.known != nil {
		err := said.err
		said = *c.known
		said.err = err
	}
	c.known, c.at = &said, time.Now()
	return c.known
}

// ask asks a mesh for everything but its audit.
func ask(ctx context.Context, mesh *Mesh) (k known) {
	if mesh.Budgets == nil {
		return k
	}
	var wrong [5]error
	var all sync.WaitGroup
	all.Go(func() { k.forecasts, wrong[0] = mesh.Budgets.Forecasts(ctx) })
	all.Go(func() { k.sessions, wrong[1] = mesh.Budgets.Sessions(ctx) })
	all.Go(func() { k.storage, wrong[2] = mesh.Budgets.Storage(ctx) })
	if mesh.Operator != nil {
		all.Go(func() { k.agents, wrong[3] = mesh.Operator.Agents(ctx) })
	}
	all.Go(func() {
		records, err := mesh.Auditor.Ledger(ctx)
		if errors.Is(err, agents.ErrNoRecords) {
			return
		}
		wrong[4] = err
		for _, r := range records {
			if line, err := bcp.DecodeLedgerLine(r.Data); err == nil {
				k.ledger = append(k.ledger, line)
			}
		}
	})
	all.Wait()
	k.err = errors.Join(wrong[:]...)
	return k
}
