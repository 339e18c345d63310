package proof_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// cast is a mesh in which each role is played twice.
func cast() []subjects.Scope {
	channel := func(kernel, reader bcp.AgentName) bcp.Channel {
		return bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: kernel, Reader: reader}}
	}
	calls := []bcp.CallRight{{Service: "files", Tool: "read"}, {Service: "mail", Tool: "send"}}
	return subjects.Permissions(&bcp.Mesh{
		Agents: []bcp.Agent{
			{Name: "desk", Controller: true}, {Name: "kim", Controller: true}, {Name: "lee", Controller: true},
			{Name: "mailer", Reader: true}, {Name: "paper", Reader: true}, {Name: "post", Controller: true},
		},
		Channels: []bcp.Channel{channel("desk", "mailer"), channel("desk", "paper"), channel("post", "mailer")},
		Kernels: []bcp.KernelRights{
			{Kernel: "desk", Planner: "ann", SubPlanner: "paul", Runs: []bcp.RunRight{{Requester: "kim", Grant: "all"}}, Calls: calls},
			{Kernel: "post", Planner: "bea", Runs: []bcp.RunRight{{Requester: "lee", Grant: "all"}}, Calls: calls},
		},
	})
}

// player is who plays a role in the tests, with the subject that the orchestrator sends it
// messages on, and those that carry the columns.
type player struct {
	account, name, hears string
}

var players = map[contract.Role]player{
	contract.Planner:   {accounts.Planners, "planner-ann", "bcp.v1.plan.ann.desk"},
	contract.Processor: {accounts.Readers, "reader-mailer", "bcp.v1.query.mailer.desk"},
	contract.Tool:      {accounts.Tools, "tool-mail", "bcp.v1.call.mail.send.desk"},
	contract.User:      {accounts.Controllers, "controller-kim", "bcp.v1.deliver.controller.kim.desk"},
}

// carriers of the columns, none of them for a player above.
var columns = map[contract.Column]string{
	contract.UserQuery:    "bcp.v1.plan.bea.post",
	contract.ToolOutputs:  "bcp.v1.reply.tool.files.c1",
	contract.Plan:         "bcp.v1.reply.planner.bea.p1",
	contract.ExternalData: "bcp.v1.query.paper.desk",
}

// The roles of a mesh with kernels hear and say what the matrix has, and nothing else.
//
// covers DUAL-4, DUAL-22, DUAL-23, DUAL-24, DUAL-25, DUAL-26, DUAL-27, DUAL-28, DUAL-29, DUAL-30, DUAL-31, DUAL-32, DUAL-33, DUAL-34, DUAL-35
func TestRolesAreThoseOfTheMatrix(t *testing.T) {
	t.Parallel()
	report := sound(t, cast())
	stopIf(t, len(report.Matrix) != 20 || len(report.Edges) != 8, "%d cells, %d edges", len(report.Matrix), len(report.Edges))
	for _, cell := range report.Matrix {
		want := cell.May
		if cell.Role == contract.Orchestrator && cell.Column == contract.ExternalData {
			want = contract.SeesAll // that it decides by metadata is no matter of permissions
		}
		failIf(t, cell.Sees != want || cell.May != contract.Sees(cell.Role, cell.Column).Sees,
			"%s sees %s of %s; it may see %s", cell.Role, cell.Sees, cell.Column, cell.May)
	}
	for _, e := range report.Edges {
		failIf(t, !e.Open, "nobody can use the edge from %s to %s", e.From, e.To)
	}
	// Without kernels nobody plays planner or tool, and no user starts a run.
	for _, cell := range sound(t, office()).Matrix {
		played := cell.Role != contract.Planner && cell.Role != contract.Tool
		failIf(t, !played && cell.Sees != contract.SeesNot, "%s sees %s", cell.Role, cell.Column)
	}
}

// hearsFromCore lets an agent hear what is in the gateway's account.
func hearsFromCore(p player, subject string) plant {
	return all(way(jwt.Stream, p.account, core, subject, subject), hears(p.account, p.name, subject))
}

// A hole that is planted in any cell of the matrix is found, with the way, and is one on
// a real server.
//
// covers DUAL-4, DUAL-22, DUAL-23, DUAL-24, DUAL-25, DUAL-26, DUAL-27, DUAL-28, DUAL-29, DUAL-30, DUAL-31, DUAL-32, DUAL-33, DUAL-34, DUAL-61, DUAL-62, DUAL-70, DUAL-72, DUAL-102
func TestHoleInEachCell(t *testing.T) {
	t.Parallel()
	for _, cell := range contract.Matrix() {
		t.Run(string(cell.Role)+" "+string(cell.Column), func(t *testing.T) {
			t.Parallel()
			i := shipped(t, cast())
			who, subject := players[cell.Role], columns[cell.Column]
			if cell.Role == contract.Orchestrator { // somebody else is in its account
				who = player{account: core, name: "helper"}
				scope := i.scope(t, core, who.name)
				scope.Template.Sub.Allow.Add(subject)
				scope.Template.Pub.Deny.Add(">")
			} else {
				hearsFromCore(who, subject)(t, i)
			}
			is := func(h proof.Hole) bool {
				return h.From == "the orchestrator" && h.Role == cell.Role && h.Column == cell.Column && h.To == who.name
			}
			if cell.Role == contract.Tool && cell.Column == contract.ToolOutputs || cell.Role == contract.Planner && cell.Column == contract.Plan {
				// A server refuses a stream that goes back where it came from.
				failIf(t, !slices.ContainsFunc(i.prove(t).Of(proof.Roles), is), "it is not found")
				return
			}
			i.serve(t).tryRole(t, i.prove(t), is)
		})
	}
}

// Between roles there are eight edges; a hole that is planted where there is none is
// found, and the real credentials of the role use it on a real server.
//
// covers DUAL-36, DUAL-37, DUAL-38, DUAL-39, DUAL-40, DUAL-41, DUAL-43, DUAL-63, DUAL-69, DUAL-71, DUAL-102
func TestHoleInEachMissingEdge(t *testing.T) {
	t.Parallel()
	missing := 0
	for _, from := range contract.Roles() {
		for _, to := range contract.Roles() {
			if from == to || contract.Between(from, to) == contract.Direct {
				continue
			}
			missing++
			t.Run(string(from)+" to "+string(to), func(t *testing.T) {
				t.Parallel()
				i := shipped(t, cast())
				source, target := players[from], players[to]
				all(way(jwt.Service, source.account, target.account, target.hears, "way."+target.account),
					saysAlone(source.account, source.name, "way."+target.account))(t, i)
				w := i.serve(t)
				w.tryRole(t, i.prove(t), func(h proof.Hole) bool {
					return h.Role == from && h.ToRole == to && h.From == source.name && h.To == target.name
				})
			})
		}
	}
	failIf(t, missing != 12, "%d edges are missing", missing)
}

// Holes of other kinds: a role that speaks as another, one that hears its neighbour, and
// an agent that is two.
//
// covers DUAL-1, DUAL-6, DUAL-64, DUAL-67
func TestOtherHolesInRoles(t *testing.T) {
	t.Parallel()
	speaks := func(account, role, subject string) plant {
		return all(reaching(account, subject), saysAlone(account, role, subject))
	}
	between := func(from, to string, column contract.Column) func(proof.Hole) bool {
		return func(h proof.Hole) bool { return h.From == from && h.To == to && (column == "" || h.Column == column) }
	}
	as := func(from contract.Role, to string) func(proof.Hole) bool {
		return func(h proof.Hole) bool { return h.Role == from && (h.To == to || h.ToRole == contract.Role(to)) }
	}
	for name, c := range map[string]struct {
		is    func(h proof.Hole) bool
		plant plant
	}{
		"a planner starts runs": {as(contract.Planner, "the orchestrator as user"),
			speaks(accounts.Planners, "planner-ann", "bcp.v1.run.kim.desk.all")},
		"a planner answers for a tool": {as(contract.Planner, "the orchestrator as tool"),
			speaks(accounts.Planners, "planner-ann", "bcp.v1.reply.tool.mail.c1")},
		"a processor answers for a planner": {as(contract.Processor, "the orchestrator as planner"),
			speaks(accounts.Readers, "reader-mailer", "bcp.v1.reply.planner.ann.p1")},
		"a tool answers for another": {as(contract.Tool, "the orchestrator as tool"),
			saysAlone(accounts.Tools, "tool-mail", "bcp.v1.reply.tool.files.c1")},
		"a processor makes plan requests": {as(contract.Processor, string(contract.Planner)),
			all(way(jwt.Service, accounts.Readers, core, "bcp.v1.plan.ann.desk", "bcp.v1.plan.ann.desk"),
				saysAlone(accounts.Readers, "reader-mailer", "bcp.v1.plan.ann.desk"))},
		"a planner hears a neighbour's plans": {between("planner-bea", "planner-ann", contract.Plan),
			hears(accounts.Planners, "planner-ann", "bcp.v1.reply.planner.bea.>")},
		"a user hears a neighbour's tasks": {between("controller-lee", "controller-kim", contract.UserQuery),
			hears(accounts.Controllers, "controller-kim", "bcp.v1.run.>")},
		"a planner hears results": {as(contract.Orchestrator, string(contract.Planner)),
			hearsFromCore(players[contract.Planner], "bcp.v1.deliver.controller.kim.desk")},
		"a tool hears a neighbour's calls": {as(contract.Orchestrator, "tool-mail"),
			hears(accounts.Tools, "tool-mail", "bcp.v1.call.files.>")},
		"a mapping in the gateway's account": {func(h proof.Hole) bool {
			return h.Column == contract.ExternalData && h.To == "planner-ann" && strings.Contains(h.String(), "mapped in CORE to bcp.v1.plan.ann.")
		}, mapped("bcp.v1.query.paper.*", "bcp.v1.plan.ann.{{wildcard(1)}}")},
		"a planner that reads": {between("planner-mailer", "reader-mailer", ""),
			func(t *testing.T, i *issuer) {
				scope := i.scope(t, accounts.Planners, "planner-mailer")
				scope.Template = *i.template(accounts.Planners, "planner-ann")
				scope.Template.Sub = jwt.Permission{Allow: jwt.StringList{"bcp.v1.plan.mailer.>", "_INBOX.mailer.>"}}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := shipped(t, cast())
			c.plant(t, i)
			found := i.prove(t).Of(proof.Roles)
			failIf(t, !slices.ContainsFunc(found, c.is), "not found: %v", found)
		})
	}
}

// tryRole finds a hole, and shows that it is one.
func (w *world) tryRole(t *testing.T, report proof.Report, is func(proof.Hole) bool) {
	t.Helper()
	found := report.Of(proof.Roles)
	n := slices.IndexFunc(found, is)
	stopIf(t, n < 0, "not found: %v", found)
	h := found[n]
	first, last := h.Way[0], h.Way[len(h.Way)-1]
	stopIf(t, h.String() == "" || last.How != "subscribe", "the way is %s", h)
	heard := listen(t, w.as(t, last.Account, h.To), last.Subject)
	from, subject := w.watch(t, first.Account), literal(first.Subject)
	if h.ToRole != "" {
		from, subject = w.as(t, first.Account, h.From), h.Publish
	}
	say(t, from, subject)
	got(t, heard, "")
}
