package audit

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The way of a run is drawn in a terminal, and the names in it, which a planner chose, do
// nothing there.
//
// covers A-FAKEUI
func TestTheWayOfARunIsDrawn(t *testing.T) {
	t.Parallel()
	const hostile = "send\u202e\u200bdone  "
	plan := `{"steps":[{"kind":"when","id":"way","on":{"ref":"x"},"cases":{"yes":[{"kind":"tool","id":"` + hostile + `","tool":"x"}]},"else":[{"kind":"tool","id":"note","tool":"x"}]}],"final":"x"}`
	stories := tell.NewRunStories()
	for i, c := range []kernel.Change{
		{Kind: bcp.KindRun, Start: &kernel.Start{Kernel: "desk", Requester: kernel.Requester{Name: "kim"}, GrantName: "all", Limits: kernel.Limits{ControlBits: 9}}},
		{Kind: bcp.KindPlan, Plan: &kernel.Accepted{Attempt: 1, Steps: 2}, Private: kernel.Private{Plan: []byte(plan)}, Steps: []kernel.StepRecord{
			{Path: "way", Kind: kernel.WhenStep, Done: true, Bits: bcp.Bit}, {Path: "way/_else/note", Kind: kernel.ToolStep}}},
	} {
		c.Run = "r1"
		stories.Add(&bcp.Decision{Seq: uint64(i + 1), Kind: c.Kind, Verdict: bcp.Accept,
			Private: bcp.Private{RunSaid: c.Private.AppendJSON(nil)}, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", Change: c.AppendJSON(nil)}})
	}
	var out bytes.Buffer
	o := cli.NewOutput(&out, io.Discard)
	o.Width = 80
	showWay(o, stories.All()[0])
	noError(t, o.Stdout.Flush())
	got := out.String()
	failIf(t, strings.ContainsAny(got, "\u202e\u200b\x1b") || !strings.Contains(got, "\nnot taken      yes:\nnot taken        send") || !strings.Contains(got, "\n               _else:\nbegun            note  tool\n"),
		"drawn is\n%s", got)
	for line := range strings.Lines(got) {
		failIf(t, utf8.RuneCountInString(line) > 80, "too wide: %s", line)
	}
}
