package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

func (s *Server) agents(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	var rows []m.Node
	for _, a := range f.agents {
		rows = append(rows, row(rowHead(link(agentPath(a.name), bdi(string(a.name)))),
			cell(a.roles()), m.El(m.Td, nil, taintMark(a.taint)), m.El(m.Td, nil, a.state()), cell(a.waits()), cell(a.says(f))))
	}
	parts := []m.Node{table("Agents", []m.Node{column("Agent"), column("Roles"), column("Delivered taint, or exposure"), column("State"), column("Waits"), column("Details")}, rows)}
	if !f.statusKnown() {
		parts = append(parts, paragraph("Connections and agents' commands are for the owner of the state folder: run bcpmesh web in the folder of the mesh."))
	}
	s.show(w, r, http.StatusOK, "Agents", f.fault, parts...)
}

func (f *facts) statusKnown() bool {
	for _, a := range f.agents {
		if a.status != nil {
			return true
		}
	}
	return false
}

func (a *agent) roles() string {
	var roles []string
	if a.controller {
		roles = append(roles, "Controller")
	}
	if a.reader {
		roles = append(roles, "Reader")
	}
	return strings.Join(roles, " and ")
}

func (a *agent) state() m.Node {
	if a.status == nil {
		return m.Text("?")
	}
	return mark("state-"+string(a.status.State), string(a.status.State))
}

func (a *agent) waits() string {
	if a.status == nil {
		return ""
	}
	return tell.Waits(a.status)
}

func (a *agent) says(f *facts) string {
	if a.status == nil {
		return ""
	}
	return tell.Agent(a.status, f.now)
}

func (s *Server) agent(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	for _, a := range f.agents {
		if string(a.name) == r.PathValue("agent") {
			s.show(w, r, http.StatusOK, string(a.name), f.fault, agentParts(s.framing(r, a.lastLine()), f, a)...)
			return
		}
	}
	s.problem(w, r, "No such agent", "The mesh has no agent of this name.", "bcpmesh status")
}

// lastLine frames the last output of its command, if any.
func (a *agent) lastLine() []tell.Frame {
	if a.status == nil || a.status.Command == nil || a.status.Command.LastLine == "" {
		return nil
	}
	last := a.status.Command.LastLine
	return []tell.Frame{{Label: "untrusted: an agent's own text", Length: inert.Length(last), Parts: []tell.Part{{Text: last}}, End: "end of what it printed"}}
}

func agentParts(word string, f *facts, a *agent) []m.Node {
	facts := []fact{{"Roles", a.roles()}, {taintName(a.reader), a.taint.String()}, {"Violations of permissions", strconv.Itoa(a.violations)}}
	if len(a.way) > 0 {
		var names []string
		for _, name := range a.way {
			names = append(names, string(name))
		}
		facts = append(facts, fact{"Taint comes by", strings.Join(names, " → ")})
	}
	if d := a.definition; d != nil {
		facts = append(facts, fact{"Own taint", d.BaseTaint.String()}, fact{"Network", d.Network})
		if d.Model != "" {
			facts = append(facts, fact{"Model", d.Model})
		}
		if d.File != "" {
			facts = append(facts, fact{"Defined in", d.File})
		}
	}
	if a.status != nil {
		facts = append(facts, fact{"State", string(a.status.State)}, fact{"Waits", a.waits()}, fact{"Details", a.says(f)})
	}
	parts := []m.Node{factList(facts...)}
	for _, f := range a.lastLine() {
		parts = append(parts, section("last", "Last output of its command", framed(word, f, nil)))
	}
	var channels []*channel
	taints := f.taints()
	for _, c := range f.channels {
		if c.key.Controller == a.name || c.key.Reader == a.name {
			channels = append(channels, c)
		}
	}
	if len(channels) > 0 {
		parts = append(parts, section("channels", "Its channels", topology(channels, taints), legend(), channelTable(f, channels)))
	}
	about := func(e *entry) bool {
		return e.Agent == a.name || e.Controller == a.name || e.Reader == a.name || e.Target == a.name
	}
	return append(parts, section("newest", "Newest decisions", story(f, newest(f.entries, 0, newestOfChannel, about), "Nothing was decided about it yet.")))
}

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	var rows []m.Node
	for j := range f.known.sessions {
		v := &f.known.sessions[j]
		escalations, remaining := []string{}, []string{}
		for _, c := range v.Channels {
			escalations = append(escalations, string(c.Reader)+" "+strconv.Itoa(c.Escalations)+"/"+strconv.Itoa(c.MaxEscalations))
			remaining = append(remaining, string(c.Reader)+" "+c.Remaining.Rounded())
		}
		id, since := m.Text("none"), ""
		if v.Session != "" {
			id, since = link("/sessions/"+string(v.Session), bdi(string(v.Session))), written(v.Since)
		}
		rows = append(rows, row(rowHead(link(agentPath(v.Controller), bdi(string(v.Controller)))),
			m.El(m.Td, nil, id), cell(v.Status), cell(since), m.El(m.Td, nil, taintMark(v.Exposure)), cell(strings.Join(escalations, ", ")), cell(strings.Join(remaining, ", "))))
	}
	parts := []m.Node{table("The newest session of each Controller", []m.Node{column("Controller"), column("Session"), column("Status"), column("Since"), column("Exposure"), column("Escalations"), column("Bits left")}, rows)}
	if rows == nil {
		parts = []m.Node{paragraph("No Controller has had a session.")}
	}
	s.show(w, r, http.StatusOK, "Sessions", f.fault, parts...)
}

func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	id := bcp.SessionID(r.PathValue("session"))
	found := newest(f.entries, 0, len(f.entries), func(e *entry) bool { return e.Session == id })
	if id == "" || len(found) == 0 {
		s.problem(w, r, "No such session", "None of the newest decisions is of this session. The command reads older ones.", "bcpmesh audit replay --session "+string(id))
		return
	}
	s.show(w, r, http.StatusOK, "Session "+string(id), f.fault, story(f, found[:min(perPage, len(found))], ""))
}
