package mesh

import (
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Active reports whether this gateway serves.
func (g *Gateway) Active() bool { return g.mesh.Load() != nil }

// Definition is of the term.
func (g *Gateway) Definition() *bcp.Mesh { return g.mesh.Load().Definition() }

// Disconnect closes the connection that a gateway has beside those of its terms.
func (g *Gateway) Disconnect() { g.conn.Close() }

// Interrupter makes the requests to the journal in this term.
func (g *Gateway) Interrupter() *jetstream.Interrupter { return &g.mesh.Load().interrupter }

// Denied is what the server tells the gateway of an agent that was refused a subject.
func (m *Mesh) Denied(agent bcp.AgentName, role bcp.Role, act, subject string) {
	m.gateway.Denied(agent, role, act, subject, 1)
}

// JetStream is the gateway's.
func (m *Mesh) JetStream() natsjs.JetStream { return m.js }

// Truncating has f called before each step of a truncation that this mesh takes, which cuts
// off some bytes at once.
func (m *Mesh) Truncating(f func(step string) error, bytes uint64) {
	m.truncating, m.truncatedAtOnce = f, bytes
}
