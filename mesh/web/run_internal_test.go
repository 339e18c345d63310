package web

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The page of a decision of a run draws the steps that were done, nested as they are, with
// what steered them, and, where the plan is known, the ways not taken; a planner chose their
// names, and they do nothing.
//
// covers A-FAKEUI
func TestARunIsDrawn(t *testing.T) {
	t.Parallel()
	const hostile = "<b onclick=x>loop"
	for plan, wants := range map[string][]string{
		"": {"done</span>", "&lt;b onclick", "each", `<span class="rule">2.0 bits`, `<ul class="steps">`, "<bdi>0</bdi>", "done</span>", "<bdi>it</bdi>", "begun</span>", "<bdi>call</bdi> tool"},
		`{"steps":[{"kind":"each","id":"` + hostile + `","over":{"ref":"x"},"as":"it","max":12,"do":[{"kind":"tool","id":"call","tool":"send"},{"kind":"tool","id":"` + hostile + `2","tool":"x"}]}],"final":"x"}`: {
			"done</span>", "&lt;b onclick", "each", `<span class="rule">2.0 bits`, `<span class="rule">1 of at most 12</span>`, "<bdi>0</bdi>", "done</span>", "<bdi>it</bdi>", "begun</span>", "<bdi>call</bdi> tool",
			`<li class="missed"><span class="mark">not reached</span> <bdi>&lt;b onclick=x&gt;loop2</bdi> tool`},
	} {
		drawnRun(t, plan, hostile, wants)
	}
}

// drawnRun has a run of a plan, which is known if it is not empty, drawn with these words in
// this order.
func drawnRun(t *testing.T, plan, hostile string, wants []string) {
	t.Helper()
	s := newSite("x")
	s.logins.renew()
	first := s.history.total() + 1
	for i, c := range []kernel.Change{
		{Kind: bcp.KindRun, Start: &kernel.Start{Kernel: "desk", Requester: kernel.Requester{Name: "kim"}, GrantName: "all"}},
		{Kind: bcp.KindPlan, Plan: &kernel.Accepted{Attempt: 1, Steps: 3}, Totals: kernel.Totals{Control: 2 * bcp.Bit}, Steps: []kernel.StepRecord{
			{Path: hostile, Kind: kernel.EachStep, Done: true, Bits: 2 * bcp.Bit}, {Path: hostile + "/0/it", Kind: kernel.ItemStep, Done: true},
			{Path: hostile + "/0/call", Kind: kernel.ToolStep, Tool: "send"}}, Private: kernel.Private{Plan: []byte(plan)}},
	} {
		c.Run = "r1"
		s.history.add(first+uint64(i), &bcp.Decision{Seq: first + uint64(i), Kind: c.Kind, Verdict: bcp.Accept, Private: bcp.Private{RunSaid: c.Private.AppendJSON(nil)}, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", Change: c.AppendJSON(nil)}})
	}
	page := s.do(request("GET", "/decisions/"+strconv.FormatUint(first, 10), s.logIn(t, s.codes[0]), nil))
	body := must(io.ReadAll(page.Body))
	text := string(body)
	failIf(t, strings.Contains(text, hostile), "a step's name is markup")
	at := strings.Index(text, `<ul class="steps">`)
	stopIf(t, at < 0, "no tree:\n%s", text)
	for _, want := range wants {
		i := strings.Index(text[at:], want)
		stopIf(t, i < 0, "%q does not follow in:\n%s", want, text[at:min(len(text), at+900)])
		at += i
	}
}
