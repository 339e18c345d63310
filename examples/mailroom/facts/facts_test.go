package facts

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

// factsLine is one message of the golden table.
type factsLine struct {
	Subject, Name, Address, Date string
	Kind                         Kind
	Urgent, NeedsReply           bool
	Sentiment                    Sentiment
	Due                          string
	Confidence                   int
	Key                          string
	Actions                      []string
}

func TestFactsOfShippedMail(t *testing.T) {
	t.Parallel()
	var lines []factsLine
	for _, m := range shippedMail(t) {
		f := Extract(m)
		due := ""
		if f.Due != nil {
			due = f.Due.String()
		}
		lines = append(lines, factsLine{m.Subject, f.SenderName, f.SenderAddress, f.Date.Format("2006-01-02"), f.Kind,
			f.Urgent, f.NeedsReply, f.Sentiment, due, f.Confidence, f.KeySentence, f.Actions})
	}
	golden := filepath.Join("testdata", "facts.json")
	if *update {
		data, err := json.MarshalIndent(lines, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var want []factsLine
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("facts differ (-golden +got):\n%s", diff)
	}
}

// The honest Reader repeats nothing of what was planted in a body.
// covers BCP-18
func TestHonestReaderPassesOverPlantedText(t *testing.T) {
	t.Parallel()
	for _, m := range shippedMail(t) {
		in, hostile := FindInjection(m)
		if !hostile || in.Place == InDisplayName {
			continue
		}
		f := Extract(m)
		said := strings.Join(append([]string{f.KeySentence}, f.Actions...), "\n")
		for _, piece := range strings.Fields(in.Plain) {
			if len(piece) > 12 && strings.Contains(said, piece) {
				t.Errorf("%q: facts repeat %q", m.Subject, piece)
			}
		}
		if strings.ContainsFunc(said, isInvisible) {
			t.Errorf("%q: facts carry invisible characters: %q", m.Subject, said)
		}
	}
}

func TestFindDue(t *testing.T) {
	t.Parallel()
	cases := []struct{ text, want string }{
		{"Total amount due: EUR 1,284.50", "1284.50 EUR"},
		{"The balance due is 2.415,90 EUR", "2415.90 EUR"},
		{"合計: 48,600円", "48600 JPY"},
		{"amount due € 49", "49.00 EUR"},
		{"total: $1,299.00 today", "1299.00 USD"},
		{"Total CHF 1'050.05", "1050.05 CHF"},
		{"amount due: £0.99", "0.99 GBP"},
		{"it costs EUR 940.00", ""},
		{"amount due: soon", ""},
		{"amount due: EUR 99999999999999999999", ""},
		{"amount due: ¥12.34", ""},
		{"", ""},
	}
	for _, c := range cases {
		got := ""
		if a := findDue(c.text); a != nil {
			got = a.String()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestOwnTextLeavesOutOthers(t *testing.T) {
	t.Parallel()
	in := "Mine.\n\nOn Friday, X wrote:\n> theirs\n>> older\n\nMine again.\n-- \nSignature"
	if got := ownText(in); got != "Mine.\n\nMine again." {
		t.Errorf("%q", got)
	}
}

// A message of nothing gives the least that can be said.
func TestFactsOfNothing(t *testing.T) {
	t.Parallel()
	want := Facts{Kind: Other, Sentiment: Neutral, Confidence: 1}
	if diff := cmp.Diff(want, Extract(&mailbox.Message{})); diff != "" {
		t.Error(diff)
	}
	if in, ok := FindInjection(&mailbox.Message{}); ok || in != (Injection{}) {
		t.Errorf("found %+v in nothing", in)
	}
}

// What it costs to look at a text does not grow with the square of its length.
//
// covers BCP-18
func TestCostlyTexts(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{"cue after cue": "ignore decode base64 ", "paragraphs": "ignore\n\n"} {
		text := strings.Repeat(unit, (1<<20)/len(unit))
		m := mailbox.Parse([]byte("Content-Type: text/plain\n\n"+text), mailbox.Limits{})
		start := time.Now()
		Extract(m)
		FindInjection(m)
		if took := time.Since(start); took > time.Minute { // where it grows with the square it takes hours
			t.Errorf("%s took %v", name, took)
		}
	}
}
