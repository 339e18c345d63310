package web

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// The views of pages: strings and numbers, which the templates escape where they stand.

const perPage = 100

type loginView struct{ Refused bool }

type lineView struct {
	Shard    int
	Seq      uint64
	Time     string
	Mark     string // what became of it, in a word
	Sentence string
}

type channelView struct {
	Name, Link              string
	Spent, Capacity         string
	Accepted, Refused, Held int
	Taint                   string
}

type listView struct {
	Title, Fault, Empty string
	Known               int
	Channels            []channelView
	Channel             *channelView
	Lines               []lineView
	Older               string // the address of the next page, empty on the last
}

type ruleView struct {
	Rule, Text, Detail string
	Passed             bool
}

type decisionView struct {
	Line    lineView
	Decided string
	Rule    string
	Rules   []ruleView
	Changes []string
}

type problemView struct{ Title, Text, Command string }

// show writes a page, all of it or an error.
func (s *Server) show(w http.ResponseWriter, status int, name string, view any) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name+".html", view); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a browser that is gone needs no page
}

func viewLine(e *entry) lineView {
	mark := e.Verdict.String()
	if e.Verdict == 0 {
		mark = "event"
	}
	return lineView{e.shard, e.Seq, e.At().UTC().Format(time.DateTime) + " UTC", mark, tell.Sentence(&e.Decision)}
}

func viewChannel(c *channel) channelView {
	taint := "not seen"
	if c.taint != bcp.TaintUnknown {
		taint = c.taint.String()
	}
	return channelView{
		Name: inert.Line(tell.Channel(c.key.Controller, c.key.Reader)), Link: "/channels/" + url.PathEscape(string(c.key.Controller)) + "/" + url.PathEscape(string(c.key.Reader)),
		Spent: tell.BitCount(c.balance.Spent()), Capacity: tell.BitCount(c.balance.SpentCapacity()),
		Accepted: c.accepted, Refused: c.refused, Held: c.held, Taint: taint,
	}
}

// newest returns lines of the last entries that are wanted, newest first, from one on.
func newest(entries []*entry, from, number int, wanted func(*entry) bool) (lines []lineView, more bool) {
	for _, e := range slices.Backward(entries) {
		if !wanted(e) {
			continue
		}
		if from--; from >= 0 {
			continue
		}
		if len(lines) == number {
			return lines, true
		}
		lines = append(lines, viewLine(e))
	}
	return lines, false
}

func anyEntry(*entry) bool { return true }

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	all, entries, fault := s.channelsNow()
	view := listView{Title: "Mesh", Fault: fault, Known: len(entries), Empty: "Nothing was decided yet."}
	for _, c := range all {
		view.Channels = append(view.Channels, viewChannel(c))
	}
	view.Lines, _ = newest(entries, 0, 20, anyEntry)
	s.show(w, http.StatusOK, "overview", view)
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	s.list(w, r, "Audit", "Nothing was decided yet.", anyEntry)
}

func (s *Server) alerts(w http.ResponseWriter, r *http.Request) {
	s.list(w, r, "Alerts", "No decision that is known here was an alert.", func(e *entry) bool {
		_, alert := e.Alert()
		return alert
	})
}

// list shows a page of decisions. Its number counts from 1, the newest.
func (s *Server) list(w http.ResponseWriter, r *http.Request, title, empty string, wanted func(*entry) bool) {
	page := 1
	if word := r.URL.Query().Get("page"); word != "" {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil || n == 0 {
			s.missing(w, r)
			return
		}
		page = int(n)
	}
	entries, fault := s.known()
	view := listView{Title: title, Fault: fault, Known: len(entries), Empty: empty}
	var more bool
	if view.Lines, more = newest(entries, (page-1)*perPage, perPage, wanted); more {
		view.Older = r.URL.Path + "?page=" + strconv.Itoa(page+1)
	}
	s.show(w, http.StatusOK, "list", view)
}

func (s *Server) channel(w http.ResponseWriter, r *http.Request) {
	all, _, fault := s.channelsNow()
	for _, c := range all {
		if string(c.key.Controller) != r.PathValue("controller") || string(c.key.Reader) != r.PathValue("reader") {
			continue
		}
		about := viewChannel(c)
		view := listView{Title: about.Name, Fault: fault, Channel: &about}
		for _, e := range c.decisions[:min(50, len(c.decisions))] {
			view.Lines = append(view.Lines, viewLine(e))
		}
		s.show(w, http.StatusOK, "list", view)
		return
	}
	s.show(w, http.StatusNotFound, "problem", problemView{"No such channel", "None of the newest decisions is of a channel of that name.", "bcpmesh perms"})
}

func (s *Server) decision(w http.ResponseWriter, r *http.Request) {
	shard, err1 := strconv.ParseUint(r.PathValue("shard"), 10, 31)
	seq, err2 := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err1 != nil || err2 != nil {
		s.missing(w, r)
		return
	}
	e := s.history.find(int(shard), seq)
	if e == nil {
		s.show(w, http.StatusNotFound, "problem", problemView{"Not among the newest decisions",
			"This page knows the newest " + strconv.Itoa(maxHistory) + " decisions. The command reads older ones.", "bcpmesh explain " + strconv.FormatUint(seq, 10)})
		return
	}
	why := bcp.Explain(&e.Decision, nil)
	view := decisionView{Line: viewLine(e), Decided: inert.Line(why.Decided), Rule: why.Rule}
	for _, one := range why.Rules {
		view.Rules = append(view.Rules, ruleView{one.Rule, inert.Line(one.Text), inert.Line(one.Detail), one.Passed})
	}
	for _, change := range why.Changes {
		view.Changes = append(view.Changes, inert.Line(change))
	}
	s.show(w, http.StatusOK, "decision", view)
}

func (s *Server) missing(w http.ResponseWriter, _ *http.Request) {
	s.show(w, http.StatusNotFound, "problem", problemView{Title: "No such page", Text: "The address may be mistyped."})
}
