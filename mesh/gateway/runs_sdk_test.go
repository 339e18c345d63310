package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// sdk connects with the SDK.
func (b *kernelBench) sdk(t *testing.T, name bcp.AgentName, role bcp.Role) *agents.Connection {
	t.Helper()
	creds := must(b.store.Issue(name, role, time.Hour))
	c, err := agents.Connect(t.Context(), b.URL(), agents.CredsText(creds.Text()), agents.Options{Name: name, Logger: hclog.NewNullLogger()})
	noError(t, err)
	t.Cleanup(c.Close)
	return c
}

type starter interface {
	Start(context.Context) error
	Stop(context.Context) error
}

func started(t *testing.T, s starter) {
	t.Helper()
	noError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		err := s.Stop(context.Background())
		failIf(t, err != nil, "%v", err)
	})
}

// What a planner refuses, and what a kernel refuses, the requester hears.
//
// covers DUAL-9
func TestRefusalsOfTheSDK(t *testing.T) {
	t.Parallel()
	b := unservedBench(t, desk(t))
	b.start(t, b.withKernel)
	planner := agents.NewPlanner(b.sdk(t, "ann", bcp.RolePlanner))
	planner.OnPlan(func(context.Context, agents.PlanRequest) (any, error) { return nil, agents.ErrNoPlan })
	started(t, planner)
	ctx := within(t, meshtest.Patience)
	requester := agents.NewRequester(b.sdk(t, "main", bcp.RoleController))
	run := must(requester.Run(ctx, "desk", "read", agents.RunTask{Task: "x"}))
	if end, err := run.Wait(ctx); err != nil || end.Status == "committed" || end.Code == "" {
		t.Errorf("the run ended as %+v, %v", end, err)
	}
	_, err := requester.Run(ctx, "desk", "all", agents.RunTask{Task: "x", Forbid: []agents.ForbidRule{{Tool: "*", When: "false"}, {Tool: "post", When: "false ||\n no CEL"}}})
	refused, ok := errors.AsType[*agents.RunRefusedError](err)
	failIf(t, !ok || *refused != (agents.RunRefusedError{Code: "bad_rule", Rule: 2, Line: 2, Column: 5}), "got %v", err)
	_, err = requester.Run(ctx, "desk", "other", agents.RunTask{Task: "x"})
	failIf(t, err == nil, "a run begins with a grant that the requester has not")
}

// A call that a rule asks about waits for an approver of the kernel, who sees it on the
// bus, and whose signature has it made once. A gateway that was killed meanwhile still has
// it wait; one that is refused is not made.
//
// covers P7.3, DUAL-20
func TestPersonDecidesACall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(context.Context, *agents.Approver, bcp.ItemView) error
		end    string
		calls  int
	}{
		"approved": {func(ctx context.Context, a *agents.Approver, v bcp.ItemView) error { return a.Approve(ctx, v) }, "committed", 1},
		"rejected": {func(ctx context.Context, a *agents.Approver, v bcp.ItemView) error {
			return a.Reject(ctx, v, "Not now.")
		}, "blocked approval_rejected", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newKernelBench(t)
			b.kernel, b.plan = asking(t), forwardPlan
			verified := func(c *gateway.Config) { c.State.Verify = accounts.Verify }
			g := b.start(t, b.withKernel, verified)
			b.request(t, "all", helloTask)
			held := g.wait(t, 1, func(d *bcp.Decision) bool { return d.HeldItem() != "" })[0]
			alert, ok := held.Alert()
			failIf(t, !ok || alert.Alert != bcp.AlertHeld, "the alert is %+v", alert)
			if r := b.request(t, "all", helloTask); r.Status != bcp.RunOpen || r.Waits != bcp.WaitsForPerson {
				t.Errorf("its requester hears %+v", r)
			}
			noError(t, g.Stop())
			g = b.start(t, b.withKernel, verified)
			ctx := within(t, meshtest.Patience)
			approver := agents.NewApprover(b.sdk(t, bcp.Operator, bcp.RoleApprover))
			items, err := approver.List(ctx)
			stopIf(t, err != nil || len(items) != 1 || items[0].ID != held.HeldItem() || items[0].Kind != bcp.ItemEffect,
				"%+v, %v", items, err)
			view, err := approver.View(ctx, items[0].ID)
			stopIf(t, err != nil || view.Effect == nil || view.Effect.Tool != "post", "%+v, %v", view, err)
			b.calledWith(t, "read_inbox{}")
			noError(t, c.decide(ctx, approver, view))
			g.ends(t, c.end)
			r := b.request(t, "all", helloTask)
			failIf(t, r.Status == bcp.RunOpen || r.Waits != "", "at the end its requester hears %+v", r)
			expect(t, strings.Count(b.made(), "post{"), c.calls, "tools")
			err = c.decide(ctx, approver, view)
			failIf(t, !isRefused(err, bcp.AlreadyDecided), "decided again: %v", err)
		})
	}
}

// A run asks its requester, which answers over its own subject, once and as the question wants
// it: also after the gateway was killed.
//
// covers K3, KER-40
func TestRequesterAnswers(t *testing.T) {
	t.Parallel()
	d := deskDefinition(t)
	d.Limits.MaxQuestions = 1
	b := kernelBenchOf(t, newKernel(t, d))
	b.plan = `{"steps":[{"kind":"ask_requester","id":"q","questions":[{"id":"text","question":"What?","expected_format":"enum","values":["hello","bye"]}]},
{"kind":"tool","id":"post","tool":"post","args":{"to":"kim","body":{"ref":"q","path":"text"}}}],"final":"post"}`
	g := b.start(t, b.withKernel)
	ctx := within(t, meshtest.Patience)
	run := must(agents.NewRequester(b.sdk(t, "main", bcp.RoleController)).Run(ctx, "desk", "all", agents.RunTask{Task: "x"}))
	var asked bcp.RunReceipt
	looking, stop := context.WithCancel(ctx)
	_, _ = run.Follow(looking, func(r bcp.RunReceipt) {
		if asked = r; r.QuestionID != "" {
			stop()
		}
	})
	expect(t, asked.Waits, bcp.WaitsForRequester, "the run, which asks %+v,", asked.Questions)
	noError(t, g.Stop())
	g = b.start(t, b.withKernel)
	refused := func(text string, code kernel.Code) {
		t.Helper()
		err := run.Answer(ctx, asked.QuestionID, map[string]string{"text": text}, false)
		refused, ok := errors.AsType[*agents.RunRefusedError](err)
		failIf(t, !ok || refused.Code != string(code), "to %s it says %v", text, err)
	}
	refused("hi", kernel.BadOutcome)
	noError(t, run.Answer(ctx, asked.QuestionID, map[string]string{"text": "hello"}, false))
	g.ends(t, "committed")
	b.calledWith(t, `post{"body":"hello","to":"kim"}`)
	refused("bye", kernel.UnknownItem)
}

func isRefused(err error, code bcp.Code) bool {
	refused, ok := errors.AsType[*agents.RefusedError](err)
	return ok && refused.Code == code
}

const forwardPlan = `{"steps":[{"kind":"tool","id":"inbox","tool":"read_inbox"},{"kind":"tool","id":"post","tool":"post","args":{"to":"kim","body":{"ref":"inbox","path":"body"}}}],"final":"post"}`

// asking is desk, where the operator decides about each post.
func asking(t *testing.T) *kernel.Kernel {
	t.Helper()
	d := *desk(t).Definition()
	d.Approvers = []bcp.AgentName{bcp.Operator}
	d.Rules = []kernel.Rule{{ID: "ask-first", Effect: kernel.Ask, Tool: "post", When: "true"}}
	return newKernel(t, d)
}
