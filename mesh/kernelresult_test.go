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
		failIf(t, !strings.Contains(string(r.Result), `"angry":{"type":"boolean"}`),
			"the planner is told %s of the result", r.Result)
		return moodOnly
	})
	heard := hears(t, m)
	run, end := runTask(t, m, "Is the writer angry?")
	stopIf(t, end.Status != "committed", "the run ended as %+v", end)
	label := taskOf(t, m)
	failIf(t, label.Tainted(), "before it was told anything, its task is %+v", label)
	d := wait(t, heard)
	failIf(t, d.RunID != run.ID || d.FromAgent != "desk" || d.SubscriptionID != bcp.ResultSubscription || string(d.Response) != `{"angry":true}`,
		"it heard %+v", d)
	failIf(t, d.Taint != bcp.TaintMedium || d.BandwidthBits != bcp.Bit || d.CapacityBits < bcp.Bit,
		"tainted %s, for %s and %s bits", d.Taint, d.BandwidthBits, d.CapacityBits)
	push := m.Wait(t, pushed)
	failIf(t, push.Verdict != bcp.Accept || string(push.Client) != run.ID || push.Balance.Settled != bcp.Bit,
		"recorded is %+v", push)
	told := 1 + int((d.CapacityBits+bcp.Bit-1)/bcp.Bit) // how the run ended is a bit
	for range 2 {                                       // also of a new session
		if _, end = runTask(t, m, "Tell kim."); end.Status != "committed" {
			t.Fatalf("the run ended as %+v", end)
		}
		label := taskOf(t, m)
		failIf(t, !label.Tainted() || !label.ThirdParty() || int(label.Width()) != told,
			"told %d bits, its task is %+v", told, label)
		d = wait(t, heard)
		told += 1 + int((d.CapacityBits+bcp.Bit-1)/bcp.Bit)
		m.Connect(t, "main", bcp.RoleController).Request(t, subjects.Session("main"), `{"verb":"close"}`)
	}
	if len(sent) > 0 {
		t.Errorf("the tool was called: %s", <-sent)
	}
}
