package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// perPage is how many decisions a page of the audit has.
const perPage = 100

// filter selects the decisions on a page of the audit. The zero value selects all.
type filter struct{ agent, kind, verdict, id string }

func (f filter) takes(e *entry) bool {
	return (f.agent == "" || f.agent == string(e.Agent) || f.agent == string(e.Controller) || f.agent == string(e.Reader)) &&
		(f.kind == "" || f.kind == e.Kind.String()) &&
		(f.verdict == "" || f.verdict == tell.Verdict(&e.Decision).String()) &&
		(f.id == "" || slices.Contains([]string{string(e.Query), string(e.Delivery), string(e.Item), string(e.Session)}, f.id))
}

// path returns the address of a page of the selected decisions.
func (f filter) path(page int) string {
	q := url.Values{}
	for _, part := range []struct{ key, value string }{{"agent", f.agent}, {"kind", f.kind}, {"verdict", f.verdict}, {"id", f.id}} {
		if part.value != "" {
			q.Set(part.key, part.value)
		}
	}
	if page > 1 {
		q.Set("page", strconv.Itoa(page))
	}
	if len(q) == 0 {
		return "/audit"
	}
	return "/audit?" + q.Encode()
}

// auditData is what only the page of the audit has.
type auditData struct {
	Fields       []field
	Live         bool
	Newer, Older string // paths of other pages
	Cut          bool   // there are older decisions than these pages know
	Most         int
}

type field struct{ Key, Name, Value string }

func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	f, q := s.facts(), r.URL.Query()
	which := filter{q.Get("agent"), q.Get("kind"), q.Get("verdict"), q.Get("id")}
	number, err := strconv.Atoi(q.Get("page"))
	if err != nil || number < 1 {
		number = 1
	}
	number = min(number, maxHistory/perPage)
	shown := newest(f.entries, (number-1)*perPage, perPage+1, which.takes)
	of := auditData{Live: number == 1 && which == (filter{}), Most: maxHistory,
		Fields: []field{{"agent", "Agent or person", which.agent}, {"kind", "Kind", which.kind}, {"verdict", "Verdict", which.verdict}, {"id", "Query, delivery, item or session", which.id}}}
	if number > 1 {
		of.Newer = which.path(number - 1)
	}
	if len(shown) > perPage {
		of.Older, shown = which.path(number+1), shown[:perPage]
	} else {
		of.Cut = len(f.entries) == maxHistory
	}
	s.show(w, r, http.StatusOK, "audit", page{facts: f, Title: "Audit", Story: events(shown), Nothing: "No decision matches.", Of: of})
}

func (s *Server) alerts(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, s.visit(r).root()+alertsPath, http.StatusSeeOther)
}

// byID leads from an id, also of a session, to the decisions about it.
func (s *Server) byID(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, s.visit(r).root()+filter{id: r.PathValue("id")}.path(1), http.StatusSeeOther)
}

func (s *Server) decision(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil {
		s.missing(w, r)
		return
	}
	f := s.facts()
	e := s.history.find(seq)
	if e == nil {
		e = s.read(r.Context(), seq)
	}
	if e == nil {
		s.problem(w, r, "No such decision", "The audit has no decision of this number that can be read now.", "bcpmesh explain "+strconv.FormatUint(seq, 10))
		return
	}
	exchange := exchangeEntries(f, e)
	_, charged := e.Line()
	p := page{facts: f, Title: "Decision " + strconv.FormatUint(seq, 10), Of: decisionData{e.event(), e, charged, tell.Explain(&e.Decision, f.definition), runOf(exchange, e)}}
	if len(exchange) > 1 {
		p.Story = events(exchange)
	}
	s.show(w, r, http.StatusOK, "decision", p)
}

// decisionData is a decision, and why it is as it is.
type decisionData struct {
	Event   event
	Entry   *entry
	Charged bool // it moved bits
	Why     tell.Explanation
	Run     *tell.RunStory // that it is about; nil for others
}

// runOf tells the run that a decision is about, if these decisions have it from its beginning.
func runOf(decisions []*entry, e *entry) (r *tell.RunStory) {
	if e.Run == nil {
		return nil
	}
	stories := tell.NewRunStories()
	for _, d := range decisions {
		if story := stories.Add(&d.Decision); story != nil && string(story.Run) == e.Run.Run {
			r = story
		}
	}
	return r
}

// exchangeEntries returns the kept decisions of the same exchange, oldest first.
func exchangeEntries(f *facts, e *entry) []*entry {
	same := func(other *entry) bool {
		return e.Run != nil && other.Run != nil && e.Run.Run == other.Run.Run || e.Query != "" && other.Query == e.Query || e.Delivery != "" && other.Delivery == e.Delivery || e.Item != "" && other.Item == e.Item
	}
	found := newest(f.entries, 0, perPage, same)
	slices.Reverse(found)
	return found
}
