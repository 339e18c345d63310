package run

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// What the story shows of a hostile mail cannot act on a terminal, and no line
// is longer than it should be.
func TestStoryIsInert(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;owned\x07\x1b[2J\r\n\u202egnp\u2066\u200b\u00ad\ufeff\u009b31m\x00\x7f \u2028\U000e0041"
	long := strings.Repeat(evil+" 漢字 ", 40)
	var stdout, stderr bytes.Buffer
	s := newStory(cli.NewOutput(&stdout, &stderr))
	s.stage = &stage{def: &bcp.Mesh{Channels: []bcp.Channel{{}}}, keep: evil}
	noError(t, s.begin())
	for i, raw := range []string{evil, long, strings.Repeat("w", 500), strings.Repeat("漢", 500), ""} {
		s.news = []demoEvent{
			{Kind: bcp.KindPush, Exchange: web.Exchange{Said: raw, Hijacked: true, Verdict: bcp.Reject, Why: raw}},
			{Kind: bcp.KindAnswer, Exchange: web.Exchange{Said: raw, Verdict: bcp.Accept, Heard: raw}},
			{Kind: bcp.KindAnswer, Exchange: web.Exchange{Said: raw, Verdict: bcp.Hold, Why: "url"}},
			{Kind: bcp.KindAsk, Category: 3, Exchange: web.Exchange{Asked: raw, Verdict: bcp.Hold}},
			{Kind: bcp.KindAsk, Category: 1, Exchange: web.Exchange{Asked: raw, Verdict: bcp.Accept}},
			{Kind: bcp.KindAnswer, Outcome: bcp.Rejected, Exchange: web.Exchange{Said: raw}},
		}
		s.acts = []string{raw}
		m := &mailbox.Message{Subject: raw}
		m.From.Name = raw
		s.tell(mailroom.Done{Number: i + 1, Message: m, Injection: &mailroom.Injection{Plain: raw, Place: raw}})
		noError(t, say(s.out, "mail", &s.told[i]))
	}
	noError(t, s.end())
	noError(t, s.out.Flush())
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSuffix(line, "\n")
		if line != cli.Plain(line) {
			t.Errorf("not harmless for a terminal: %q", line)
		}
		if strings.HasPrefix(line, "    ") && text.StringWidthWithoutEscSequences(line) > storyWidth {
			t.Errorf("%d columns: %q", text.StringWidthWithoutEscSequences(line), line)
		}
	}
}

var noError = bcptest.NoError
