package subjects_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// mesh is the seed's example, with an agent in both roles and a Reader without
// subscriptions.
func mesh() *bcp.Mesh {
	channel := func(controller, reader bcp.AgentName, ttl time.Duration, ids ...bcp.SubscriptionID) bcp.Channel {
		c := bcp.Channel{ChannelKey: bcp.ChannelKey{Controller: controller, Reader: reader}, QueryTTL: ttl}
		for _, id := range ids {
			c.Subscriptions = append(c.Subscriptions, bcp.Subscription{ID: id})
		}
		return c
	}
	return &bcp.Mesh{
		Approvers: []bcp.AgentName{"alice"},
		Auditors:  []bcp.AgentName{"alice", "bob"},
		Agents: []bcp.Agent{
			{Name: "mailer", Reader: true},
			{Name: "main", Controller: true},
			{Name: "relay", Controller: true, Reader: true},
			{Name: "researcher", Reader: true},
			{Name: "unused"},
		},
		Channels: []bcp.Channel{
			channel("main", "relay", time.Hour, "digest"),
			channel("main", "researcher", 2*time.Minute, "findings", "alerts"),
			channel("relay", "mailer", 3*time.Hour),
		},
	}
}

// covers BCP-7, BCP-10, SUB-9, SUB-122, SUB-123, SUB-124, SUB-125, P1.4, P9.5
func TestPermissionsAreExact(t *testing.T) {
	t.Parallel()
	quarter := subjects.MinRespondFor + subjects.RespondSlack
	want := []subjects.Scope{
		{
			Agent: "alice", Role: bcp.RoleApprover,
			PubAllow: []string{
				"bcp.v1.approval.alice.approve", "bcp.v1.approval.alice.edit", "bcp.v1.approval.alice.endorse", "bcp.v1.approval.alice.get",
				"bcp.v1.approval.alice.list", "bcp.v1.approval.alice.reject", "bcp.v1.approval.alice.revoke",
			},
			SubAllow: []string{"_INBOX.alice.>", "bcp.v1.alert.>"},
		},
		auditor("alice"),
		auditor("bob"),
		{
			Agent: "mailer", Role: bcp.RoleReader,
			SubAllow: []string{"_INBOX.mailer.>", "bcp.v1.deliver.reader.mailer.>", "bcp.v1.query.mailer.>"},
			Respond:  true, RespondFor: 3*time.Hour + subjects.RespondSlack,
		},
		{
			Agent: "main", Role: bcp.RoleController,
			PubAllow: []string{"bcp.v1.ask.main.relay", "bcp.v1.ask.main.researcher", "bcp.v1.session.main"},
			SubAllow: []string{"_INBOX.main.>", "bcp.v1.deliver.controller.main.>"},
			Respond:  true, RespondFor: time.Hour + subjects.RespondSlack,
		},
		{
			Agent: "operator", Role: bcp.RoleOperator,
			PubAllow: []string{
				"BCPJS.DIRECT.GET.BCP_COMMIT", "bcp.v1.control.agents", "bcp.v1.control.credentials", "bcp.v1.control.erase", "bcp.v1.control.forecast", "bcp.v1.control.key", "bcp.v1.control.lift", "bcp.v1.control.proposals", "bcp.v1.control.reconcile", "bcp.v1.control.reload", "bcp.v1.control.renew", "bcp.v1.control.reset-taint", "bcp.v1.control.revocations", "bcp.v1.control.sessions", "bcp.v1.control.stop-run", "bcp.v1.control.storage", "bcp.v1.control.taint", "bcp.v1.control.truncate",
			},
			SubAllow: []string{"_INBOX.operator.>", "bcp.v1.alert.>"},
		},
		{
			Agent: "relay", Role: bcp.RoleController,
			PubAllow: []string{"bcp.v1.ask.relay.mailer", "bcp.v1.session.relay"},
			SubAllow: []string{"_INBOX.relay.>", "bcp.v1.deliver.controller.relay.>"},
			Respond:  true, RespondFor: 3*time.Hour + subjects.RespondSlack,
		},
		{
			Agent: "relay", Role: bcp.RoleReader,
			PubAllow: []string{"bcp.v1.push.relay.main.digest"},
			SubAllow: []string{"_INBOX.relay.>", "bcp.v1.deliver.reader.relay.>", "bcp.v1.query.relay.>"},
			Respond:  true, RespondFor: time.Hour + subjects.RespondSlack,
		},
		{
			Agent: "researcher", Role: bcp.RoleReader,
			PubAllow: []string{"bcp.v1.push.researcher.main.alerts", "bcp.v1.push.researcher.main.findings"},
			SubAllow: []string{"_INBOX.researcher.>", "bcp.v1.deliver.reader.researcher.>", "bcp.v1.query.researcher.>"},
			Respond:  true, RespondFor: quarter,
		},
	}
	got := subjects.Permissions(mesh())
	diff := cmp.Diff(want, got, cmpopts.IgnoreFields(subjects.Scope{}, "MaxSubscriptions", "MaxPayload"), cmpopts.EquateEmpty())
	failIf(t, diff != "", "%v", diff)
	for _, s := range got {
		failIf(t, (s.Role == bcp.RoleReader) != (s.MaxPayload > 0),
			"%s as %s may publish %d bytes", s.Agent, s.Role, s.MaxPayload)
		failIf(t, s.MaxSubscriptions <= 0, "%s as %s has no bound on its subscriptions", s.Agent, s.Role)
	}
}

func auditor(name string) subjects.Scope {
	return subjects.Scope{
		Agent: bcp.AgentName(name), Role: bcp.RoleAuditor,
		PubAllow: []string{
			"BCPJS.DIRECT.GET.BCP_AUDIT", "BCPJS.DIRECT.GET.BCP_AUDIT.>", "BCPJS.DIRECT.GET.BCP_LEDGER",
			"BCPJS.DIRECT.GET.BCP_LEDGER.>", "BCPJS.STREAM.INFO.BCP_AUDIT", "BCPJS.STREAM.INFO.BCP_LEDGER",
			"bcp.v1.control.forecast", "bcp.v1.control.sessions", "bcp.v1.control.storage",
		},
		SubAllow: []string{"_INBOX." + name + ".>", "bcp.v1.alert.>"},
	}
}

// covers A-SUBJTOK, A-WILD, P1.1
func TestPermissionsOfAnInvalidMeshGrantNothing(t *testing.T) {
	t.Parallel()
	for _, b := range bad {
		n := bcp.AgentName(b)
		m := &bcp.Mesh{
			Approvers: []bcp.AgentName{n}, Auditors: []bcp.AgentName{n},
			Agents: []bcp.Agent{{Name: n, Controller: true, Reader: true}, {Name: "r", Reader: true}, {Name: "c", Controller: true}},
			Channels: []bcp.Channel{
				{ChannelKey: bcp.ChannelKey{Controller: n, Reader: "r"}, Subscriptions: []bcp.Subscription{{ID: "s"}}},
				{ChannelKey: bcp.ChannelKey{Controller: "c", Reader: n}},
				{ChannelKey: bcp.ChannelKey{Controller: "c", Reader: "r"}, Subscriptions: []bcp.Subscription{{ID: bcp.SubscriptionID(b)}}},
			},
		}
		got := subjects.Permissions(m)
		stopIf(t, len(got) != 3 || got[0].Agent != "c" || got[1].Agent != bcp.Operator || got[2].Agent != "r",
			"%q got a scope: %+v", b, got)
		want := []string{"bcp.v1.ask.c.r", "bcp.v1.session.c"}
		failIf(t, !slices.Equal(got[0].PubAllow, want), "%q: c may publish %q", b, got[0].PubAllow)
		failIf(t, len(got[2].PubAllow) != 0, "%q: r may publish %q", b, got[2].PubAllow)
	}
}

// Whatever a mesh is, an agent publishes in its own channels alone, each on a subject of its own, and hears what
// carries its name: so no two hear the same.
//
// covers A-WILD, A-JSAPI, A-SYS, BCP-19, SUB-123, SUB-125
func TestPermissionsOfAnyMeshStayInTheirTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,5}`), 2, 6, rapid.ID).Draw(t, "names")
		slices.Sort(names)
		m := &bcp.Mesh{}
		for _, n := range names {
			m.Agents = append(m.Agents, bcp.Agent{
				Name:       bcp.AgentName(n),
				Controller: rapid.Bool().Draw(t, "controller"), Reader: rapid.Bool().Draw(t, "reader"),
			})
		}
		says := map[string][]string{} // by agent and role
		for _, c := range m.Agents {
			for _, r := range m.Agents {
				if c.Controller && r.Reader && c.Name != r.Name && rapid.Bool().Draw(t, "channel") {
					key := bcp.ChannelKey{Controller: c.Name, Reader: r.Name}
					m.Channels = append(m.Channels, bcp.Channel{ChannelKey: key, Subscriptions: []bcp.Subscription{{ID: "s"}}})
					asks, pushes := string(c.Name)+" controller", string(r.Name)+" reader"
					says[asks] = append(says[asks], fmt.Sprintf("bcp.v1.ask.%s.%s", c.Name, r.Name))
					says[pushes] = append(says[pushes], fmt.Sprintf("bcp.v1.push.%s.%s.s", r.Name, c.Name))
				}
			}
			says[string(c.Name)+" controller"] = append(says[string(c.Name)+" controller"], fmt.Sprintf("bcp.v1.session.%s", c.Name))
		}
		for _, s := range subjects.Permissions(m) {
			if s.Role == bcp.RoleOperator {
				continue // it is the same in every mesh: see TestPermissionsAreExact
			}
			own := "." + string(s.Agent) + ".>"
			hears := []string{"_INBOX" + own, "bcp.v1.deliver." + s.Role.String() + own}
			if s.Role == bcp.RoleReader {
				hears = append(hears, "bcp.v1.query"+own)
			}
			want := says[string(s.Agent)+" "+s.Role.String()]
			stopIf(t, !slices.Equal(s.PubAllow, want) || !slices.Equal(s.SubAllow, hears), "%s as %s may publish %q, and subscribe to %q", s.Agent, s.Role, s.PubAllow, s.SubAllow)
		}
	})
}

// covers BCP-10, SUB-122, SUB-123, SUB-124, SUB-125
func TestExportsKeepTheDirection(t *testing.T) {
	t.Parallel()
	people := []bcp.Role{bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator}
	for _, e := range subjects.Exports() {
		begins := func(words ...string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(e.Subject, w) })
		}
		want := subjects.ToGateway
		switch {
		case begins("bcp.v1.query.", "bcp.v1.deliver.", "bcp.v1.plan.", "bcp.v1.subplan.", "bcp.v1.inbox.", "bcp.v1.alert.") || e.Dispatched:
			want = subjects.ToAgents
		case begins("bcp.v1.approval.", "bcp.v1.role.", "$JS."):
			want = subjects.Service
		}
		failIf(t, e.Way != want || e.Identify != begins("bcp.v1.approval.", "bcp.v1.role."),
			"%q: way %d, %t", e.Subject, e.Way, e.Identify)
		roles := e.Subject == "bcp.v1.role.>" // of agents of other organisations, in whichever role they are here
		everybody := e.Subject == subjects.Alerts() || e.Subject == "bcp.v1.inbox.person.*.>"
		failIf(t, len(e.Roles) != 1 && !(roles && slices.Equal(e.Roles, []bcp.Role{bcp.RoleController, bcp.RoleReader})) && !(everybody && slices.Equal(e.Roles, people)),
			"%q is for %v", e.Subject, e.Roles)
		expect(t, e.Local != e.Subject, begins("$JS.", "bcp.v1.inbox."), "%q is %q outside", e.Subject, e.Local)
		failIf(t, !subjects.Valid(e.Subject) || !subjects.Valid(e.Local), "%q or %q is not valid", e.Subject, e.Local)
	}
}

// A keeper tells of egress only for an agent that has a way out: hosts, or tools of MCP
// servers.
//
// covers P13.1, P13.5
func TestWhatKeepersPublish(t *testing.T) {
	t.Parallel()
	egress, usage := subjects.Egress("web"), subjects.Usage("web")
	for name, tt := range map[string]struct {
		agent bcp.Agent
		want  []string
	}{
		"a model":                        {bcp.Agent{Builtin: true}, []string{usage}},
		"a command with a model":         {bcp.Agent{Command: []string{"./r"}, Run: bcp.Run{MaxTokens: 1}}, []string{usage}},
		"a model with files":             {bcp.Agent{Builtin: true, Tools: []string{"files"}}, []string{usage}},
		"a model with an MCP tool":       {bcp.Agent{Builtin: true, Tools: []string{"files", "mcp__notes__find"}}, []string{egress, usage}},
		"a model with a tool of none":    {bcp.Agent{Builtin: true, Tools: []string{"mcp__notes__drop"}}, []string{usage}},
		"a model with hosts":             {bcp.Agent{Builtin: true, Egress: bcp.Egress{Hosts: []string{"example.com"}}}, []string{egress, usage}},
		"a command with hosts":           {bcp.Agent{Egress: bcp.Egress{Hosts: []string{"example.com"}}}, []string{egress}},
		"a command that names such tool": {bcp.Agent{Tools: []string{"mcp__notes__find"}}, nil},
	} {
		a := tt.agent
		a.Name, a.Reader = "web", true
		var got []string
		for _, s := range subjects.Permissions(&bcp.Mesh{Agents: []bcp.Agent{a}, MCPServers: []bcp.MCPServer{{Tools: []bcp.MCPTool{{Name: "mcp__notes__find"}}}}}) {
			if s.Role == bcp.RoleKeeper {
				got = s.PubAllow
				expect(t, strings.Join(s.SubAllow, " "), subjects.InboxesOf("web"), "%s: it hears", name)
			}
		}
		failIf(t, !slices.Equal(got, tt.want), "%s: %v", name, got)
	}
}
