package web

import (
	"net/http"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

func (s *Server) agents(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, http.StatusOK, "agents", page{facts: s.facts(), Title: "Agents"})
}

// StatusKnown reports whether the viewer may know how agents are.
func (f *facts) StatusKnown() bool { return f.Connected() != "?" }

// Roles are what an agent is.
func (a *agent) Roles() string {
	var roles []string
	if a.controller {
		roles = append(roles, "Controller")
	}
	if a.reader {
		roles = append(roles, "Reader")
	}
	return strings.Join(roles, " and ")
}

// TaintName names the taint that pages show of it.
func (a *agent) TaintName() string { return taintName(a.reader) }

// Details say how an agent is that has a status.
func (a *agent) Details() string { return tell.Agent(a.Status, a.now) }

func (s *Server) agent(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	a := f.agent(r.PathValue("agent"))
	if a == nil {
		s.problem(w, r, "No such agent", "The mesh has no agent of this name.", "bcpmesh status")
		return
	}
	last := a.lastLine()
	p := page{facts: f, Title: string(a.Name), Of: a, Frames: framed(s.framing(r, last), last, nil), Nothing: "Nothing was decided about it yet."}
	for _, c := range f.channels {
		if c.key.Controller == a.Name || c.key.Reader == a.Name {
			p.Channels = append(p.Channels, c)
		}
	}
	p.Picture = topology(p.Channels, f.taints())
	p.Story = events(newest(f.entries, 0, newestOfChannel, func(e *entry) bool {
		return e.Agent == a.Name || e.Controller == a.Name || e.Reader == a.Name || e.Target == a.Name
	}))
	s.show(w, r, http.StatusOK, "agent", p)
}

func (f *facts) agent(name string) *agent {
	for _, a := range f.Agents {
		if string(a.Name) == name {
			return a
		}
	}
	return nil
}

// lastLine frames the last output of its command, if any.
func (a *agent) lastLine() []tell.Frame {
	if a.Status == nil || a.Status.Command == nil || a.Status.Command.LastLine == "" {
		return nil
	}
	last := a.Status.Command.LastLine
	return []tell.Frame{{Label: "untrusted: an agent's own text", Length: tell.Length(last), Parts: []tell.Part{{Text: last}}, End: "end of what it printed"}}
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	s.show(w, r, http.StatusOK, "sessions", page{facts: f, Title: "Sessions", Of: f.known.sessions})
}
