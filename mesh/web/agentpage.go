package web

import (
	"net/http"
	"strconv"
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
	p := page{facts: f, Title: string(a.Name), Facts: a.facts(), Frames: framed(s.framing(r, last), last, nil), Nothing: "Nothing was decided about it yet."}
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

func (a *agent) facts() []fact {
	facts := []fact{{Name: "Roles", Value: a.Roles()}, {Name: taintName(a.reader), Value: a.Taint.String()}, {Name: "Violations of permissions", Value: strconv.Itoa(a.violations)}}
	if d := a.definition; d != nil {
		facts = append(facts, fact{Name: "Own taint", Value: d.BaseTaint.String()}, fact{Name: "Network", Value: d.Network})
		if d.Model != "" {
			facts = append(facts, fact{Name: "Model", Value: d.Model})
		}
		if d.File != "" {
			facts = append(facts, fact{Name: "Defined in", Value: d.File})
		}
	}
	if a.Status != nil {
		facts = append(facts, fact{Name: "State", Value: string(a.Status.State)}, fact{Name: "Waits", Value: tell.Waits(a.Status)}, fact{Name: "Details", Value: a.Details()})
	}
	return facts
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	s.show(w, r, http.StatusOK, "sessions", page{facts: f, Title: "Sessions", Of: f.known.sessions})
}
