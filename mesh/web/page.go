package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

//go:embed pages/*.html
var pageFiles embed.FS

// pages are the templates of all pages. html/template escapes each text for its place; line makes it inert first, which
// is for the reader what escaping is for the browser. No function returns markup.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"line":    func(text any) string { return inert.Line(fmt.Sprint(text)) },
	"path":    func(name any) string { return url.PathEscape(fmt.Sprint(name)) },
	"style":   func() string { return stylePath },
	"script":  func() string { return scriptPath },
	"written": written,
	"columns": columns,
	"fact":    func(name string, value any) fact { return fact{Name: name, Value: fmt.Sprint(value)} },
	"budget":  func(of string, b bcp.BudgetRoom) budget { return budget{of, b} },
	"waits":   tell.Waits,
	"runs":    func(text string) []run { return runs(text, nil) },
	"letter":  func(t bcp.Taint) string { return letters[t] },
	"taints":  func() []bcp.Taint { return []bcp.Taint{bcp.TaintLow, bcp.TaintMedium, bcp.TaintHigh} },
	"inPlace": func(root string, of *Scene) any {
		return struct {
			Root  string
			Scene *Scene
		}{root, of}
	},
}).ParseFS(pageFiles, "pages/*.html"))

// page is what the template of a page gets.
type page struct {
	*facts              // nil where a page shows none of them
	Title, Fault string // Fault is what is wrong, if anything is
	Facts        []fact
	Frames       []frame
	Channels     []*channel
	Picture      *picture // of Channels
	Story        []event  // decisions, and what is said if there are none
	Nothing      string
	Of           any // what only this page has

	// The rest is of the session, and empty for somebody who is not logged in: the place of its pages, the path of
	// this one in it, and the words that frame hostile text.
	Root, Path, Word string
	Places           []place
}

type fact = tell.ItemFact

// alertsPath is the page of the audit with the alerts.
const alertsPath = "/audit?kind=alert"

type place struct{ Path, Name string }

// show writes a page for a logged-in user, all of it or an error.
func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	of := s.visit(r)
	p.Root, p.Path, p.Word = of.root(), r.URL.Path, of.word
	p.Places = []place{{"/", "Mesh"}, {"/approvals", "Approvals"}, {"/agents", "Agents"}, {"/sessions", "Sessions"}, {"/audit", "Audit"}, {alertsPath, "Alerts"}}
	if s.scenes != nil {
		p.Places = append([]place{{storyPath, "Story"}}, p.Places...)
	}
	if p.facts != nil {
		p.Fault = p.facts.fault
	}
	write(w, status, name, &p)
}

// outside writes a page for somebody who is not logged in.
func outside(w http.ResponseWriter, status int, name, title, fault string, of any) {
	write(w, status, name, &page{Title: title, Fault: fault, Of: of})
}

func write(w http.ResponseWriter, status int, name string, p *page) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, p); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // ignore an error: the browser is gone
}

// message is a page that says one thing, with a command or links to go on.
type message struct {
	Text, Command string
	Links         []place
}

// problem is the page for something that does not exist.
func (s *Server) problem(w http.ResponseWriter, r *http.Request, title, text, command string) {
	s.show(w, r, http.StatusNotFound, "message", page{Title: title, Of: message{Text: text, Command: command}})
}

func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	s.problem(w, r, "No such page", "The address may be mistyped.", "")
}

// table is the head of a table. The names of columns of numbers begin with #.
type table struct {
	Caption string
	Columns []string
}

func columns(caption string, names ...string) table { return table{caption, names} }

// frame is hostile text between the words of the session. In it the words are marked for which an item was held, if it is
// of one.
type frame struct {
	tell.Frame
	Word string
	of   *bcp.Item
}

// Runs are the runs of a part of it.
func (f frame) Runs(text string) []run { return runs(text, f.of) }

// framed frames hostile texts with words; the first is of an item, or nil.
func framed(word string, frames []tell.Frame, of *bcp.Item) (shown []frame) {
	for _, f := range frames {
		shown = append(shown, frame{f, word, of})
		of = nil
	}
	return shown
}

// run is a part of a hostile text that is shown in one way: as it is, as a mark of a character, or as a sign for which an
// item was held.
type run struct {
	Text       string
	Mark, Sign bool
}

func runs(text string, of *bcp.Item) (parts []run) {
	for _, r := range inert.Runs(text) {
		at := 0
		if of != nil && !r.Mark {
			for _, sign := range tell.Signs(of, r.Text) {
				parts = append(parts, run{Text: r.Text[at:sign[0]]}, run{Text: r.Text[sign[0]:sign[1]], Sign: true})
				at = sign[1]
			}
		}
		parts = append(parts, run{Text: r.Text[at:], Mark: r.Mark})
	}
	return parts
}

// letters say a taint without colour.
var letters = map[bcp.Taint]string{bcp.TaintUnknown: "?", bcp.TaintLow: "L", bcp.TaintMedium: "M", bcp.TaintHigh: "H"}

func written(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
