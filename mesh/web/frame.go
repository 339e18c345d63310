package web

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// Parts that several pages use.

// show writes a page for a logged-in user, all of it or an error.
func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, title, fault string, parts ...m.Node) {
	type place struct{ path, name string }
	places := []place{{"/", "Mesh"}, {"/approvals", "Approvals"}, {"/agents", "Agents"}, {"/sessions", "Sessions"}, {"/audit", "Audit"}, {"/alerts", "Alerts"}}
	if s.scenes != nil {
		places = append([]place{{storyPath, "Story"}}, places...)
	}
	var links []m.Node
	for _, l := range places {
		attrs := []m.Attr{m.Href(l.path)}
		if l.path == r.URL.Path {
			attrs = append(attrs, m.Current())
		}
		links = append(links, m.El(m.A, attrs, m.Text(l.name)))
	}
	bar := m.El(m.Header, nil,
		m.El(m.Nav, []m.Attr{m.Spoken("Pages")}, links...),
		m.El(m.Span, []m.Attr{m.Class("word"), m.Spoken("Words that frame untrusted text: " + s.frameWord(r))}, m.Text(s.frameWord(r))),
		m.El(m.Form, []m.Attr{m.Post(), m.Action("/logout")}, m.El(m.Button, nil, m.Text("Log out"))))
	body := []m.Node{m.El(m.H1, nil, bdi(title))}
	if fault != "" {
		body = append(body, m.El(m.P, []m.Attr{m.Class("fault"), m.Role("status")}, m.Text(fault)))
	}
	content := m.El(m.Main, []m.Attr{m.ID("main")}, append(body, parts...)...)
	m.Under(s.visit(r).root(), bar, content)
	render(w, status, title, m.El(m.A, []m.Attr{m.Class("skip"), m.Skip("main")}, m.Text("Skip to the content")), bar, content)
}

// outside writes a page for somebody who is not logged in.
func outside(w http.ResponseWriter, status int, title, fault string, parts ...m.Node) {
	body := []m.Node{m.El(m.H1, nil, m.Text(title))}
	if fault != "" {
		body = append(body, m.El(m.P, []m.Attr{m.Class("fault"), m.Role("alert")}, m.Text(fault)))
	}
	render(w, status, title, m.El(m.Main, []m.Attr{m.ID("main")}, append(body, parts...)...))
}

// render writes a page.
func render(w http.ResponseWriter, status int, title string, body ...m.Node) {
	var page bytes.Buffer
	if err := m.Render(&page, title+" · bcpmesh", stylePath, scriptPath, body...); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // ignore an error: the browser is gone
}

// problem is the page for something that does not exist.
func (s *Server) problem(w http.ResponseWriter, r *http.Request, title, text, command string) {
	parts := []m.Node{m.El(m.P, nil, m.Text(text))}
	if command != "" {
		parts = append(parts, m.El(m.P, nil, m.El(m.Code, nil, bdi(command))))
	}
	s.show(w, r, http.StatusNotFound, title, "", parts...)
}

// bdi returns text that is isolated from the writing direction around it.
func bdi(text string) m.Node { return m.El(m.Bdi, nil, m.Text(inert.Line(text))) }

func paragraph(text string) m.Node { return m.El(m.P, nil, m.Text(text)) }

// section is a part of a page with a heading, which is its accessible name.
func section(id, title string, parts ...m.Node) m.Node {
	return m.El(m.Section, []m.Attr{m.LabelledBy(id)}, append([]m.Node{m.El(m.H2, []m.Attr{m.ID(id)}, m.Text(title))}, parts...)...)
}

// rowHead is the first cell of a row, which names it.
func rowHead(name m.Node) m.Node { return m.El(m.Th, []m.Attr{m.Scope("row")}, name) }

func row(cells ...m.Node) m.Node { return m.El(m.Tr, nil, cells...) }

func link(path string, name m.Node) m.Node { return m.El(m.A, []m.Attr{m.Href(path)}, name) }

func cell(text string) m.Node { return m.El(m.Td, nil, bdi(text)) }

func number(text string) m.Node { return m.El(m.Td, []m.Attr{m.Class("number")}, m.Text(text)) }

// column is the head of a column.
func column(name string) m.Node { return m.El(m.Th, []m.Attr{m.Scope("col")}, m.Text(name)) }

// numbers is the head of a column of numbers.
func numbers(name string) m.Node {
	return m.El(m.Th, []m.Attr{m.Scope("col"), m.Class("number")}, m.Text(name))
}

// table returns a table that scrolls sideways if it is too wide.
func table(caption string, head, rows []m.Node) m.Node {
	return m.El(m.Div, []m.Attr{m.Class("wide"), m.Focusable(), m.Role("group"), m.Spoken(caption)}, m.El(m.Table, nil,
		m.El(m.Caption, nil, m.Text(caption)), m.El(m.Thead, nil, row(head...)), m.El(m.Tbody, nil, rows...)))
}

// fact is a name with a value.
type fact struct{ name, value string }

// factList shows short facts side by side.
func factList(list ...fact) m.Node { return factsAs("facts", list) }

// factRows has a row for each fact, for longer ones.
func factRows(list []fact) m.Node { return factsAs("rows", list) }

func factsAs(class string, list []fact) m.Node {
	var parts []m.Node
	for _, f := range list {
		parts = append(parts, m.El(m.Div, nil, m.El(m.Dt, nil, m.Text(f.name)), m.El(m.Dd, nil, bdi(f.value))))
	}
	return m.El(m.Dl, []m.Attr{m.Class(class)}, parts...)
}

func mark(class, text string) m.Node {
	return m.El(m.Span, []m.Attr{m.Class("mark " + class)}, m.Text(text))
}

func taintMark(t bcp.Taint) m.Node {
	return mark("taint-"+t.String(), letter(t)+" "+t.String())
}

// verdictMark returns a word for the result of a decision.
func verdictMark(d *bcp.Decision) m.Node {
	if d.Verdict == 0 {
		return mark("event", "event")
	}
	verdict := tell.Verdict(d).String()
	return mark(verdict, verdict)
}

func written(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

func timeElement(t time.Time) m.Node { return m.El(m.Time, nil, m.Text(written(t))) }

// story is a list of decisions, each a sentence.
func story(f *facts, entries []*entry, empty string) m.Node {
	if len(entries) == 0 {
		return paragraph(empty)
	}
	var lines []m.Node
	for _, e := range entries {
		name := strconv.FormatUint(e.Seq, 10)
		lines = append(lines, m.El(m.Li, nil,
			m.El(m.A, []m.Attr{m.Href(decisionPath(e)), m.Spoken("Decision " + name)}, m.Text(name)), m.Text(" "),
			timeElement(e.At()), m.Text(" "), verdictMark(&e.Decision), m.Text(" "), bdi(tell.Sentence(&e.Decision))))
	}
	return m.El(m.Ol, []m.Attr{m.Class("story")}, lines...)
}

// live shows a story that continues in a browser with scripts.
func live(f *facts, entries []*entry, empty string) m.Node {
	told := story(f, entries, empty)
	if len(entries) == 0 {
		told = m.El(m.Ol, []m.Attr{m.Class("story")}, m.El(m.Li, nil, m.Text(empty)))
	}
	return m.El(m.Div, []m.Attr{m.Class("live"), m.Seen(f.total)}, m.El(m.P, nil, m.El(m.Button, []m.Attr{m.Plain(), m.Unseen()}, m.Text("Pause")), m.Text(" "),
		m.El(m.Span, []m.Attr{m.Class("status"), m.Role("status")})), told)
}

func channelPath(key bcp.ChannelKey) string {
	return "/channels/" + url.PathEscape(string(key.Controller)) + "/" + url.PathEscape(string(key.Reader))
}

func agentPath(name bcp.AgentName) string { return "/agents/" + url.PathEscape(string(name)) }

func decisionPath(e *entry) string { return "/decisions/" + strconv.FormatUint(e.Seq, 10) }
