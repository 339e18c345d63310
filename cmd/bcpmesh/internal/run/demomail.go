package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// story follows the mailroom decision by decision, and is told mail by mail.
type story struct {
	*stage
	out    *cli.Output
	news   []demoEvent                // not told yet
	said   map[string][]mailroom.Said // not judged yet, by the id of the push or query
	asked  map[bcp.QueryID]string     // what the assistant wanted to know
	open   map[string]bool            // queries with the reader, and deliveries that are not acknowledged
	acts   []string
	told   []demoMail
	totals demoTotals
}

// demoEvent is one decision of the gateway about what an agent said: an exchange of the page, or a question.
type demoEvent struct {
	Kind         bcp.DecisionKind   `json:"kind"`
	Category     bcp.Category       `json:"category,omitzero"`
	Subscription bcp.SubscriptionID `json:"subscription_id,omitempty"`
	Outcome      bcp.Code           `json:"outcome,omitempty"`
	web.Exchange
}

// demoMail is what happened because of one message.
type demoMail struct {
	web.Scene
	Events []demoEvent `json:"events"`
	Acts   []string    `json:"acts,omitempty"`
}

// demoTotals sums up. Quoting counts the messages of the reader that have words of a
// planted instruction, plantedRun of them or more in their order; Fragments counts the
// deliveries that do.
type demoTotals struct {
	Mail      int      `json:"mail"`
	Hostile   int      `json:"hostile"`
	Attempts  int      `json:"hijacked_attempts"`
	Refused   int      `json:"hijacked_refused"`
	Held      int      `json:"hijacked_held"`
	Passed    int      `json:"hijacked_delivered"`
	Quoting   int      `json:"planted_words_said"`
	Fragments int      `json:"planted_words_delivered"`
	Delivered int      `json:"delivered"`
	Waiting   int      `json:"waiting"` // for a person, at the end
	Nominal   bcp.Bits `json:"nominal_bits"`
	Capacity  bcp.Bits `json:"capacity_bits"`
}

func newStory(out *cli.Output) *story {
	return &story{out: out, said: map[string][]mailroom.Said{}, asked: map[bcp.QueryID]string{}, open: map[string]bool{}}
}

// demoMailroom tells the story of a mailbox, with web also as a page, until ctx ends.
func demoMailroom(ctx context.Context, p *cli.Program, keep, at string) error {
	s := newStory(p.Out)
	var server *web.Server // nil without --web
	if at != "" {
		var err error
		if server, err = listenAt(p, "--web", web.Config{Listen: at, Scenes: s.scenes}); err != nil {
			return err
		}
		defer func() { _ = server.Close() }() // it may be closed already
	}
	return perform(ctx, p, keep, examples.Mailroom(), s.hear, func(on *stage) error {
		s.stage = on
		if err := s.begin(); err != nil {
			return err
		}
		reader, err := s.credentials(mailroom.ReaderAgent, bcp.RoleReader)
		if err != nil {
			return err
		}
		assistant, err := s.credentials(mailroom.AssistantAgent, bcp.RoleController)
		if err != nil {
			return err
		}
		err = mailroom.Run(ctx, mailroom.Options{URL: s.mesh.URL(), Reader: reader, Assistant: assistant, Mail: examples.Mail(), Said: s.addSaid, Did: s.addAction,
			After: func(done mailroom.Done) error {
				err := s.until(ctx, func() bool { return len(s.open) == 0 })
				s.tell(done)
				return err
			}})
		if err := stopped(ctx, err); err != nil {
			return err
		}
		if err := s.end(); err != nil || server == nil {
			return err
		}
		return s.serve(ctx, server)
	})
}

// serve serves pages about the mesh of a demonstration until ctx ends.
func (s *stage) serve(ctx context.Context, pages *web.Server) error {
	if err := s.p.Out.Flush(); err != nil {
		return err
	}
	state := server.StateOf(s.folder.Dir)
	ready := server.ReadyOf(state)
	if err := meshdir.WriteReady(ready, meshdir.Ready{URL: s.mesh.URL(), State: state, PID: os.Getpid(), Web: pages.URL()}); err != nil {
		return cli.NotWritten(ready, err)
	}
	defer func() { _ = os.Remove(ready) }()
	s.p.Out.Talkf("the story is at %s until you press Ctrl-C", pages.URL())
	failed, stop := serveWeb(ctx, pages, meshdir.StateFlags{Dir: s.folder.Dir})
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-s.mesh.Done():
		return cli.Failf("the gateway stopped by itself")
	}
}

// addSaid hears the reader before anybody judges it.
func (s *story) addSaid(what mailroom.Said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := cmp.Or(string(what.Push), string(what.Query))
	s.said[key] = append(s.said[key], what)
}

// addAction hears the assistant act.
func (s *story) addAction(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = append(s.acts, what)
}

// hear hears each decision once it is recorded.
func (s *story) hear(d *bcp.Decision) {
	query, delivery := "query "+string(d.Query), "delivery "+string(d.Delivery)
	switch d.Kind {
	case bcp.KindAcknowledge:
		delete(s.open, delivery)
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindExpire:
		if d.Delivery != "" {
			s.open[delivery] = true
		}
		if d.Kind == bcp.KindAsk && d.Verdict == bcp.Accept {
			s.open[query] = true
		} else if d.Delivery != "" || d.Verdict == bcp.Hold {
			delete(s.open, query)
		}
		s.news = append(s.news, s.event(d))
	}
}

// event is what is told of a decision, which it adds to the totals.
func (s *story) event(d *bcp.Decision) demoEvent {
	e := demoEvent{d.Kind, d.Category, d.Subscription, d.Outcome, web.Exchange{Seq: d.Seq, Verdict: d.Verdict, Nominal: d.Nominal}}
	capacity := d.Capacity
	if d.Prepaid {
		e.Nominal, capacity = 0, 0 // charged when it was held
	}
	if d.Kind == bcp.KindAsk {
		s.asked[d.Query] = byhand.AskedFor(d.Spec)
	}
	e.Asked = s.asked[d.Query]
	if d.Kind == bcp.KindPush || d.Kind == bcp.KindAnswer {
		key := cmp.Or(string(d.Client), string(d.Query))
		e.Said = "not enough information"
		if said := s.said[key]; len(said) > 0 {
			e.Said, e.Hijacked, s.said[key] = cmp.Or(string(said[0].Raw), e.Said), said[0].Hijacked, said[1:]
		}
	}
	reason := ""
	if d.Verdict == bcp.Reject && d.Code == bcp.ValidationFailed {
		reason = bcp.ReaderDetail(d.Code, d.Reason, d.FieldName(), "", "")
	}
	e.Why = strings.Join(cli.Compact(string(d.Code), reason, strings.Join(d.Anomalies, ", ")), ", ")
	if rule := d.DecidedBy(); rule != "" {
		e.Why = strings.TrimSpace(e.Why + " [" + rule + "]")
	}
	if d.Delivery != "" && d.Outcome == "" {
		e.Heard = string(d.Payload)
	}
	t := &s.totals
	t.Waiting += one(d.Item != "" && d.Verdict == bcp.Hold) - one(d.Item != "" && d.Kind == bcp.KindExpire)
	t.Delivered += one(e.Heard != "")
	t.Attempts += one(e.Hijacked)
	t.Passed += one(e.Hijacked && e.Heard != "")
	t.Held += one(e.Hijacked && e.Heard == "" && d.Verdict == bcp.Hold)
	t.Refused = t.Attempts - t.Passed - t.Held
	if d.Kind != bcp.KindAsk {
		t.Nominal, t.Capacity = t.Nominal+e.Nominal, t.Capacity+capacity
	}
	return e
}

// begin introduces the mesh.
func (s *story) begin() error {
	c := &s.def.Channels[0]
	err := say(s.out, "mailroom", struct {
		Reader, Controller bcp.AgentName
		Budget             bcp.Bits
	}{c.Reader, c.Controller, c.Budget})
	_ = s.out.Flush() // the next one says so, too
	return err
}

// tell adds what one message led to. What the assistant asked is told with its answer on the page.
func (s *story) tell(done mailroom.Done) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := demoMail{Events: s.news, Acts: s.acts}
	m.Number, m.From = done.Number, cmp.Or(done.Message.From.Name, done.Message.From.Address)
	m.Subject = cmp.Or(done.Message.Subject, "(no subject)")
	planted := ""
	if done.Injection != nil {
		m.Planted, planted = done.Injection.Place, done.Injection.Plain
	}
	s.totals.Mail++
	s.totals.Hostile += one(m.Planted != "")
	for i := range m.Events {
		e := &m.Events[i]
		e.Quotes, e.HeardQuotes = quotes(e.Said, planted), quotes(e.Heard, planted)
		s.totals.Quoting += one(e.Hijacked && e.Quotes)
		s.totals.Fragments += one(e.HeardQuotes)
		if e.Kind == bcp.KindPush || e.Kind == bcp.KindAnswer {
			m.Exchanges = append(m.Exchanges, e.Exchange)
		}
	}
	s.told = append(s.told, m)
	s.news, s.acts = nil, nil
	clear(s.said)
}

// The mails that are told: an honest one, and one whose planted instruction is refused word for word, held, and left a lie.
const honestMail, hostileMail = 1, 26

// end tells two mails, sums up, and says what next.
func (s *story) end() error {
	if s.out.JSON {
		return s.out.Value(struct {
			Messages []demoMail `json:"messages"`
			Totals   demoTotals `json:"totals"`
		}{s.told, s.totals})
	}
	for i := range s.told {
		if m := &s.told[i]; m.Number == honestMail || m.Number == hostileMail {
			if err := say(s.out, "mail", m); err != nil {
				return err
			}
		}
	}
	return say(s.out, "comes to", struct {
		demoTotals
		Budget bcp.Bits
		Keep   string
		Honest int
	}{s.totals, s.def.Channels[0].Budget, s.keep, s.totals.Waiting - s.totals.Held})
}

// Line is who said what: the words are the reader's, or the attacker's.
func (e *demoEvent) Line() string {
	who := "reader   "
	if e.Hijacked {
		who = "attacker "
	}
	switch e.Kind {
	case bcp.KindAsk:
		return fmt.Sprintf("assistant asks in category %d: %s", e.Category, e.Asked)
	case bcp.KindPush:
		return fmt.Sprintf("%s pushes %s: %s", who, e.Subscription, e.Said)
	case bcp.KindAnswer:
		return who + " answers: " + e.Said
	}
	return ""
}

// Came is what the gateway made of an event, and what that costs.
func (e *demoEvent) Came() string {
	cost := ", " + e.Nominal.Words()
	switch {
	case e.Heard != "":
		return "✓ delivered" + cost + ": " + e.Heard
	case e.Verdict == bcp.Hold && e.Kind == bcp.KindAsk:
		return "⏸ held" + cost + " reserved: a person must approve the escalation " + e.Why
	case e.Verdict == bcp.Hold:
		return "⏸ held for a person" + cost + ": " + e.Why
	case e.Kind == bcp.KindAsk && e.Verdict == bcp.Accept:
		return "✓ accepted" + cost + " reserved"
	case e.Outcome != "":
		return "✗ the query ends" + cost + ": " + strings.Join(cli.Compact(string(e.Outcome), e.Why), ", ")
	}
	return "✗ refused: " + e.Why
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// scenes is the story so far, for a page.
func (s *story) scenes() []web.Scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cli.Map(s.told, func(m demoMail) web.Scene { return m.Scene })
}

// plantedRun is how many words of a planted text in a row make a quotation.
const plantedRun = 4

// quotes reports whether delivered text holds a run of words of a planted one.
func quotes(delivered, planted string) bool {
	words := splitWords(planted)
	text := " " + strings.Join(splitWords(delivered), " ") + " "
	for i := 0; i+plantedRun <= len(words); i++ {
		if strings.Contains(text, " "+strings.Join(words[i:i+plantedRun], " ")+" ") {
			return true
		}
	}
	return false
}

func splitWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
