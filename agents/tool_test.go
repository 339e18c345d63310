package agents_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A call that comes again has the answer of the first time, and no other call has it, whatever key it says: not of another
// kernel, not of another tool and not with other arguments.
//
// covers P11.1
func TestOutcomeIsOfOneCall(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	var done atomic.Int32
	do := func(_ context.Context, c agents.Call) (any, error) {
		if string(c.Args) == `{"fails":true}` {
			return nil, &agents.NotPerformedError{Err: errors.New("not now")}
		}
		return map[string]any{"kernel": c.Kernel, "tool": c.Tool, "n": done.Add(1)}, nil
	}
	tool := agents.NewTool(connect(t, s.ClientURL(), agents.Options{Name: "mail"}), nil, agents.Handlers{"post": do, "read": do}.Do)
	noError(t, tool.Start(t.Context()))
	defer func() { _ = tool.Stop(context.Background()) }()
	caller := must(nats.Connect(s.ClientURL()))
	defer caller.Close()
	call := func(kernel bcp.AgentName, name, id, arguments string) (answer struct {
		ID     string `json:"call_id"`
		Result struct {
			Kernel bcp.AgentName `json:"kernel"`
			Tool   string        `json:"tool"`
			N      int32         `json:"n"`
		} `json:"result"`
		NotPerformed bool `json:"not_performed"`
	}) {
		t.Helper()
		reply := subjects.Reply(bcp.RoleTool, "mail", id, 0)
		answers := must(caller.SubscribeSync(reply))
		body := `{"call_id":"` + id + `","attempt":1,"tool":"` + name + `","key":"k","args":` + arguments + `}`
		noError(t, caller.PublishRequest(subjects.Call("mail", name, kernel), reply, []byte(body)))
		m := must(answers.NextMsgWithContext(within(t)))
		if err := json.Unmarshal(m.Data, &answer); err != nil || answer.ID != id {
			t.Fatalf("%s, %v", m.Data, err)
		}
		return answer
	}
	for i, c := range []struct {
		kernel          bcp.AgentName
		tool, arguments string
		n               int32
	}{
		{"desk", "post", `{"a":1}`, 1}, {"desk", "post", `{"a":1}`, 1}, {"other", "post", `{"a":1}`, 2}, {"desk", "read", `{"a":1}`, 3},
		{"desk", "post", `{"a":2}`, 4}, {"desk", "post", `{"a":1}`, 1},
	} {
		got := call(c.kernel, c.tool, "c"+string(rune('a'+i)), c.arguments)
		failIf(t, got.Result.N != c.n || got.Result.Kernel != c.kernel || got.Result.Tool != c.tool, "call %d: %+v", i, got)
	}
	for id, name := range map[string]string{"x": "post", "y": "post", "z": "none"} {
		got := call("desk", name, id, `{"fails":true}`)
		failIf(t, !got.NotPerformed, "%+v", got)
	}
}
