package mesh_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A hijacked Reader that sends what its Controller would send is suspended, and nobody
// else is: only the identity of its own connection counts, whatever names it writes. What
// it writes reaches no alert, log or other agent. The suspension outlasts a restart and
// ends by the operator alone.
//
// covers DUAL-94, DUAL-96, P16.1, P16.2, P16.3
func TestHijackedReaderSuspendsItselfAlone(t *testing.T) {
	t.Parallel()
	const canary = "CANARYwords"
	files := pair(1000)
	files["mesh.yaml"] = "on_suspect: suspend\n"
	m := meshtest.Start(t, files)
	main, mailer := connect(t, m)
	// In the Controller's name, to it, and with answers to what was never asked.
	for _, subject := range []string{subjects.Ask("main", "mailer"), subjects.Session("main"), "bcp.v1.push." + canary + ".main.alerts", "bcp.v1.ask.main." + canary} {
		noError(t, mailer.Publish(subject, []byte(canary)))
	}
	mailer.Sync(t)
	suspect := func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertSuspect) }
	d := m.Wait(t, func(d *bcp.Decision) bool { return suspect(d) && d.Rule == bcp.SuspectOtherRole })
	alert, ok := d.Alert()
	holds(t, ok && alert.Agent == "mailer" && alert.Count >= 1 && alert.Suspended, "the alert is %+v", alert)
	suspended := func(why string) {
		t.Helper()
		coded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""), bcp.Suspended, why)
	}
	suspended("after the alert")
	main.Accepted(t, "mailer", askUrgent)
	mailer.Answer(t, mailer.queries.Next(t), isUrgent)
	m.Wait(t, of(bcp.KindAnswer, bcp.Suspended))

	m.Restart(t)
	main, mailer = connect(t, m)
	suspended("after a restart")
	main.Accepted(t, "mailer", askUrgent)

	operator := client(t, m, bcp.Operator, bcp.RoleOperator, agents.Options{})
	o := agents.NewOperator(operator)
	for name, want := range map[bcp.AgentName]bool{"mailer": true, "main": false} {
		status, ok, err := o.Agent(t.Context(), name)
		failIf(t, err != nil || !ok || status.Suspended != want, "%s: suspended %t, %v", name, status.Suspended, err)
	}
	fails(t, o.Lift(t.Context(), "main"), nil, "who is not suspended is lifted")
	noError(t, o.Lift(t.Context(), "mailer"))
	carries(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""), "status", bcp.StatusDelivered, "after it was lifted")
	for _, d := range m.Decisions() {
		failIf(t, suspect(&d) && d.Agent != "mailer", "%s is suspected", d.Agent)
		if alert, ok := d.Alert(); ok {
			text, err := json.Marshal(alert)
			failIf(t, err != nil || strings.Contains(string(text), canary), "%v: %s", err, text)
		}
	}
	holds(t, !strings.Contains(m.Log(), canary), "the log has words of the Reader")
}
