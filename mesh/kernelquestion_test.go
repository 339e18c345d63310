package mesh_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

const askPlan = `{"steps":[{"kind":"tool","id":"mail","tool":"look"},
{"kind":"ask_requester","id":"q","questions":[{"id":"angry","question":"Are you angry?","expected_format":"boolean"}]},
{"kind":"tool","id":"send","tool":"send","args":{"to":"kim@example.org","angry":{"ref":"q","path":"angry"}}}],"final":"send"}`

// A plan asks the Controller that gave the task, which hears the question with its run's
// receipts and answers over its own subject: also after a restart. What it says is its own
// word, so that the call needs no rule, and the question is charged like the end of a run.
//
// covers K3, KER-40
func TestAControllerIsAsked(t *testing.T) {
	t.Parallel()
	files := kernelMesh()
	files["agents/desk.md"] = strings.Replace(files["agents/desk.md"], "  rules:\n", "  limits: {max_questions: 1}\n  rules:\n", 1)
	m := meshtest.Start(t, files)
	kernelSeats(t, m, askPlan)
	ctx := within(t, meshtest.Patience)
	var question bcp.RunReceipt
	connect := func() *agents.Connection {
		return client(t, m, "main", bcp.RoleController, agents.Options{})
	}
	asked := func(c *agents.Connection) *agents.Run {
		run := must(agents.NewRequester(c).Run(ctx, "desk", "all", agents.RunTask{ID: "once", Task: "Tell kim how I feel."}))
		looking, stop := context.WithCancel(ctx)
		defer stop()
		end, err := run.Follow(looking, func(r bcp.RunReceipt) {
			if question = r; r.QuestionID != "" {
				stop()
			}
		})
		if err == nil || question.Waits != bcp.WaitsForRequester || len(question.Questions) != 1 || question.Questions[0].Question != "Are you angry?" {
			t.Fatalf("asked is %+v; %+v, %v", question, end, err)
		}
		return run
	}
	asked(connect())
	m.Restart(t)
	sent := kernelSeats(t, m, askPlan)
	run := asked(connect())
	var refused *agents.RunRefusedError
	if err := run.Answer(ctx, question.QuestionID, map[string]string{"angry": "very"}, false); !errors.As(err, &refused) || refused.Code != string(kernel.BadOutcome) {
		t.Errorf("an answer of another form: %v", err)
	}
	noError(t, run.Answer(ctx, question.QuestionID, map[string]bool{"angry": true}, false))
	if end, err := run.Wait(ctx); err != nil || end.Status != "committed" {
		t.Fatalf("the run ended as %+v, %v", end, err)
	}
	expect(t, wait(t, sent), `{"angry":true,"to":"kim@example.org"}`, "the tool")
	if err := run.Answer(ctx, question.QuestionID, nil, false); !errors.As(err, &refused) || refused.Code != string(kernel.UnknownItem) {
		t.Errorf("a second answer: %v", err)
	}
	var told bcp.Bits
	for _, d := range m.Decisions() {
		if d.Run != nil && d.Run.Held != "" {
			told += d.Capacity
		}
	}
	expect(t, told, 7*bcp.Bit, "the question tells")
	// What it was told by the question and the end, it knows in its next task.
	must(agents.NewRequester(connect()).Run(ctx, "desk", "all", agents.RunTask{Task: "Again."}))
	if label := taskOf(t, m); label.Width() != 8 {
		t.Errorf("its next task is %+v", label)
	}
}
