package mesh

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

// A list of agents comes in parts of which each fits a message, and none is left out.
//
// covers P9.2
func TestPartsOfAgents(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, maxStatuses, maxStatuses + 1, 2*maxStatuses + 1} {
		var agents []bcp.Agent
		for i := range n {
			agents = append(agents, bcp.Agent{Name: bcp.AgentName(fmt.Sprintf("a%05d", i))})
		}
		seen, parts := 0, 0
		for from := bcp.AgentName(""); ; {
			part, next := statusPart(agents, from)
			for _, a := range part {
				stopIf(t, a.Name != agents[seen].Name, "%d: %s comes in place of %s", n, a.Name, agents[seen].Name)
				seen++
			}
			parts++
			if from = next; next == "" {
				break
			}
		}
		failIf(t, seen != n || parts != max(1, (n+maxStatuses-1)/maxStatuses), "%d agents come in %d parts as %d", n, parts, seen)
	}
	agents := []bcp.Agent{{Name: "b"}, {Name: "d"}}
	for from, want := range map[bcp.AgentName]int{"": 2, "a": 2, "b": 2, "c": 1, "d": 1, "e": 0} {
		part, _ := statusPart(agents, from)
		failIf(t, len(part) != want, "from %q on there are %d, want %d", from, len(part), want)
	}
}

// covers P9.2, P7.5
func TestStatusOfAgents(t *testing.T) {
	t.Parallel()
	since := time.Unix(1000, 0)
	reader := bcp.Agent{Name: "r", Reader: true}
	commanded := bcp.Agent{Name: "r", Reader: true, Command: []string{"./r"}, Sandbox: bcp.SandboxNone}
	both := bcp.Agent{Name: "r", Reader: true, Controller: true}
	open := func(roles ...bcp.Role) (list []status.ClientConnection) {
		for i, role := range roles {
			list = append(list, status.ClientConnection{Agent: "r", Role: role, Since: since.Add(time.Duration(i))})
		}
		return list
	}
	for name, c := range map[string]struct {
		agent       bcp.Agent
		open        []status.ClientConnection
		command     supervisor.Status
		unsupported bool
		want        status.State
		started     bool // the mesh has a command of it
	}{
		"nobody starts it":                   {agent: reader, want: status.Away},
		"somebody else started it":           {agent: reader, open: open(bcp.RoleReader), want: status.Connected},
		"in one role":                        {agent: both, open: open(bcp.RoleController), want: status.Connected},
		"on a cluster":                       {agent: commanded, unsupported: true, want: status.Away},
		"that nobody accepted":               {agent: bcp.Agent{Name: "r", Reader: true, Command: []string{"./r"}}, want: status.Away},
		"starting":                           {agent: commanded, command: supervisor.Status{State: supervisor.Starting}, want: status.Starting, started: true},
		"not begun":                          {agent: commanded, command: supervisor.Status{State: supervisor.Stopped}, want: status.Starting, started: true},
		"running":                            {agent: commanded, command: supervisor.Status{State: supervisor.Running, Command: status.Command{PID: 7}}, want: status.Running, started: true},
		"running and connected":              {agent: commanded, open: open(bcp.RoleReader), command: supervisor.Status{State: supervisor.Running, Command: status.Command{PID: 7}}, want: status.Connected, started: true},
		"crashed":                            {agent: commanded, command: supervisor.Status{State: supervisor.Waiting, Command: status.Command{Failures: 1}}, want: status.Crashed, started: true},
		"woken too soon":                     {agent: commanded, command: supervisor.Status{State: supervisor.Waiting}, want: status.Starting, started: true},
		"given up":                           {agent: commanded, command: supervisor.Status{State: supervisor.Unavailable, Command: status.Command{Failures: 5}}, want: status.Unavailable, started: true},
		"resting":                            {agent: commanded, command: supervisor.Status{State: supervisor.Resting}, want: status.Resting, started: true},
		"stopping":                           {agent: commanded, command: supervisor.Status{State: supervisor.Stopping}, want: status.Stopping, started: true},
		"crashed, and run by hand meanwhile": {agent: commanded, open: open(bcp.RoleReader), command: supervisor.Status{State: supervisor.Waiting, Command: status.Command{Failures: 1}}, want: status.Connected, started: true},
	} {
		got := agentStatus(&c.agent, agentRoles(&bcp.Mesh{}, &c.agent), c.open, c.command, !c.unsupported)
		failIf(t, got.State != c.want || (got.Command != nil) != c.started || (got.NotStarted == "") != c.started,
			"%s: %+v", name, got)
	}
	s := agentStatus(&both, agentRoles(&bcp.Mesh{}, &both), open(bcp.RoleReader, bcp.RoleReader), supervisor.Status{}, true)
	if len(s.Roles) != 2 || s.Connected(bcp.RoleController) || !s.Connected(bcp.RoleReader) || s.Connected(bcp.RoleApprover) ||
		s.Roles[1].Connections != 2 || !s.Roles[1].Since.Equal(since.Add(1)) {
		t.Errorf("roles: %+v", s.Roles)
	}
}

// Planners, sub-planners and tool services connect in roles of their own; a kernel, which
// the gateway runs, in none.
//
// covers P9.2
func TestRolesOfAgents(t *testing.T) {
	t.Parallel()
	def := &bcp.Mesh{Services: []bcp.Service{{Name: "office"}}, Kernels: []bcp.KernelRights{
		{Kernel: "desk", Planner: "ann", SubPlanner: "sam"},
		{Kernel: "lab", Planner: "ann", SubPlanner: "ann"},
	}}
	for name, want := range map[bcp.AgentName][]bcp.Role{
		"ann": {bcp.RolePlanner, bcp.RoleSubplanner}, "sam": {bcp.RoleSubplanner}, "office": {bcp.RoleReader, bcp.RoleTool}, "desk": nil, "other": nil,
	} {
		a := bcp.Agent{Name: name, Reader: name == "office", Controller: name == "desk"}
		got := agentRoles(def, &a)
		failIf(t, !slices.Equal(got, want), "%s connects as %v, want %v", name, got, want)
	}
	planner := bcp.Agent{Name: "ann"}
	s := agentStatus(&planner, agentRoles(def, &planner), []status.ClientConnection{{Agent: "ann", Role: bcp.RolePlanner}}, supervisor.Status{}, true)
	failIf(t, s.State != status.Connected, "a planner that is connected is %s", s.State)
}
