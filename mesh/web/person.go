package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Person is a person who decides about held items. Its functions are called
// concurrently.
type Person struct {
	Name bcp.AgentName
	// Approver decides, over a connection with this person's creds.
	Approver *agents.Approver

	// The rest is only for people of a [Site].

	// Passkey signs each decision: the creds are bound to it.
	Passkey accounts.Passkey
	// Over reports whether the mesh refuses the creds, as revoked or expired.
	Over func() bool
	// Close ends the connection.
	Close func()
}

// Site is the public address of the pages for browsers on other machines.
type Site struct {
	// Origin is the origin that browsers show: https://HOST or https://HOST:PORT. For a
	// test on one machine it may be http://localhost:PORT.
	Origin string
	// TLS has the certificate of the host. It is nil behind a proxy on the same machine
	// that has the certificate. Versions before 1.3 are refused.
	TLS *tls.Config
	// People may log in. It is required.
	People *People
}

// ErrOrigin says that passkeys do not work in pages of an origin.
var ErrOrigin = errors.New("web: an origin is https:// and the name of a host, perhaps with a port")

// person returns the person who sent a request, for decisions; nil if they may not
// decide.
func (s *Server) person(r *http.Request) *Person {
	switch mesh := s.mesh.Load(); {
	case mesh == nil:
		return nil
	case s.site != nil:
		return s.visit(r).person
	default:
		return mesh.Owner
	}
}

// decider returns the person of a request. If there is none, it answers the request and returns nil.
func (s *Server) decider(w http.ResponseWriter, r *http.Request) *Person {
	person := s.person(r)
	if person == nil {
		s.show(w, r, http.StatusForbidden, "nobody", page{Title: "Approvals"})
	}
	return person
}

// connectedPeople are the people of a site who are connected. Its methods may be called
// concurrently.
type connectedPeople struct {
	mu   sync.Mutex // held while a person connects
	open map[accounts.Passkey]*Person
}

// connect returns the person with a passkey, whom dial connects: one connection serves all
// their sessions.
func (g *connectedPeople) connect(ctx context.Context, dial func(context.Context, accounts.Passkey) (*Person, error), p accounts.Passkey) (*Person, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.open[p]; known != nil {
		if !known.Over() {
			return known, nil
		}
		known.Close()
		delete(g.open, p)
	}
	person, err := dial(ctx, p)
	if err != nil {
		return nil, err
	}
	if g.open == nil {
		g.open = map[accounts.Passkey]*Person{}
	}
	g.open[p] = person
	return person, nil
}

// closeUnneeded closes the connections that are no longer needed.
func (g *connectedPeople) closeUnneeded(needed func(*Person) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, person := range g.open {
		if !needed(person) {
			person.Close()
			delete(g.open, p)
		}
	}
}

func (g *connectedPeople) close() { g.closeUnneeded(func(*Person) bool { return false }) }
