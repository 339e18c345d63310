package run

import (
	"fmt"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// end tells three mails, sums up, and says what next.
func (s *story) end(def *bcp.Mesh, lines []bcp.LedgerLine, records []bcp.Decision, keep string) error {
	tail := records[max(0, len(records)-audit.AuditTail):]
	s.total.Waiting = s.waits()
	if s.out.JSON {
		return s.out.Value(struct {
			Messages []demoMail       `json:"messages"`
			Ledger   []bcp.LedgerLine `json:"ledger"`
			Audit    []bcp.Decision   `json:"audit"`
			Totals   DemoTotals       `json:"totals"`
		}{s.told, lines, tail, s.total})
	}
	s.examples()
	s.comesTo(def.Channels[0].Budget, keep)
	s.out.Printf("\n")
	s.out.Heading("What next")
	if keep != "" {
		s.out.Printf("  cd %s && bcpmesh up  run this mesh; then bcpmesh status\n", cli.Plain(keep))
	}
	s.out.Printf("%s", whatNext)
	return nil
}

const whatNext = `  bcpmesh demo --web localhost:4280  each mail in a browser; decide there
  bcpmesh init office                a mesh of your own
`

// comesTo says what the numbers are, and what they mean.
func (s *story) comesTo(budget bcp.Bits, keep string) {
	t := s.total
	s.out.Printf("\n")
	s.out.Heading("What it comes to")
	say := func(format string, args ...any) {
		s.out.Printf("%s\n", cli.Wrap(fmt.Sprintf(format, args...), s.width()))
	}
	if t.Hostile == 0 {
		say("%s, none of them with an instruction that the reader would obey.", cli.Count(t.Mail, "mail"))
	} else {
		say("%d of %s are hostile. The hijacked reader spoke %s: %d refused, %d held for a person, %d delivered. What is delivered are choices among declared values, such as urgent: true. They may be lies; they are no orders.",
			t.Hostile, cli.Count(t.Mail, "mail"), cli.Count(t.Attempts, "time"), t.Refused, t.Held, t.Passed)
		say("Messages that quote a planted instruction: %d without bcpmesh, %d with it.", t.Quoting, t.Fragments)
	}
	if t.Fragments > 0 {
		say("Category 2 text lets through what no rule recognises, up to its word limit, counted. If that is too much, ask in category 1, or set on_anomaly and alphabets tighter.")
	}
	say("With the honest answers, %d were delivered, for %s of the budget of %s: the usual estimate, 11 bits a word. Had every letter of them been chosen to carry something, it would be at most %s, a proven bound; capacity_budget_bits limits it.",
		t.Delivered, t.Nominal.Words(), budget.Rounded(), t.Capacity.Words())
	decided := t.Approved + t.Rejected + t.Edited
	if decided > 0 {
		say("A person decided %s: %d approved, %d edited, %d rejected.", cli.Count(decided, "item"), t.Approved, t.Edited, t.Rejected)
	}
	switch {
	case t.Waiting > 0 && keep != "":
		say("%s for a person: bcpmesh approvals watch decides, once the mesh runs.", waitsText(t.Waiting))
	case decided == 0 && t.Waiting > t.Held && t.Held > 0:
		say("%s for a person, %d of them honest.", waitsText(t.Waiting), t.Waiting-t.Held)
	case t.Waiting > 0:
		say("%s for a person.", waitsText(t.Waiting))
	}
}

// examples tells three mails: an honest one, a planted instruction that is refused word for
// word with the lie that is left to it, and something that waits for a person.
func (s *story) examples() {
	refused := func(e *demoEvent) bool { return e.Hijacked && e.Verdict == bcp.Reject }
	lie := func(e *demoEvent) bool { return e.Hijacked && e.Delivered != nil }
	seen := map[int]bool{}
	tell := func(hostile, acts bool, wanted ...func(*demoEvent) bool) {
		for _, m := range s.told {
			if seen[m.Number] || m.Hostile != hostile {
				continue
			}
			var events []demoEvent
			for _, is := range wanted {
				if i := slices.IndexFunc(m.Events, func(e demoEvent) bool { return is(&e) }); i >= 0 {
					events = append(events, m.Events[i])
				}
			}
			if len(events) < len(wanted) {
				continue
			}
			seen[m.Number] = true
			m.Events = events
			if !acts {
				m.Acts = nil
			}
			s.tellMail(&m)
			return
		}
	}
	tell(false, false, func(e *demoEvent) bool { return e.Delivered != nil })
	tell(true, true, refused, lie)
	tell(true, false, func(e *demoEvent) bool { return e.Hijacked && e.Verdict == bcp.Hold })
}

func waitsText(n int) string {
	if n == 1 {
		return "1 item waits"
	}
	return cli.Count(n, "item") + " wait"
}

// waits counts what waits for a person.
func (s *story) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
