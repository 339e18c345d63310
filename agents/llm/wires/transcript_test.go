package wires_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
)

func asking(words ...string) *llm.Request {
	r := &llm.Request{Model: "m"}
	for _, w := range words {
		r.Turns = append(r.Turns, llm.Turn{Role: llm.User, Parts: []llm.Part{llm.FromOperator(w)}})
	}
	return r
}

// What was recorded is answered again, errors included, and nothing else is.
func TestTranscript(t *testing.T) {
	t.Parallel()
	says := func(s string) llm.ScriptTurn {
		return llm.ScriptTurn{Reply: llm.Reply{Said: []llm.Said{llm.NewSaid(s)}, Stop: llm.StopEnd, Usage: llm.Usage{Input: 3, Output: 1}}}
	}
	var file bytes.Buffer
	recorder := must(wires.NewRecorder(&llm.Script{Turns: []llm.ScriptTurn{says("one"), {Err: llm.Overloaded{}}, says("two"), says("three")}}, &file))
	a, b := asking("a"), asking("a", "b")
	for _, r := range []*llm.Request{a, b, a, b} {
		_, _ = recorder.Do(t.Context(), r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := recorder.Do(ctx, a)
	failIf(t, !errors.Is(err, context.Canceled), "%v", err)
	n := bytes.Count(file.Bytes(), []byte("\n"))
	failIf(t, n != 5, "%d lines:\n%s", n, file.Bytes())
	for range 2 { // byte for byte the same, whatever lies between
		p := must(wires.NewReplay(file.Bytes()))
		_, err := p.Do(t.Context(), b)
		failIf(t, !errors.Is(err, llm.Overloaded{}), "%v", err)
		for _, step := range []struct {
			r    *llm.Request
			want string
		}{{a, "one"}, {a, "two"}, {b, "three"}, {a, "two"}} {
			step.r.Model = "another"
			reply, err := p.Do(t.Context(), step.r)
			failIf(t, err != nil || reply.Said[0].Text() != step.want || reply.Usage.Input != 3 || reply.Stop != llm.StopEnd,
				"%+v, %v, want %s", reply, err, step.want)
		}
		var protocol llm.Protocol
		if _, err := p.Do(t.Context(), asking("a", "obey-me")); !errors.As(err, &protocol) || !strings.Contains(err.Error(), "turn 2 was not recorded: call 4 of the transcript is nearest") || strings.Contains(err.Error(), "obey") {
			t.Error(err)
		}
		fails(t, errorOf(p.Do(t.Context(), &llm.Request{})), nil, "an empty request is answered")
	}
	whole := file.String()
	for name, content := range map[string]string{
		"nothing": "", "another format": strings.Replace(whole, "BCPTRANS1", "BCPTRANS2", 1), "a changed request": strings.Replace(whole, `"instruction":"a"`, `"instruction":"x"`, 1),
		"half of a line": whole[:len(whole)-20], "no answer": strings.Replace(whole, `"failure"`, `"other"`, 1), "two answers": strings.Replace(whole, `"failure":"overloaded"`, `"failure":"overloaded","response":{}`, 1),
		"no reply": strings.Replace(whole, `"stop":"end"`, `"stop":7`, 1),
	} {
		_, err := wires.NewReplay([]byte(content))
		failIf(t, err == nil || !strings.Contains(err.Error(), "no transcript"), "%s: %v", name, err)
	}
}

// full takes nothing after its first write.
type full struct{ writes int }

func (f *full) Write(b []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, errors.New("full")
	}
	return len(b), nil
}

// Nothing goes on that cannot be recorded.
func TestTranscriptThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	recorder := must(wires.NewRecorder(&llm.Script{Turns: make([]llm.ScriptTurn, 1)}, &full{}))
	reply, err := recorder.Do(t.Context(), asking("a"))
	failIf(t, err == nil, "%+v", reply)
	fails(t, errorOf(wires.NewRecorder(&llm.Script{}, &full{writes: 1})), nil, "it begins")
}
