package web

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
)

// Mesh is the mesh that the pages show. Its functions are called concurrently.
type Mesh struct {
	Shards []Shard
	// Connected reports whether the mesh can be reached; pages say when it cannot.
	Connected func() bool
	// Owner is the person for decisions by users who logged in with a code of the
	// terminal; nil if these may not decide.
	Owner *Person
	// Proofs returns the newest checkpoint of each shard; nil if the state folder is not at
	// hand.
	Proofs func() []Proof
	// Definition returns the definitions, nil if they are not at hand.
	Definition func() *bcp.Mesh
}

// Shard is the way to one shard of a mesh.
type Shard struct {
	Number  int
	Auditor *agents.Auditor
	// Budgets is asked for forecasts, sessions and storage, with creds of an auditor or
	// of the operator.
	Budgets *agents.Operator
	// Operator is asked how agents are, with creds of the operator; nil without them.
	Operator *agents.Operator
}

// Attend shows a mesh until ctx ends: it follows the audit of each shard, beginning with
// the newest decisions, as many as are kept. If a shard cannot be read, the pages say
// so, and it retries. Only one mesh is shown at a time.
func (s *Server) Attend(ctx context.Context, mesh Mesh) {
	s.mesh.Store(&mesh)
	var following sync.WaitGroup
	defer following.Wait()
	for _, shard := range mesh.Shards {
		following.Go(func() { s.followShard(ctx, shard) })
	}
}

func (s *Server) followShard(ctx context.Context, shard Shard) {
	for ctx.Err() == nil {
		err := s.follow(ctx, shard)
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.history.fail(shard.Number, true)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s *Server) follow(ctx context.Context, shard Shard) error {
	last, err := shard.Auditor.Last(ctx)
	if err != nil && !errors.Is(err, agents.ErrNoRecords) {
		return err
	}
	next := s.history.next(shard.Number)
	if next == 0 || next > last.Sequence+1 {
		next = max(last.Sequence, maxHistory) - maxHistory + 1
	}
	s.history.fail(shard.Number, false)
	return s.take(shard.Auditor.Follow(ctx, next), shard.Number)
}

func (s *Server) take(records iter.Seq2[agents.AuditRecord, error], shard int) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		s.history.add(shard, r.Sequence, &r.Decision)
		s.streams.wake()
	}
	return nil
}

// read returns the decision with a number from the audit, if it is not kept.
func (s *Server) read(ctx context.Context, number int, seq uint64) *entry {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	mesh := s.mesh.Load()
	for _, shard := range mesh.Shards {
		if shard.Number != number {
			continue
		}
		if r, ok, err := shard.Auditor.At(ctx, seq); err == nil && ok && r.Decision.Seq == seq {
			return &entry{shard: number, Decision: r.Decision}
		}
	}
	return nil
}

// known is the reply of a shard.
type known struct {
	shard     int
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
	// viewAge is the age at which a shard's reply is refreshed, and viewPatience the
	// age at which a page waits for the refresh: a younger one is shown as it is.
	viewAge      = time.Second
	viewPatience = 5 * time.Second
)

// viewCache caches the replies of shards for a moment, so that many pages cause as many
// requests as one.
type viewCache struct {
	asking sync.Mutex // held during requests to the shards

	mu    sync.Mutex
	mesh  *Mesh // the mesh of the replies
	at    time.Time
	known []known
}

// shardViews returns the last replies of a mesh's shards; it refreshes them if they are
// old and the mesh is reachable.
func (c *viewCache) shardViews(mesh *Mesh, connected bool) []known {
	said, age := c.last(mesh)
	switch {
	case said != nil && (!connected || age < viewAge):
		return said
	case said != nil && age < viewPatience:
		if c.asking.TryLock() {
			go func() {
				defer c.asking.Unlock()
				c.ask(mesh)
			}()
		}
		return said
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	if said, age := c.last(mesh); said != nil && age < viewAge { // another page refreshed it meanwhile
		return said
	}
	return c.ask(mesh)
}

// last returns the cached replies, nil if there are none, and their age.
func (c *viewCache) last(mesh *Mesh) ([]known, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mesh != mesh {
		c.mesh, c.known = mesh, nil
	}
	return c.known, time.Since(c.at)
}

// ask asks the shards. What one does not say stays as it was.
func (c *viewCache) ask(mesh *Mesh) []known {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	said := make([]known, len(mesh.Shards))
	var asking sync.WaitGroup
	for i, shard := range mesh.Shards {
		asking.Go(func() { said[i] = ask(ctx, shard) })
	}
	asking.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mesh != mesh {
		return said // of a mesh that is no longer shown
	}
	for i := range said {
		if said[i].err != nil && c.known != nil {
			old := c.known[i]
			old.err = said[i].err
			said[i] = old
		}
	}
	c.known, c.at = said, time.Now()
	return said
}

// ask asks a shard for everything but its audit.
func ask(ctx context.Context, shard Shard) known {
	k := known{shard: shard.Number}
	var wrong [5]error
	var all sync.WaitGroup
	all.Go(func() { k.forecasts, wrong[0] = shard.Budgets.Forecasts(ctx) })
	all.Go(func() { k.sessions, wrong[1] = shard.Budgets.Sessions(ctx) })
	all.Go(func() { k.storage, wrong[2] = shard.Budgets.Storage(ctx) })
	if shard.Operator != nil {
		all.Go(func() { k.agents, wrong[3] = shard.Operator.Agents(ctx) })
	}
	all.Go(func() {
		records, err := shard.Auditor.Ledger(ctx)
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
