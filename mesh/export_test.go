package mesh

import "github.com/bcpmesh/bcpmesh/jetstream"

// Disconnect closes the connection that a seat has beside those of its terms.
func (s *Seat) Disconnect() { s.conn.Close() }

// Asking is who asks the journal in this term.
func (s *Seat) Asking() *jetstream.Asking { return &s.mesh.Load().asking }
