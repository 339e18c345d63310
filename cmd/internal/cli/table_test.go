package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var ledgerRows = [][]string{
	{"main ← researcher", "1", "nominal", "1000", "18.4", "0", "981.6", "13", "13 of 10000 in 1d", "medium"},
	{"", "", "capacity", "none", "31.2", "0", "", "", "", ""},
	{"main ← mailer", "12", "nominal", "1000", "231", "275", "494", "231", "506 in 1d, no limit", "high"},
}

var ledgerHeader = []string{"channel", "epoch", "bits", "budget", "settled", "reserved", "remaining", "by pushes", "window", "exposure"}

func tableAt(width int, header []string, rows [][]string) string {
	var b bytes.Buffer
	o := &Output{Stdout: bufio.NewWriter(&b), Terminal: width > 0, Width: width}
	o.Table(header, rows)
	_ = o.Stdout.Flush()
	return b.String()
}

// No line of a table is wider than the terminal, no word is broken, and no cell is lost.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	tables := map[string][][]string{
		"ledger":   append([][]string{ledgerHeader}, ledgerRows...),
		"prose":    {{"code", "what it says"}, {"a", strings.Repeat("several words that are read ", 12)}, {"b", "注文の納期を教えてください。注文の納期を教えてください。注文の納期を教えてください。"}},
		"subjects": {{"agent", "publish", "subscribe"}, {"researcher", "bcp.v1.push.researcher.main.research-alerts\nbcp.v1.push.researcher.main.research-findings", "_INBOX.researcher.>\nbcp.v1.query.researcher.>"}},
	}
	for name, cells := range tables {
		for _, width := range []int{60, 80, 120} {
			got := tableAt(width, cells[0], cells[1:])
			w := text.LongestLineLen(got)
			failIf(t, w > width, "%s at %d has a line of %d columns:\n%s", name, width, w, got)
			for _, row := range cells[1:] {
				for _, cell := range row {
					for _, word := range strings.Fields(cell) {
						failIf(t, text.StringWidth(word) < width/2 && !strings.Contains(got, word),
							"%s at %d lacks %q:\n%s", name, width, word, got)
					}
				}
			}
		}
	}
	twoLines := [][]string{{"main", "away", "somebody else starts it\nit was issued no creds: bcpmesh creds issue main --out main.creds"}}
	for _, width := range []int{40, 60, 80} {
		if got := tableAt(width, []string{"agent", "state", "details"}, twoLines); !strings.Contains(got, "starts it\n") || !strings.Contains(got, "  it was issued") {
			t.Errorf("two lines of a cell are one at %d:\n%s", width, got)
		}
	}
	got := tableAt(140, ledgerHeader, ledgerRows)
	failIf(t, !strings.HasPrefix(got, "╭"), "a table that fits is drawn, got\n%s", got)
	got = tableAt(60, ledgerHeader, ledgerRows)
	failIf(t, !strings.Contains(got, "main ← mailer\n  epoch      12\n"), "a table that does not fit is stacked, got\n%s", got)
}

// What a pipe gets has no width: a row is a line, for grep and awk.
func TestTableInAPipe(t *testing.T) {
	t.Parallel()
	got := strings.Split(strings.TrimSpace(tableAt(0, ledgerHeader, ledgerRows)), "\n")
	failIf(t, len(got) != 1+len(ledgerRows) || !strings.HasPrefix(got[0], "CHANNEL ") || strings.HasSuffix(got[2], " "),
		"%q", got)
}

var failIf = bcptest.FailIf
