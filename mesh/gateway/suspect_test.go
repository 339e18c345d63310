package gateway_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// planOf answers a plan request.
func planOf(request string) []byte {
	var asked struct {
		ID string `json:"plan_id"`
	}
	_ = json.Unmarshal([]byte(request), &asked)
	return fmt.Appendf(nil, `{"plan_id":%q,"plan":%s}`, asked.ID, postPlan)
}

// A requester or a planner that is suspended has its open runs ended and no new ones, and
// the calls of a tool service that is suspended are not made. Nothing of that changes
// when another gateway takes over.
//
// covers DUAL-94, P16.1, P16.3
func TestSuspendedAgentsMakeNoCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		role bcp.Role
		open string // how a run ends that is open then
		next string // what a new one comes to
	}{
		"main": {bcp.RoleController, "cancelled suspended", "suspended"},
		"ann":  {bcp.RolePlanner, "cancelled suspended", "refused plan"},
		"mail": {bcp.RoleTool, "errored suspended", "errored suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newKernelBench(t)
			suspends := func(c *gateway.Config) {
				b.withKernel(c)
				m := *c.State.Mesh
				m.SuspendSuspects = true
				c.State.Mesh = &m
			}
			g := b.start(t, suspends)
			b.plan = "" // the planner waits
			b.request(t, "all", `{"request_id":"a1","task":"Say hello."}`)
			b.until(t, "plan request", func() bool { return len(b.silent) == 1 })
			suspect := bcp.AgentName(name)
			g.Denied(suspect, tt.role, "publish", subjects.Query("mailer", "desk"), 1)
			alert := g.wait(t, 1, func(d *bcp.Decision) bool { return d.Event == string(bcp.AlertSuspect) })[0]
			stopIf(t, alert.Agent != suspect || alert.Rule != bcp.SuspectOtherRole || !alert.Suspends, "suspected: %+v", alert)
			b.set(func() {
				b.plan = postPlan
				if tt.role == bcp.RoleTool {
					err := b.silent[0].Respond(planOf(b.asked[0]))
					failIf(t, err != nil, "%v", err)
				}
			})
			g.ends(t, tt.open)
			noError(t, g.Stop())
			g.disconnect()
			g = b.start(t, suspends)
			receipt := b.request(t, "all", `{"request_id":"a2","task":"Say hello.","new_session":true}`)
			switch tt.next {
			case "suspended":
				expect(t, receipt.Code, tt.next, "a new run is %+v", receipt)
			case "refused plan":
				g.wait(t, 1, func(d *bcp.Decision) bool {
					return d.Kind == bcp.KindPlan && d.Run.Code == string(kernel.Suspended) && d.Run.From == suspect
				})
			default:
				g.ends(t, tt.next)
			}
			b.calledWith(t, "")
		})
	}
}
