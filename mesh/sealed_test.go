package mesh_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// What a tool returns sealed and what a Reader answers sealed comes to the tool that takes
// it, as it was said and for a bit, and into no byte that a planner gets, the mesh logs, or
// the open part of a record, or a file of its streams has.
//
// covers P3.11, KER-40
func TestSealedValuesOnAMesh(t *testing.T) {
	t.Parallel()
	const fromTool, fromReader = "Canary-of-the-tool-4Kd", "https://x.example/?q=\"Canary-of-the-Reader-9Wz\""
	files := kernelMesh()
	files["tools/mail.yaml"] = strings.NewReplacer("{body: {type: string}}", "{body: {type: sealed}}",
		"{to: {type: string}, angry: {type: boolean}}", "{to: {type: string}, text: {type: string, accepts: sealed}, link: {type: string, accepts: sealed}}").Replace(kernelTools)
	front, _, _ := strings.Cut(files["agents/desk.md"], "  rules:\n")
	files["agents/desk.md"] = strings.Replace(front, "angry, type: boolean", "link, type: sealed, max: 200", 1) + `  rules:
  - id: sealed-to-self
    effect: declassify
    tool: send
    when: args.text.sealed && args.link.sealed && args.to.value == requester.address
    examples:
      yes: [{args: {to: a@b, text: {tainted: true, sealed: true}, link: {tainted: true, sealed: true}}, requester: {address: a@b}}]
      no: [{args: {to: a@b, text: {tainted: true}, link: {tainted: true, sealed: true}}, requester: {address: a@b}}]
` + files["agents/desk.md"][strings.Index(files["agents/desk.md"], "bcp_channels:"):]
	m := meshtest.Start(t, files)
	connect := func(name bcp.AgentName, role bcp.Role) *agents.Connection {
		return client(t, m, name, role, agents.Options{})
	}
	var mu sync.Mutex
	var planned, read strings.Builder
	sent := make(chan string, 1)
	planner := agents.NewPlanner(connect("ann", bcp.RolePlanner))
	planner.OnPlan(func(_ context.Context, r agents.PlanRequest) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		planned.WriteString(r.Task + string(r.Catalogue) + string(r.Schemas) + string(r.Errors))
		return jsontext.Value(`{"steps":[{"kind":"tool","id":"mail","tool":"look"},
{"kind":"q_parse","id":"mood","source":{"ref":"mail","path":"body"},"schema_ref":"Mood","instruction":"Which link?"},
{"kind":"tool","id":"send","tool":"send","args":{"to":"kim@example.org","text":{"ref":"mail","path":"body"},"link":{"ref":"mood","path":"link"}}}],"final":"send"}`), nil
	})
	tool := agents.NewTool(connect("mail", bcp.RoleTool), nil, agents.Handlers{
		"look": func(context.Context, agents.Call) (any, error) { return map[string]string{"body": fromTool}, nil },
		"send": func(_ context.Context, c agents.Call) (any, error) {
			sent <- string(c.Args)
			return map[string]bool{"sent": true}, nil
		},
	}.Do)
	reader := agents.NewReader(connect("mailer", bcp.RoleReader))
	reader.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		read.WriteString(q.Content)
		return map[string]string{"link": fromReader}, nil
	})
	for _, s := range []interface{ Start(context.Context) error }{planner, tool, reader} {
		noError(t, s.Start(t.Context()))
	}
	run, end := runTask(t, m, "Send me the link.")
	stopIf(t, end.Status != "committed", "the run ended as %+v", end)
	got, want := wait(t, sent), `{"link":"https://x.example/?q=\"Canary-of-the-Reader-9Wz\"","text":"`+fromTool+`","to":"kim@example.org"}`
	failIf(t, got != want, "the tool got %s, want %s", got, want)
	m.Settle(t)
	spent := bcp.Bits(0)
	for _, d := range m.Decisions() {
		if d.Run != nil && (bytes.Contains(d.Run.Change, []byte("Canary")) || strings.Contains(d.Run.Code, "Canary")) {
			t.Errorf("the open part of record %d is %s", d.Seq, d.Run.Change)
		}
		if d.Kind == bcp.KindAnswer {
			spent += d.Nominal
		}
	}
	expect(t, spent, bcp.Bit, "the bits of the answer")
	mu.Lock()
	if strings.Contains(planned.String(), "Canary") || !strings.Contains(planned.String(), "sealed") || read.String() != fromTool {
		t.Errorf("the planner was told %s, the Reader %s", &planned, &read)
	}
	mu.Unlock()
	holds(t, !strings.Contains(m.Log(), "Canary"), "it is in the log")
	m.Stop(t)
	found := filesWith(t, m.State, []byte("Canary"))
	failIf(t, len(found) > 0, "it is in %v", found)
	failIf(t, len(filesWith(t, m.State, []byte(run.ID))) == 0, "the files show nothing of the run, so that they cannot show what is sealed")
}
