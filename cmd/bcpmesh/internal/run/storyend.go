package run

import (
	"fmt"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/ledger"
)

// end sums up, and then shows the books.
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
	t := s.total
	s.out.Printf("\n")
	s.out.Heading("What it comes to")
	if t.Hostile == 0 {
		s.out.Printf("%s, none of them with an instruction that the reader would obey.\n", cli.Count(t.Mail, "mail"))
	} else {
		s.out.Printf("%s, %d of them hostile. The attacker spoke %s: %d refused, %d held for a person,\n%d delivered. ",
			cli.Count(t.Mail, "mail"), t.Hostile, cli.Count(t.Attempts, "time"), t.Refused, t.Held, t.Passed)
		s.out.Printf("Most of those are lies within the rules: choices among declared values.\n")
	}
	switch {
	case t.Fragments > 0:
		s.out.Printf("Words of a planted text came through %s: category 2 text lets through what no rule\n"+
			"recognises, up to its word limit, counted. If that is too much, ask in category 1, or set\n"+
			"on_anomaly and alphabets tighter.\n", cli.Count(t.Fragments, "time"))
	case t.Hostile > 0:
		s.out.Printf("No words of a planted text were among them.\n")
	}
	s.out.Printf("%s delivered. Charged: %s nominal. What the assistant saw can have carried\nat most %s.\n",
		cli.Count(t.Delivered, "answer"), cli.Bits(t.Nominal), cli.Bits(t.Capacity))
	if n := t.Approved + t.Rejected + t.Edited; n > 0 {
		s.out.Printf("A person decided %s: %d approved, %d edited, %d rejected.\n", cli.Count(n, "item"), t.Approved, t.Edited, t.Rejected)
	}
	switch {
	case t.Waiting > 0 && keep != "":
		s.out.Printf("%s for a person: bcpmesh approvals watch decides, once the mesh runs.\n", waitsText(t.Waiting))
	case t.Waiting > 0:
		s.out.Printf("%s for a person: bcpmesh demo --approve has you decide.\n", waitsText(t.Waiting))
	}
	s.compare()
	s.out.Printf("\n")
	s.out.Heading("The ledger")
	ledger.LedgerTable(s.out, ledger.NewBooks(def, client.Alone(lines)))
	s.out.Printf("\n")
	s.out.Heading(fmt.Sprintf("The last %s of the audit, of %d", cli.Count(len(tail), "record"), len(records)))
	audit.AuditTable(s.out, client.Alone(tail))
	if keep != "" {
		s.out.Printf("\nKept in %s: cd there, then bcpmesh up, bcpmesh ledger show, bcpmesh audit tail.\n", cli.Plain(keep))
	}
	return nil
}

// compare shows what the assistant would have read if the reader had spoken to it
// without a gateway, next to what it did read.
func (s *story) compare() {
	t := s.total
	if t.Hostile == 0 {
		return
	}
	s.out.Printf("\n")
	s.out.Heading("Without bcpmesh, and with it")
	s.out.Table([]string{"what the assistant reads of the hijacked reader", "without", "with"}, [][]string{
		{"messages", strconv.Itoa(t.Attempts), strconv.Itoa(t.Passed)},
		{"messages that quote a planted instruction", strconv.Itoa(t.Quoting), strconv.Itoa(t.Fragments)},
	})
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
