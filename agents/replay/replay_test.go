package replay_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// recorded is a Reader that fetches two pages and answers one of two queries, and a prompt in which it pushes.
func recorded(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	to, err := replay.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	record := replay.Record(to)
	pass := func(p stdio.Passage, params, result string) {
		t.Helper()
		p.Params, p.Result = jsontext.Value(params), jsontext.Value(result)
		if err := record(p); err != nil {
			t.Error(err)
		}
	}
	begin := func(id, kind, asked string) { pass(stdio.Passage{Call: id, Method: kind}, asked, "") }
	called := func(method, params, result string) { pass(stdio.Passage{Method: method, Done: true}, params, result) }
	model := func(conversation string) {
		called("model", `{"conversation":"`+conversation+`","request":{"model":"small","turns":[]}}`, `{"stop":"end","usage":{"Input":10,"CacheRead":0,"CacheWrite":0,"Output":2}}`)
	}
	called("configuration", `null`, `{"agent":"reader","role":"reader","instructions":"","model":"small","tools":[],"max_turns":8,"max_tokens":50}`)
	begin("1", "query", `{"type":"bcp_query","query_id":"q1"}`)
	model("1")
	called("fetch", `{"conversation":"1","ask":{"url":"https://good.test/"}}`, `{"page":1}`)
	called("reading", `{}`, `{}`) // is not recorded
	model("1")
	pass(stdio.Passage{Call: "1", Method: "query", Done: true}, "", `{"fixes":12}`)
	begin("2", "query", `{"type":"bcp_query","query_id":"q2"}`)
	model("2")
	pass(stdio.Passage{Call: "2", Method: "query", Done: true, Err: &stdio.CallError{Message: "the model did not answer"}}, "", "")
	pass(stdio.Passage{Method: "subscriptions"}, `{"subscriptions":[]}`, "")
	begin("4", "prompt", `{"prompt_id":"p1","message":"Look for news."}`)
	model("4")
	called("push", `{"conversation":"4","subscription_id":"alert"}`, `{"detail":"urgent: has the wrong type"}`)
	pass(stdio.Passage{Call: "4", Method: "prompt", Done: true}, "", `{}`)
	return file.Bytes()
}

// A transcript has what a cell was asked, what it asked for and how each conversation ended.
//
// covers ALF-78
func TestRecording(t *testing.T) {
	t.Parallel()
	lines, err := replay.Parse(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, l := range lines {
		if told = append(told, l.Conversation+l.Kind); l.Kind == replay.End {
			told = append(told, string(l.Response)+l.Detail)
		}
	}
	want := `configuration 1query 1model 1fetch 1model 1end {"fixes":12} 2query 2model 2end the model did not answer subscriptions 4prompt 4model 4push 4end {}`
	if got := strings.Join(told, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
