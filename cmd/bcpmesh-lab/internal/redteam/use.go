package redteam

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// Setup is a mesh for [Use].
type Setup struct {
	State string            // an empty folder
	Name  string            // of a folder in it, which is created
	Files map[string]string // definitions
	// Definition, if set, is the mesh in place of Files.
	Definition *bcp.Mesh
	// Edit, if set, changes the loaded definitions: it can express what files cannot.
	Edit func(*bcp.Mesh)
	Seed uint64
}

// Use gives f a mesh for use from outside, and stops it. It returns what f reported
// with [Rig.Broken]; the error says why f did not finish.
func Use(ctx context.Context, s Setup, f func(*Rig)) (broken []string, err error) {
	r, err := newRig(ctx, s.State, Attack{ID: s.Name, files: s.Files, definition: s.Definition}, s.Seed)
	if err != nil {
		return nil, err
	}
	r.long = true
	if s.Edit != nil {
		texts := map[string][]byte{}
		for name, text := range s.Files {
			texts[name] = []byte(text)
		}
		parsed, report := definition.Parse(texts)
		if parsed == nil {
			return nil, fmt.Errorf("the definitions: %v", report.Errors)
		}
		s.Edit(parsed)
		r.definition = parsed
	}
	err = r.Try(func() {
		r.Mesh()
		f(r)
	})
	if stop := r.Try(r.stop); err == nil {
		err = stop
	}
	return r.evidence, err
}

// Try calls f and returns why it was abandoned. Goroutines that use a rig must call
// it, since the methods of a rig panic when the mesh or the machine fails.
func (r *Rig) Try(f func()) error { return r.guarded(f) }

// Rand is the rig's source of randomness, by its seed. Use it from one goroutine.
func (r *Rig) Rand() *rand.Rand { return r.rand }

// Observe keeps, from now on, all that the client's connection gets, in order. Call it
// before the client sends anything.
func (s *Client) Observe() { s.observing = true }

// Observed returns what came since [Client.Observe] or the last call, and forgets it,
// with all messages that [Client.Await] could still find. Messages to the client's inbox
// that are not replies to its requests come last.
func (s *Client) Observed() []Message {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		grown, missing := s.grown, s.requests-s.inbox
		if missing <= 0 {
			observed := s.observed
			for range -missing {
				observed = append(observed, Message{Subject: "more in the inbox"})
			}
			s.observed, s.heard, s.requests, s.inbox = nil, nil, 0, 0
			s.mu.Unlock()
			return observed
		}
		s.mu.Unlock()
		select {
		case <-grown:
		case <-timeout.C:
			s.rig.abandon("%s does not hear what it was replied to", s.name)
		}
	}
}

// Close ends the connection.
func (s *Client) Close() { s.conn.Close() }
