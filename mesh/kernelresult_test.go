package mesh_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// resultMesh is kernelMesh with a requester that is a Controller of the kernel.
func resultMesh(budget int, result string) map[string]string {
	files := kernelMesh()
	files["agents/main.md"] = agentFile("main", "address: kim@example.org\nmax_connections: 8\n", controls("desk", budget)) // each run of a test has one of its own
	files["agents/desk.md"] = strings.Replace(files["agents/desk.md"], "  rules:\n", "  result: "+result+"\n  rules:\n", 1)
	files["agents/desk.md"] = strings.Replace(files["agents/desk.md"], "bcp_channels:\n", "bcp_channels:\n  - {peer: main, role: reader}\n", 1)
	return files
}

const (
	moodOnly = `{"steps":[{"kind":"tool","id":"mail","tool":"look"},
{"kind":"q_parse","id":"mood","source":{"ref":"mail","path":"body"},"schema_ref":"Mood","instruction":"Is the writer angry?"}],"final":"mood"}`
	mailOnly = `{"steps":[{"kind":"tool","id":"mail","tool":"look"}],"final":"mail"}`
	boolean  = `{category: 1, fields: [{name: angry, type: boolean}]}`
)

// wrongIn takes a log in which nothing is to be.
type wrongIn struct{ *testing.T }

func (w wrongIn) Write(b []byte) (int, error) {
	w.Errorf("%s", b)
	return len(b), nil
}

// hears has main take what is delivered to it.
func hears(t *testing.T, m *meshtest.Mesh) <-chan bcp.Delivery {
	t.Helper()
	c := client(t, m, "main", bcp.RoleController, agents.Options{Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: wrongIn{t}})})
	heard := make(chan bcp.Delivery, 16)
	controller := agents.NewController(c)
	controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		heard <- d
		return nil
	})
	noError(t, controller.Start(t.Context()))
	return heard
}

func pushed(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Reader == "desk" }

// taskOf is the label of the newest task.
func taskOf(t *testing.T, m *meshtest.Mesh) kernel.Label {
	t.Helper()
	var label kernel.Label
	for _, d := range m.Decisions() {
		if c, err := kernel.ReadRecord(&d); err == nil && c.Start != nil {
			label = c.Start.Task
		}
	}
	return label
}

// A Controller hears the value of its run as a result: judged, charged on its channel,
// tainted one step below the content, and with the run's id. What it was told is what
// content may have chosen of its next task.
//
// covers KER-106, DUAL-109, P8.2
func TestResultOfARun(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, resultMesh(100, boolean))
	sent := kernelSeatsWith(t, m, func(r agents.PlanRequest) string {
		if !strings.Contains(string(r.Result), `"angry":{"type":"boolean"}`) {
			t.Errorf("the planner is told %s of the result", r.Result)
		}
		return moodOnly
	})
	heard := hears(t, m)
	run, end := runTask(t, m, "Is the writer angry?")
	if end.Status != "committed" {
		t.Fatalf("the run ended as %+v", end)
	}
	if label := taskOf(t, m); label.Tainted() {
		t.Errorf("before it was told anything, its task is %+v", label)
	}
	d := wait(t, heard)
	if d.RunID != run.ID || d.FromAgent != "desk" || d.SubscriptionID != bcp.ResultSubscription || string(d.Response) != `{"angry":true}` {
		t.Errorf("it heard %+v", d)
	}
	if d.Taint != bcp.TaintMedium || d.BandwidthBits != bcp.Bit || d.CapacityBits < bcp.Bit {
		t.Errorf("tainted %s, for %s and %s bits", d.Taint, d.BandwidthBits, d.CapacityBits)
	}
	push := m.Wait(t, pushed)
	if push.Verdict != bcp.Accept || string(push.Client) != run.ID || push.Balance.Settled != bcp.Bit {
		t.Errorf("recorded is %+v", push)
	}
	told := 1 + int((d.CapacityBits+bcp.Bit-1)/bcp.Bit) // how the run ended is a bit
	for range 2 {                                       // also of a new session
		if _, end = runTask(t, m, "Tell kim."); end.Status != "committed" {
			t.Fatalf("the run ended as %+v", end)
		}
		label := taskOf(t, m)
		if !label.Tainted() || !label.ThirdParty() || int(label.Width()) != told {
			t.Errorf("told %d bits, its task is %+v", told, label)
		}
		d = wait(t, heard)
		told += 1 + int((d.CapacityBits+bcp.Bit-1)/bcp.Bit)
		m.Connect(t, "main", bcp.RoleController).Request(t, subjects.Session("main"), `{"verb":"close"}`)
	}
	if len(sent) > 0 {
		t.Errorf("the tool was called: %s", <-sent)
	}
}

// A Controller cannot ask a kernel, and no other agent can push as it.
//
// covers KER-14
func TestKernelAnswersNoQueries(t *testing.T) {
	t.Parallel()
	mesh := meshtest.Parse(t, resultMesh(100, boolean))
	for _, s := range subjects.Permissions(mesh) {
		for _, subject := range s.PubAllow {
			if subject == subjects.Ask("main", "desk") || strings.HasPrefix(subject, "bcp.v1.push.desk.") || s.Agent == "desk" {
				t.Errorf("%s as %s may publish %s", s.Agent, s.Role, subject)
			}
		}
	}
}

// A conversation of ten tasks in one session, with a mail and a result in each, needs no
// person where content reaches no critical argument: the rule says how many bits of the
// tasks it takes, and sees whom their words name. A planner that makes up an address is
// stopped; so is a task once too much was told, until the requester begins anew.
//
// covers KER-106, DUAL-109
func TestConversation(t *testing.T) {
	t.Parallel()
	files := resultMesh(100, boolean)
	files["tools/mail.yaml"] = strings.Replace(kernelTools, "to: {type: string}", "to: {type: string, format: email, critical: true}", 1)
	files["agents/desk.md"] = strings.Replace(files["agents/desk.md"], "  - id: one-bit\n", `  - id: whom-the-task-names
    effect: declassify
    tool: send
    when: task.influence <= 40 && args.angry.influence <= 1 && (args.to.value == requester.address || task.mentions(args.to))
    examples:
      yes: [{task: Tell bob@example.org., args: {to: bob@example.org, angry: {tainted: true, influence: 1}}}]
      no: [{task: Tell bob., args: {to: bob@example.org, angry: {tainted: true, influence: 1}}}]
  - id: one-bit
`, 1)
	m := meshtest.Start(t, files)
	sent := kernelSeatsWith(t, m, func(r agents.PlanRequest) string {
		to := "kim@example.org"
		for _, other := range []string{"bob@example.org", "mallory@evil.example"} {
			if strings.Contains(r.Task, other[:3]) {
				to = other
			}
		}
		plan := strings.Replace(moodPlan, "kim@example.org", to, 1)
		return strings.Replace(plan, `"final":"send"`, `"final":"mood"`, 1)
	})
	heard := hears(t, m)
	c := client(t, m, "main", bcp.RoleController, agents.Options{})
	for i := range 10 {
		task, to := "Tell me whether the writer is angry.", "kim@example.org"
		if i%2 == 1 {
			task, to = "Tell bob@example.org, too.", "bob@example.org"
		}
		if _, end := runTaskBy(t, c, agents.RunTask{Task: task}); end.Status != "committed" {
			t.Fatalf("task %d: the run ended as %+v", i+1, end)
		}
		expect(t, wait(t, sent), `{"angry":true,"to":"`+to+`"}`, "task %d: sent", i+1)
		wait(t, heard)
		if label := taskOf(t, m); label.Tainted() != (i > 0) {
			t.Errorf("task %d: its label is %+v", i+1, label)
		}
	}
	if _, end := runTaskBy(t, c, agents.RunTask{Task: "Tell mal what you know."}); end.Status != "blocked" || end.Code != "not_declassified" {
		t.Errorf("to a made-up address: %+v", end)
	}
	for range 40 {
		if _, end := runTaskBy(t, c, agents.RunTask{Task: "Tell me whether the writer is angry."}); end.Status == "blocked" {
			break
		}
		wait(t, sent)
		wait(t, heard)
	}
	if _, end := runTaskBy(t, c, agents.RunTask{Task: "Tell me whether the writer is angry."}); end.Status != "blocked" || end.Code != "not_declassified" {
		t.Errorf("after more than the rule takes: %+v", end)
	}
	m.Settle(t)
	session := m.Connect(t, "main", bcp.RoleController)
	session.Request(t, subjects.Session("main"), `{"verb":"close"}`)
	session.Request(t, subjects.Session("main"), `{"verb":"open"}`)
	if _, end := runTaskBy(t, c, agents.RunTask{Task: "Tell me whether the writer is angry."}); end.Status != "committed" {
		t.Errorf("in a new session: %+v", end)
	}
	if label := taskOf(t, m); label.Tainted() {
		t.Errorf("in a new session the task is %+v", label)
	}
}
