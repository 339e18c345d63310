package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// Proof is the newest signed checkpoint of the journal, which makes any later
// change of the earlier decisions detectable.
type Proof struct {
	// Checkpoint is the signed checkpoint, verbatim (C2SP tlog-checkpoint), with the
	// cosignatures of witnesses. It is empty if there is none.
	Checkpoint string
	Signed     time.Time
	// Key is the public key that verifies it.
	Key string
}

func (s *Server) proof(w http.ResponseWriter, r *http.Request) {
	p := page{facts: s.facts(), Title: "Proof"}
	if mesh := s.mesh.Load(); mesh != nil && mesh.Proof != nil {
		proof := mesh.Proof()
		lines, records := []string(nil), "0"
		if text := strings.TrimSuffix(proof.Checkpoint, "\n"); text != "" {
			lines = strings.Split(text, "\n")
		}
		if len(lines) > 1 {
			records = lines[1]
		}
		p.Facts = []fact{{Name: "records", Value: records}, {Name: "signed", Value: written(proof.Signed) + ", " + tell.Roughly(s.logins.now().Sub(proof.Signed)) + " ago"}, {Name: "key", Value: proof.Key}}
		p.Of = struct{ Lines []string }{lines}
	}
	s.show(w, r, http.StatusOK, "proof", p)
}
