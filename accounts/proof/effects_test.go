package proof_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// kernels are two that call the same tools of a service.
func kernels() []subjects.Scope {
	calls := []bcp.CallRight{{Service: "files", Tool: "read"}, {Service: "mail", Tool: "read"}, {Service: "mail", Tool: "send"}}
	return subjects.Permissions(&bcp.Mesh{
		Agents:   []bcp.Agent{{Name: "desk", Controller: true}, {Name: "main", Controller: true}, {Name: "mailer", Reader: true}, {Name: "other", Controller: true}},
		Channels: []bcp.Channel{{ChannelKey: bcp.ChannelKey{Controller: "desk", Reader: "mailer"}}, {ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "mailer"}}},
		Kernels: []bcp.KernelRights{
			{Kernel: "desk", Planner: "ann", Runs: []bcp.RunRight{{Requester: "main", Grant: "all"}}, Calls: calls},
			{Kernel: "post", Planner: "ann", Runs: []bcp.RunRight{{Requester: "other", Grant: "all"}, {Requester: "main", Grant: "mail"}}, Calls: calls[1:]},
		},
	})
}

// dispatcher is the user that calls a tool for a kernel.
func dispatcher(kernel, service bcp.AgentName, tool string) string {
	return subjects.UserName(subjects.Dispatcher(kernel, service, tool), bcp.RoleDispatcher)
}

// Every second publisher of a call is found, trusted or not, and a real server lets what
// it publishes through to the tool.
//
// covers KER-14
func TestPlantedEffectsAreFoundAndReal(t *testing.T) {
	t.Parallel()
	const tools, dispatch, mail = accounts.Tools, accounts.Dispatchers, "tool-mail"
	read, send, post := dispatcher("desk", "mail", "read"), dispatcher("desk", "mail", "send"), dispatcher("post", "mail", "send")
	for _, c := range []planted{
		{"the gateway's own user may call", proof.Effects, "gateway", mail, "stream into TOOLS as bcp.v1.call.mail.",
			all(way(jwt.Stream, tools, core, "bcp.v1.call.>", "bcp.v1.call.>"), func(_ *testing.T, i *issuer) {
				p := i.template(core, "gateway")
				p.Pub.Deny = slices.DeleteFunc(p.Pub.Deny, func(s string) bool { return strings.Contains(s, ".call.") })
			})},
		{"a Controller's runs are calls", proof.Effects, "controller-other", mail, "controller-other publishes bcp.v1.run.other.post.all in CONTROLLERS -> stream into TOOLS as bcp.v1.call.mail.send.all",
			way(jwt.Stream, tools, controllers, "bcp.v1.run.other.post.*", "bcp.v1.call.mail.send.*")},
		{"a run is a service of the tools", proof.Effects, "controller-other", mail, "service of TOOLS as bcp.v1.call.mail.send.all",
			all(lacks(controllers, "bcp.v1.run.>"), way(jwt.Service, controllers, tools, "bcp.v1.call.mail.send.*", "bcp.v1.run.other.post.*"))},
		{"a tool calls another", proof.Effects, "tool-files", mail, "tool-files publishes bcp.v1.call.mail.send.desk in TOOLS",
			saysAlone(tools, "tool-files", "bcp.v1.call.mail.send.desk")},
		{"a tool calls itself", proof.Effects, mail, mail, "tool-mail publishes bcp.v1.call.mail.send.desk in TOOLS",
			saysAlone(tools, mail, "bcp.v1.call.mail.send.desk")},
		{"a dispatcher makes another's call", proof.Effects, send, mail + ", as " + read + " does", "publishes bcp.v1.call.mail.send.desk in DISPATCH",
			says(dispatch, read, "bcp.v1.call.mail.send.desk")},
		{"a dispatcher of one kernel calls for all", proof.Effects, post, "more than its call", "publishes bcp.v1.call.mail.send.* in DISPATCH",
			says(dispatch, post, "bcp.v1.call.mail.send.*")},
		{"a dispatcher has no list", proof.Effects, send, "more than its call", "publishes > in DISPATCH",
			func(_ *testing.T, i *issuer) {
				i.template(dispatch, send).Permissions, i.accounts[dispatch].DefaultPermissions = jwt.Permissions{}, jwt.Permissions{}
			}},
		{"dispatchers have each other's calls", proof.Effects, post, "more than its call", "publishes bcp.v1.call.mail.send.desk in DISPATCH",
			func(_ *testing.T, i *issuer) {
				a, b := i.template(dispatch, send), i.template(dispatch, post)
				a.Pub, b.Pub = b.Pub, a.Pub
			}},
		{"a dispatcher in a second account", proof.Effects, send, mail + ", as " + send + " does", "publishes bcp.v1.call.mail.send.desk in ELSEWHERE -> stream into TOOLS",
			func(t *testing.T, i *issuer) {
				i.account(t, "ELSEWHERE")
				i.scope(t, "ELSEWHERE", send).Template = *i.template(dispatch, send)
				way(jwt.Stream, tools, "ELSEWHERE", "bcp.v1.call.mail.send.*", "bcp.v1.call.mail.send.*")(t, i)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := shipped(t, kernels())
			found := c.find(t, i)
			first, last, arrives := found.Way[0], found.Way[len(found.Way)-1], found.Arrives
			w := i.serve(t)
			tool := w.watch(t, last.Account)
			if last.How == "subscribe" {
				tool = w.who(t, last.Account, mail)
			} else { // the way is no further than what may be published
				found.Publish, arrives = literal(last.Subject), literal(last.Subject)
			}
			heard := listen(t, tool, literal(arrives))
			say(t, w.who(t, first.Account, c.from), found.Publish)
			got(t, heard, arrives)
		})
	}
}

// The gateway's user may not call, even where calls of its account would reach tools;
// and keys of a dispatcher that follow each other are one publisher.
//
// covers KER-14
func TestEffectsThatAreNoHoles(t *testing.T) {
	t.Parallel()
	i := shipped(t, kernels())
	way(jwt.Stream, accounts.Tools, core, "bcp.v1.call.>", "bcp.v1.call.>")(t, i)
	send := dispatcher("desk", "mail", "send")
	old := *i.template(accounts.Dispatchers, send)
	i.scope(t, accounts.Dispatchers, send).Template = old
	found := i.prove(t).Of(proof.Effects)
	failIf(t, len(found) != 0, "found %v", found)
}
