package run

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// scenes is the story so far, for a page.
func (s *story) scenes() []web.Scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shown)
}

// show adds what one message led to. What the assistant asked is told with its answer.
func (s *story) show(m *demoMail, done mailroom.Done) {
	scene := web.Scene{Number: m.Number, From: m.From, Subject: cmp.Or(m.Subject, "(no subject)")}
	planted := ""
	if done.Injection != nil {
		scene.Planted, planted = placeText(m.Place), done.Injection.Plain
	}
	for i := range m.Events {
		if e := &m.Events[i]; e.Kind == bcp.KindPush || e.Kind == bcp.KindAnswer {
			scene.Exchanges = append(scene.Exchanges, newExchange(e, planted))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, scene)
}

func newExchange(e *demoEvent, planted string) web.Exchange {
	said, heard := string(e.Raw), string(e.Delivered)
	return web.Exchange{
		Seq: e.Seq, Asked: e.Asked, Said: cmp.Or(said, "not enough information"), Hijacked: e.Hijacked, Quotes: planted != "" && quotes(said, planted),
		Verdict: e.Verdict, Why: strings.Join(cli.Compact(string(e.Code), e.Reason, strings.Join(e.Anomalies, ", "), e.Rule), ", "),
		Heard: heard, HeardQuotes: planted != "" && quotes(heard, planted), Nominal: e.Nominal,
	}
}
