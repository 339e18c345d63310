package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
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

// Records is how many records of the journal it covers.
func (p *Proof) Records() string {
	lines := strings.SplitN(p.Checkpoint, "\n", 3)
	if len(lines) < 3 {
		return "0"
	}
	return inert.Line(lines[1])
}

func (s *Server) proof(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	var parts []m.Node
	mesh := s.mesh.Load()
	if mesh == nil || mesh.Proof == nil {
		parts = append(parts, paragraph("Checkpoints are with the owner of the state folder: bcpmesh web in the folder of the mesh shows them here, and so does"), commandLine("bcpmesh audit checkpoint"))
	} else {
		p := mesh.Proof()
		parts = append(parts, s.proofSection(&p))
	}
	parts = append(parts, section("verify", "Verify it yourself",
		paragraph("An export is the audit as a file with a checkpoint at its end. Verifying it needs the key and that file, and no trust in the operator of the mesh."),
		commandLine("bcpmesh audit export FILE"), commandLine("bcpmesh audit verify FILE --key KEY"),
		paragraph("The journal can be decided again, which shows that each decision follows from the rules, and that each signature of a person is good:"), commandLine("bcpmesh audit redecide")))
	s.show(w, r, http.StatusOK, "Proof", f.fault, parts...)
}

func commandLine(text string) m.Node { return m.El(m.P, nil, m.El(m.Code, nil, m.Text(text))) }

func (s *Server) proofSection(p *Proof) m.Node {
	const title, id = "Newest checkpoint", "checkpoint"
	if p.Checkpoint == "" {
		return section(id, title, paragraph("There is none yet: one is signed every ten minutes in which something was decided, and when the mesh ends."))
	}
	list := []fact{{"records", p.Records()}, {"signed", written(p.Signed) + ", " + tell.Roughly(s.logins.now().Sub(p.Signed)) + " ago"}, {"key", p.Key}}
	var note []m.Node
	for line := range strings.Lines(p.Checkpoint) {
		note = append(note, m.Text(inert.Line(strings.TrimSuffix(line, "\n"))+"\n"))
	}
	return section(id, title, factRows(list), m.El(m.P, []m.Attr{m.Class("note")}, note...))
}
