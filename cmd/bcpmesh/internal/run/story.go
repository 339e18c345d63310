package run

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/explain"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/facts"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// settleTimeout is how long an exchange of the demonstration may take.
const settleTimeout = 30 * time.Second

// story follows a mesh decision by decision and tells it mail by mail. Its
// methods may be called concurrently.
type story struct {
	out *cli.Output

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced by every decision
	seq        uint64
	news       []demoEvent              // not told yet
	raw        map[string]mailroom.Said // by push id, or query id and attempt
	asked      map[bcp.QueryID]string   // what the assistant wanted to know
	deliveries map[bcp.DeliveryID]bool  // not acknowledged
	queries    map[bcp.QueryID]bool     // with the reader
	waiting    map[bcp.ItemID]bool      // for a person
	acts       []string

	told  []demoMail
	shown []web.Scene
	total DemoTotals
}

// demoEvent is one decision of the gateway about what an agent said.
type demoEvent struct {
	Seq          uint64             `json:"seq"`
	Kind         bcp.DecisionKind   `json:"kind"`
	Agent        bcp.AgentName      `json:"agent,omitempty"`
	Category     bcp.Category       `json:"category,omitzero"`
	Subscription bcp.SubscriptionID `json:"subscription_id,omitempty"`
	Query        bcp.QueryID        `json:"query_id,omitempty"`
	Asked        string             `json:"asked,omitempty"`
	Raw          jsontext.Value     `json:"raw,omitzero"` // what the reader said: hostile
	Hijacked     bool               `json:"hijacked"`
	Verdict      bcp.Outcome        `json:"verdict,omitzero"`
	Code         bcp.Code           `json:"code,omitempty"`
	Reason       string             `json:"reason,omitempty"`
	Rule         string             `json:"rule,omitempty"`
	Anomalies    []string           `json:"anomalies,omitempty"`
	Delivered    jsontext.Value     `json:"delivered,omitzero"` // what the assistant got
	Outcome      bcp.Code           `json:"outcome,omitempty"`
	Nominal      bcp.Bits           `json:"nominal_bits"`
	Capacity     bcp.Bits           `json:"capacity_bits"`
	// Item is what waits for a person, or what a person decided; Decision and
	// Told are of the latter.
	Item     bcp.ItemID `json:"item_id,omitempty"`
	Decision bcp.Act    `json:"decision,omitempty"`
	Told     string     `json:"reason_told,omitempty"`
}

// demoMail is what happened because of one message.
type demoMail struct {
	Number  int         `json:"number"`
	ID      string      `json:"id"`
	From    string      `json:"from"`
	Subject string      `json:"subject"`
	Hostile bool        `json:"hostile"`
	Place   string      `json:"planted_in,omitempty"`
	Events  []demoEvent `json:"events"`
	Acts    []string    `json:"acts,omitempty"`
}

// DemoTotals sums up. Quoting counts the messages of the reader that have words of a
// planted instruction, plantedRun of them or more in their order; Fragments counts the
// deliveries that do.
type DemoTotals struct {
	Mail      int      `json:"mail"`
	Hostile   int      `json:"hostile"`
	Attempts  int      `json:"hijacked_attempts"`
	Refused   int      `json:"hijacked_refused"`
	Held      int      `json:"hijacked_held"`
	Passed    int      `json:"hijacked_delivered"`
	Quoting   int      `json:"planted_words_said"`
	Fragments int      `json:"planted_words_delivered"`
	Delivered int      `json:"delivered"`
	Approved  int      `json:"approved"` // by a person, as are the next two
	Rejected  int      `json:"rejected"`
	Edited    int      `json:"edited"`
	Waiting   int      `json:"waiting"` // for a person, at the end
	Nominal   bcp.Bits `json:"nominal_bits"`
	Capacity  bcp.Bits `json:"capacity_bits"`
}

func newStory(out *cli.Output) *story {
	return &story{out: out, changed: make(chan struct{}), raw: map[string]mailroom.Said{}, asked: map[bcp.QueryID]string{},
		deliveries: map[bcp.DeliveryID]bool{}, queries: map[bcp.QueryID]bool{}, waiting: map[bcp.ItemID]bool{}}
}

// said hears the reader before anybody judges it.
func (s *story) said(what mailroom.Said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what.Push != "" {
		s.raw[string(what.Push)] = what
	} else {
		s.raw[fmt.Sprintf("%s/%d", what.Query, what.Attempt)] = what
	}
}

// addAction hears the assistant act.
func (s *story) addAction(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = append(s.acts, what)
}

// decided hears each decision once it is recorded.
func (s *story) decided(d *bcp.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = d.Seq
	switch d.Kind {
	case bcp.KindAcknowledge:
		delete(s.deliveries, d.Delivery)
	case bcp.KindApproval:
		if d.Verdict != bcp.Accept {
			break // it decides nothing
		}
		delete(s.waiting, d.Item)
		if d.Delivery != "" {
			s.deliveries[d.Delivery] = true
		} else if d.Query != "" {
			s.queries[d.Query] = true // let through its gate
		}
		s.news = append(s.news, s.event(d))
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush, bcp.KindExpire:
		switch {
		case d.Verdict == bcp.Hold && d.Item != "":
			s.waiting[d.Item] = true
		case d.Kind == bcp.KindExpire && d.Item != "":
			delete(s.waiting, d.Item)
		}
		if d.Delivery != "" {
			s.deliveries[d.Delivery] = true
		}
		if d.Kind == bcp.KindAsk && d.Verdict == bcp.Accept {
			s.queries[d.Query] = true
		} else if d.Delivery != "" || d.Verdict == bcp.Hold {
			delete(s.queries, d.Query) // what is held after its gate was, is not told again
		}
		s.news = append(s.news, s.event(d))
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *story) event(d *bcp.Decision) demoEvent {
	e := demoEvent{Seq: d.Seq, Kind: d.Kind, Agent: d.Agent, Category: d.Category, Subscription: d.Subscription, Query: d.Query,
		Verdict: d.Verdict, Code: d.Code, Anomalies: d.Anomalies, Outcome: d.Outcome, Nominal: d.Nominal, Capacity: d.Capacity, Item: d.Item}
	if d.Prepaid {
		e.Nominal, e.Capacity = 0, 0 // charged when it was held
	}
	switch d.Kind {
	case bcp.KindApproval:
		e.Decision, e.Told = bcp.Act(d.Event), d.Note
	case bcp.KindAsk:
		s.asked[d.Query] = byhand.AskedFor(d.Spec)
		e.Asked = s.asked[d.Query]
	case bcp.KindPush:
		what := s.raw[string(d.Client)]
		e.Raw, e.Hijacked = jsontext.Value(what.Raw), what.Hijacked
	case bcp.KindAnswer:
		e.Asked = s.asked[d.Query]
		attempt := d.Attempt - 1
		if d.Delivery != "" {
			attempt = s.attempts(d.Query) - 1
		}
		what := s.raw[fmt.Sprintf("%s/%d", d.Query, max(attempt, 0))]
		e.Raw, e.Hijacked = jsontext.Value(what.Raw), what.Hijacked
	}
	if d.Verdict == bcp.Reject && d.Code == bcp.ValidationFailed {
		e.Reason = bcp.ReaderDetail(d.Code, d.Reason, d.FieldName(), "", "")
	}
	e.Rule = explain.Rule(d)
	if d.Delivery != "" && d.Outcome == "" {
		e.Delivered = jsontext.Value(string(d.Payload))
	}
	return e
}

// attempts counts the answers that the reader gave to a query so far.
func (s *story) attempts(id bcp.QueryID) int {
	n := 0
	for {
		if _, said := s.raw[fmt.Sprintf("%s/%d", id, n)]; !said {
			return n
		}
		n++
	}
}

// waitSettled waits until everything that was asked is answered and everything that
// was delivered is acknowledged.
func (s *story) waitSettled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		quiet, changed := len(s.deliveries) == 0 && len(s.queries) == 0, s.changed
		s.mu.Unlock()
		if quiet {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("an exchange did not end: %w", ctx.Err())
		}
	}
}

// last is the number of the newest decision.
func (s *story) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq
}

// begin introduces the mesh.
func (s *story) begin(def *bcp.Mesh, mbox string) {
	if s.out.JSON {
		return
	}
	c := def.Channels[0]
	source := "the example mailbox"
	if mbox != "" {
		source = mbox
	}
	s.out.Heading("A mailroom with a hijacked reader")
	s.out.Printf("%s\n\n", cli.Wrap(fmt.Sprintf("%s reads %s. Instructions in the mail hijack it: then it speaks for the attacker. %s acts, and never sees a mail. The gateway between them lets through what was declared, at most %s bits of it.",
		c.Reader, cli.Plain(source), c.Controller, c.Budget.Rounded()), s.width()))
	_ = s.out.Flush() // the next one says so, too
}

// tell adds what one message led to.
func (s *story) tell(done mailroom.Done) {
	s.mu.Lock()
	m := demoMail{Number: done.Number, ID: done.Message.ID, From: done.Message.From.Name, Subject: done.Message.Subject,
		Hostile: done.Injection != nil, Events: s.news, Acts: s.acts}
	s.news, s.acts = nil, nil
	clear(s.raw)
	s.mu.Unlock()
	if m.From == "" {
		m.From = done.Message.From.Address
	}
	if done.Injection != nil {
		m.Place = string(done.Injection.Place)
	}
	s.sum(m, done)
	s.show(&m, done)
	s.told = append(s.told, m)
}

// The layout of the story: a mail is one line, what was said about it another,
// what became of that a third. No line is longer than the terminal is wide, or storyWidth.
const (
	storyWidth = 100
	saidIndent = "    "
	doneIndent = "              "
)

func (s *story) tellMail(m *demoMail) {
	mark := ""
	if m.Hostile {
		mark = "  ✱ planted in " + placeText(m.Place)
	}
	from := cli.Short(cli.Plain(m.From), 30)
	subject := cli.Plain(m.Subject)
	if subject == "" {
		subject = "(no subject)"
	}
	subject = cli.Short(subject, s.width()-len("123  — ")-text.StringWidthWithoutEscSequences(from+mark))
	s.out.Printf("%s  %s — %s%s\n", s.paint(text.Bold, fmt.Sprintf("%3d", m.Number)), s.paint(text.Bold, from), subject, s.paint(text.FgRed, mark))
	s.tellEvents(m)
}

func (s *story) tellEvents(m *demoMail) {
	for i := range m.Events {
		s.tellEvent(&m.Events[i])
	}
	for _, act := range m.Acts {
		s.line("assistant", text.FgBlue, "", act)
	}
}

// line writes who said what. The words are the reader's, or the attacker's.
func (s *story) line(who string, colour text.Color, does, words string) {
	s.out.Printf("%s%s %s%s\n", saidIndent, s.paint(colour, fmt.Sprintf("%-9s", who)), does, s.wrapped(cli.Plain(words), len(doneIndent)+len(does)))
}

func (s *story) width() int { return min(storyWidth, s.out.Width) }

// wrapped fits words after what a line has already, and continues in a second
// line if they need it. What is still left is cut.
func (s *story) wrapped(words string, used int) string {
	room := s.width() - used
	if text.StringWidthWithoutEscSequences(words) <= room {
		return words
	}
	at, columns := 0, 0
	for i, r := range words {
		if columns += text.RuneWidth(r); columns > room {
			break
		}
		if r == ' ' || r == ',' || at < i && columns < room/2 {
			at = i + utf8.RuneLen(r)
		}
	}
	return strings.TrimRight(words[:at], " ") + "\n" + doneIndent + cli.Short(words[at:], s.width()-len(doneIndent))
}

func (s *story) tellEvent(e *demoEvent) {
	who, colour := "reader", text.FgHiBlack
	if e.Hijacked {
		who, colour = "attacker", text.FgRed
	}
	switch e.Kind {
	case bcp.KindAsk:
		s.line("assistant", text.FgBlue, fmt.Sprintf("asks in category %d: ", e.Category), e.Asked)
	case bcp.KindPush:
		s.line(who, colour, fmt.Sprintf("pushes %s: ", e.Subscription), string(e.Raw))
	case bcp.KindAnswer:
		raw := string(e.Raw)
		if raw == "" {
			raw = "not enough information"
		}
		s.line(who, colour, "answers: ", raw)
	case bcp.KindApproval:
		what := string(e.Item)
		if e.Told != "" {
			what += ": " + e.Told
		}
		s.line(cli.Short(cli.Plain(string(e.Agent)), 9), text.FgMagenta, string(e.Decision)+"s ", what)
	}
	mark, colour, what := describeVerdict(e)
	if what == "" {
		s.out.Printf("%s%s\n", doneIndent, s.paint(colour, mark))
		return
	}
	mark += ": "
	s.out.Printf("%s%s%s\n", doneIndent, s.paint(colour, mark), s.wrapped(cli.Plain(what), len(doneIndent)+text.StringWidthWithoutEscSequences(mark)))
}

// describeVerdict is the second line of an event: what the gateway made of it, and
// what that costs.
func describeVerdict(e *demoEvent) (mark string, colour text.Color, what string) {
	why := strings.Join(cli.Compact(e.Reason, strings.Join(e.Anomalies, ", ")), ", ")
	if e.Rule != "" {
		why = strings.Join(cli.Compact(why, "["+e.Rule+"]"), " ")
	}
	cost := ", " + e.Nominal.Words()
	switch {
	case e.Kind == bcp.KindApproval && e.Delivered != nil:
		return "✓ delivered", text.FgGreen, string(e.Delivered)
	case e.Kind == bcp.KindApproval && e.Outcome != "":
		return "✗ the query ends", text.FgRed, string(e.Outcome)
	case e.Kind == bcp.KindApproval && e.Decision == bcp.RejectItem:
		return "✗ not delivered", text.FgRed, ""
	case e.Kind == bcp.KindApproval:
		return "✓ the question goes to the reader", text.FgGreen, ""
	case e.Delivered != nil:
		return "✓ delivered" + cost, text.FgGreen, string(e.Delivered)
	case e.Verdict == bcp.Hold && e.Kind == bcp.KindAsk:
		return "⏸ held" + cost + " reserved", text.FgYellow, "a person must approve the escalation " + why
	case e.Verdict == bcp.Hold:
		return "⏸ held for a person" + cost, text.FgYellow, why
	case e.Kind == bcp.KindAsk && e.Verdict == bcp.Accept:
		return "✓ accepted" + cost + " reserved", text.FgGreen, ""
	case e.Outcome != "":
		return "✗ the query ends" + cost, text.FgRed, strings.Join(cli.Compact(string(e.Outcome), why), ", ")
	}
	return "✗ refused", text.FgRed, strings.Join(cli.Compact(string(e.Code), why), ", ")
}

// placeText says where in a mail an instruction was planted.
func placeText(place string) string {
	switch facts.Place(place) {
	case facts.InHidden:
		return "hidden text"
	case facts.InDisplayName:
		return "the sender's name"
	}
	return "the " + cli.Plain(strings.ReplaceAll(place, "_", " "))
}

func (s *story) sum(m demoMail, done mailroom.Done) {
	s.total.Mail++
	if m.Hostile {
		s.total.Hostile++
	}
	for i := range m.Events {
		e := &m.Events[i]
		switch e.Decision {
		case bcp.Approve:
			s.total.Approved++
		case bcp.RejectItem:
			s.total.Rejected++
		case bcp.EditItem:
			s.total.Edited++
		}
		if e.Kind != bcp.KindAsk {
			s.total.Nominal += e.Nominal
			s.total.Capacity += e.Capacity
		}
		if e.Delivered != nil {
			s.total.Delivered++
			if done.Injection != nil && quotes(string(e.Delivered), done.Injection.Plain) {
				s.total.Fragments++
			}
		}
		if !e.Hijacked {
			continue
		}
		s.total.Attempts++
		if done.Injection != nil && quotes(string(e.Raw), done.Injection.Plain) {
			s.total.Quoting++
		}
		switch {
		case e.Delivered != nil:
			s.total.Passed++
		case e.Verdict == bcp.Hold:
			s.total.Held++
		default:
			s.total.Refused++
		}
	}
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

// paint colours text on a terminal.
func (s *story) paint(colour text.Color, what string) string {
	if !s.out.Terminal || !s.out.Colours {
		return what
	}
	return text.Colors{colour}.EscapeSeq() + what + text.Reset.EscapeSeq()
}
