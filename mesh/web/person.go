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

// Person is somebody who decides about what is held. Its functions are called
// concurrently.
type Person struct {
	Name bcp.AgentName
	// On returns who decides on a shard, over a connection with this person's creds.
	On func(shard int) *agents.Approver

	// The rest is of people of a [Site] alone.

	// Passkey signs each decision: the creds are bound to it.
	Passkey accounts.Passkey
	// Over reports whether the mesh refuses the creds, as revoked or expired.
	Over func() bool
	// Close ends the connection.
	Close func()
}

// People are those who may log in with a passkey. Its methods are called concurrently.
type People interface {
	// Passkey returns the one that a browser calls by an id.
	Passkey(id string) (accounts.Passkey, bool)
	// Connect returns whose it is, over a connection of its own.
	Connect(ctx context.Context, p accounts.Passkey) (*Person, error)
	// Join trades the token of an invitation for creds that are bound to a passkey, and
	// keeps both. An error of [*agents.RefusedError] or [agents.ErrToken] says that the token
	// is not good.
	Join(ctx context.Context, token string, p accounts.Passkey) (bcp.AgentName, error)
}

// Site is where browsers of other machines find the pages.
type Site struct {
	// Origin is what they show: https://HOST or https://HOST:PORT. To try it on one machine
	// it may be http://localhost:PORT.
	Origin string
	// TLS has the certificate of the host, and is nil behind a proxy on the same machine
	// that has it. Versions before 1.3 are refused.
	TLS    *tls.Config
	People People
}

// ErrOrigin says that passkeys do not work in pages of an origin.
var ErrOrigin = errors.New("web: an origin is https:// and the name of a host, perhaps with a port")

func (s *Site) check() error {
	if s == nil {
		return nil
	}
	if _, ok := accounts.PasskeySite(s.Origin); !ok {
		return ErrOrigin
	}
	return nil
}

// person is who sent a request, as whom it decides; nil if it decides nothing.
func (s *Server) person(r *http.Request) *Person {
	if s.site != nil {
		return s.visit(r).person
	}
	if mesh := s.mesh.Load(); mesh != nil {
		return mesh.Owner
	}
	return nil
}

// guests are the people of a site who are connected. Its methods may be called
// concurrently.
type guests struct {
	mu   sync.Mutex // held while somebody connects
	open map[accounts.Passkey]*Person
}

// connect returns the person with a passkey: one connection serves all their sessions.
func (g *guests) connect(ctx context.Context, people People, p accounts.Passkey) (*Person, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.open[p]; known != nil {
		if !known.Over() {
			return known, nil
		}
		known.Close()
		delete(g.open, p)
	}
	person, err := people.Connect(ctx, p)
	if err != nil {
		return nil, err
	}
	if g.open == nil {
		g.open = map[accounts.Passkey]*Person{}
	}
	g.open[p] = person
	return person, nil
}

// closeUnneeded closes the connections of those whom nobody needs.
func (g *guests) closeUnneeded(needed func(*Person) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, person := range g.open {
		if !needed(person) {
			person.Close()
			delete(g.open, p)
		}
	}
}

func (g *guests) close() { g.closeUnneeded(func(*Person) bool { return false }) }
