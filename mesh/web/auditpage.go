package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/explain"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// perPage is how many decisions a page of the audit has.
const perPage = 100

// filter selects the decisions on a page of the audit. The zero value selects all.
type filter struct{ agent, kind, verdict, id string }

func readFilter(q url.Values) filter {
	return filter{q.Get("agent"), q.Get("kind"), q.Get("verdict"), q.Get("id")}
}

func (f filter) takes(e *entry) bool {
	return (f.agent == "" || f.agent == string(e.Agent) || f.agent == string(e.Controller) || f.agent == string(e.Reader)) &&
		(f.kind == "" || f.kind == e.Kind.String()) &&
		(f.verdict == "" || f.verdict == tell.Verdict(&e.Decision).String()) &&
		(f.id == "" || slices.Contains(entryIDs(e), f.id))
}

// entryIDs returns the ids by which a decision can be found.
func entryIDs(e *entry) []string {
	return []string{string(e.Query), string(e.Delivery), string(e.Item), string(e.Session)}
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

func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	f, which := s.facts(), readFilter(r.URL.Query())
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	page = min(page, maxHistory/perPage)
	shown := newest(f.entries, (page-1)*perPage, perPage+1, which.takes)
	told := story
	if page == 1 && which == (filter{}) {
		told = live
	}
	parts := []m.Node{filterForm(which), told(f, shown[:min(perPage, len(shown))], "No decision matches.")}
	var turn []m.Node
	if page > 1 {
		turn = append(turn, link(which.path(page-1), m.Text("Newer")))
	}
	if len(shown) > perPage {
		turn = append(turn, link(which.path(page+1), m.Text("Older")))
	} else if len(f.entries) == maxHistory {
		parts = append(parts, m.El(m.P, nil, m.Text("These pages know the newest "+strconv.Itoa(maxHistory)+" decisions. Older ones: "), m.El(m.Code, nil, m.Text("bcpmesh audit replay"))))
	}
	parts = append(parts, m.El(m.P, nil, link("/proof", m.Text("Proof: the newest checkpoint, and how to verify all this"))))
	if turn != nil {
		parts = append(parts, m.El(m.Nav, []m.Attr{m.Spoken("Further pages"), m.Class("turn")}, turn...))
	}
	s.show(w, r, http.StatusOK, "Audit", f.fault, parts...)
}

func filterForm(f filter) m.Node {
	field := func(name, label, value string) m.Node {
		return m.El(m.Div, nil, m.El(m.Label, []m.Attr{m.For(name)}, m.Text(label)), m.El(m.Input, []m.Attr{m.ID(name), m.Name(name), m.Value(inert.Line(value))}))
	}
	return m.El(m.Form, []m.Attr{m.Action("/audit"), m.Class("filter"), m.Role("search")}, field("agent", "Agent or person", f.agent), field("kind", "Kind", f.kind),
		field("verdict", "Verdict", f.verdict), field("id", "Query, delivery, item or session", f.id), m.El(m.Button, nil, m.Text("Filter")))
}

func (s *Server) alerts(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	all := newest(f.entries, 0, len(f.entries), isAlert)
	count := map[string]int{}
	for _, e := range all {
		count[e.Event]++
	}
	var rows []m.Node
	for _, kind := range bcp.AlertKinds() {
		if n := count[string(kind)]; n > 0 {
			rows = append(rows, row(rowHead(m.Text(strings.ReplaceAll(string(kind), "_", " "))), cell(kind.Severity().String()), number(strconv.Itoa(n))))
		}
	}
	parts := []m.Node{}
	if rows != nil {
		parts = append(parts, table("Alerts by kind", []m.Node{column("Alert"), column("Severity"), numbers("Count")}, rows))
	}
	s.show(w, r, http.StatusOK, "Alerts", f.fault, append(parts, story(f, all[:min(perPage, len(all))], "There were no alerts."))...)
}

// byID leads from an id to the decisions about it.
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
	s.show(w, r, http.StatusOK, "Decision "+strconv.FormatUint(seq, 10), f.fault, decisionParts(f, e)...)
}

func decisionParts(f *facts, e *entry) []m.Node {
	why := explain.Explain(&e.Decision, f.definition)
	parts := []m.Node{m.El(m.P, nil, timeElement(e.At()), m.Text(" "), verdictMark(&e.Decision), m.Text(" "), bdi(tell.Sentence(&e.Decision)))}
	facts := []fact{}
	if _, ok := e.Line(); ok {
		facts = append(facts, fact{"Nominal bits", e.Nominal.Rounded()}, fact{"Capacity bits", e.Capacity.Rounded()},
			fact{"Epoch's nominal bits", e.Balance.Spent().Rounded()}, fact{"Epoch's capacity bits", e.Balance.SpentCapacity().Rounded()})
	}
	if e.Taint != bcp.TaintUnknown {
		facts = append(facts, fact{"Taint", e.Taint.String()})
	}
	if facts != nil {
		parts = append(parts, factList(facts...))
	}
	decided := []m.Node{bdi(why.Decided)}
	if why.Rule != "" {
		decided = append(decided, m.Text(" "), m.El(m.Span, []m.Attr{m.Class("rule")}, m.Text(why.Rule)))
	}
	parts = append(parts, section("why", "Why", m.El(m.P, nil, decided...)))
	if len(why.Rules) > 0 {
		var rules []m.Node
		for _, one := range why.Rules {
			class, word := "accept", "ok"
			if !one.Passed {
				class, word = "reject", "refuses"
			}
			colon := " "
			if one.Detail != "" {
				colon = ": "
			}
			rules = append(rules, m.El(m.Li, nil, m.El(m.Span, []m.Attr{m.Class("rule")}, m.Text(one.Rule)), m.Text(" "), mark(class, word), m.Text(" "), bdi(one.Text), m.Text(colon), bdi(one.Detail)))
		}
		parts = append(parts, section("rules", "Rules that were looked at", m.El(m.Ol, []m.Attr{m.Class("rules")}, rules...)))
	}
	if len(why.Changes) > 0 {
		var changes []m.Node
		for _, change := range why.Changes {
			changes = append(changes, m.El(m.Li, nil, bdi(change)))
		}
		parts = append(parts, section("changes", "What would let it through", m.El(m.Ul, []m.Attr{m.Class("rules")}, changes...)))
	}
	if exchange := exchangeEntries(f, e); len(exchange) > 1 {
		parts = append(parts, section("exchange", "The exchange", story(f, exchange, "")))
	}
	return parts
}

// exchangeEntries returns the kept decisions of the same exchange, oldest first.
func exchangeEntries(f *facts, e *entry) []*entry {
	same := func(other *entry) bool {
		return e.Query != "" && other.Query == e.Query || e.Delivery != "" && other.Delivery == e.Delivery || e.Item != "" && other.Item == e.Item
	}
	found := newest(f.entries, 0, perPage, same)
	slices.Reverse(found)
	return found
}

func (s *Server) missing(w http.ResponseWriter, r *http.Request) {
	s.problem(w, r, "No such page", "The address may be mistyped.", "")
}
