package replay_test

import (
	"bytes"
	"errors"
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

// A recording has what a cell was asked, what it asked for and how each conversation ended. What is cut off has no end, and
// what is no recording of a cell is refused.
//
// covers ALF-78
func TestRecording(t *testing.T) {
	t.Parallel()
	content := recorded(t)
	r, err := replay.Read(content)
	if err != nil || r.Configuration.Model != "small" || len(r.Conversations) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []struct {
		kind, end string
		calls     int
	}{{"query", `{"fixes":12}`, 3}, {"query", "", 1}, {"prompt", `{}`, 2}} {
		c := r.Conversations[i]
		if c.Kind != want.kind || c.End == nil || string(c.End.Response) != want.end || (want.end == "") != (c.End.Failure != "") || len(c.Calls) != want.calls {
			t.Errorf("conversation %d: %s, %d calls, end %+v", i, c.Kind, len(c.Calls), c.End)
		}
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	if r, err := replay.Read(bytes.Join(lines[:5], nil)); err != nil || len(r.Conversations) != 1 || r.Conversations[0].End != nil {
		t.Errorf("cut off: %+v, %v", r, err)
	}
	alone := rewritten(t, content, func(l *replay.Line) {
		if l.Conversation = ""; l.Kind != replay.Model {
			*l = replay.Line{Kind: replay.Subscriptions}
		}
	})
	if r, err := replay.Read(alone); err != nil || r.Configuration != nil || len(r.Conversations) != 1 {
		t.Errorf("of a model alone: %+v, %v", r, err)
	}
	for name, change := range map[string]func(*replay.Line){
		"a stranger's call": func(l *replay.Line) {
			if l.Kind == "fetch" {
				l.Conversation = "7"
			}
		},
		"two ends": func(l *replay.Line) {
			if l.Kind == "query" && l.Conversation == "2" {
				l.Kind, l.Conversation = "end", "1"
			}
		},
		"no configuration": func(l *replay.Line) {
			if l.Kind == "configuration" {
				l.Response = nil
			}
		},
	} {
		if _, err := replay.Read(rewritten(t, content, change)); !errors.Is(err, replay.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rewritten is a transcript after a change, with digests that are right.
func rewritten(t *testing.T, content []byte, change func(*replay.Line)) []byte {
	t.Helper()
	lines, err := replay.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	to, err := replay.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		change(&l)
		if err := to.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}
