package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

const (
	kernelHead = `name: desk
bcp_channels:
- {peer: mailer, role: controller, max_category: 2, budget_bits: 100}
kernel:
  planner: ann
  requesters: {main: [read, all]}
  grants: {read: [mail.read], all: [mail.read, mail.send]}
  schemas:
    Mood: {reader: mailer, category: 1, fields: [{name: angry, type: boolean}]}
  limits: {max_effects: 3, run_ttl: 1m}
  rules:
  - id: to-kim
    effect: declassify
    tool: send
    when: args.to.value == "kim"
    examples: {yes: [{args: {to: kim}}], no: [{args: {to: ann}}]}
`
	mailTools = `service: mail
tools:
- name: look
  effect_level: read
  required_caps: [mail.read]
  input_schema: {type: object}
  output_schema: {type: object, properties: {body: {type: string}}}
  result_subjects: third_party
- name: send
  effect_level: write
  required_caps: [mail.send]
  idempotency: key
  timeout: 5s
  input_schema: {type: object, properties: {to: {type: string}, body: {type: string}}}
  output_schema: {type: boolean}
- name: wipe
  effect_level: write
  required_caps: [mail.wipe]
  input_schema: {type: object}
  output_schema: {type: boolean}
`
	meshRules = `rules:
- id: no-wipe
  effect: forbid
  tool: wipe
  when: "true"
  examples: {yes: [{}], no: [{}]}
`
)

func kernelFolder(changes ...string) fstest.MapFS {
	folder := map[string]string{
		"mesh.yaml":        "approvers: [kim]\n",
		"agents/main.md":   "---\nname: main\n---\n",
		"agents/mailer.md": "---\nname: mailer\nbcp_channels:\n- {peer: desk, role: reader}\n---\n",
		"agents/desk.md":   kernelHead,
		"tools/mail.yaml":  mailTools,
	}
	for i := 0; i+2 < len(changes); i += 3 {
		folder[changes[i]] = strings.Replace(folder[changes[i]], changes[i+1], changes[i+2], 1)
	}
	folder["agents/desk.md"] = "---\n" + folder["agents/desk.md"] + "---\n"
	files := fstest.MapFS{}
	for name, text := range folder {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// A kernel is what its definition says: with the tools that its grants can call and no
// others, and rights at the server for exactly those.
//
// covers DUAL-14, KER-26, KER-79
func TestKernelOfAMesh(t *testing.T) {
	t.Parallel()
	mesh, report := definition.Load(kernelFolder())
	stopIf(t, mesh == nil, "%v", report)
	k := kernel.OfMesh(mesh)[0]
	stopIf(t, k == nil, "there is no kernel desk")
	d := k.Definition()
	want := kernel.DefaultLimits()
	want.MaxEffects, want.RunTTL = 3, 60e9
	expect(t, d.Limits, want, "limits")
	names := k.Catalogue(kernel.NewGrant("mail.read", "mail.send", "mail.wipe"))
	failIf(t, !slices.Equal(names, []string{"look", "send"}), "the kernel has %v, and its grants can call look and send", names)
	wantRights := bcp.KernelRights{Kernel: "desk", Planner: "ann", Processors: []bcp.AgentName{"mailer"}, Approvers: []bcp.AgentName{"kim"},
		Runs:  []bcp.RunRight{{Requester: "main", Grant: "read"}, {Requester: "main", Grant: "all"}},
		Calls: []bcp.CallRight{{Service: "mail", Tool: "look"}, {Service: "mail", Tool: "send"}}}
	failIf(t, len(mesh.Kernels) != 1 || fmt.Sprint(mesh.Kernels[0]) != fmt.Sprint(wantRights), "rights are %+v", mesh.Kernels)
	main, _ := mesh.Agent("main")
	failIf(t, !main.Controller, "a requester without channels is no Controller")
	send := d.Tools[1]
	failIf(t, send.Name != "send" || send.Level != kernel.Write || send.Idempotency != kernel.ByKey || send.Timeout != 5e9 || send.Service != "mail",
		"got %+v", send)
	look := d.Tools[0]
	failIf(t, look.Subjects != kernel.ThirdParty || look.Timeout != kernel.DefaultToolTimeout, "got %+v", look)
}

// A rule of mesh.yaml holds in each kernel that has its tool, before the kernel's own.
//
// covers DUAL-98, DUAL-100
func TestRulesOfAMesh(t *testing.T) {
	t.Parallel()
	forbid := "rules:\n- {id: not-ann, effect: forbid, tool: send, when: args.to.value == \"ann\", examples: {yes: [{args: {to: ann}}], no: [{args: {to: kim}}]}}\n"
	mesh, report := definition.Load(kernelFolder("mesh.yaml", "approvers", forbid+"approvers"))
	stopIf(t, mesh == nil, "%v", report)
	k := kernel.OfMesh(mesh)[0]
	plan := func(to string) kernel.Ruling {
		checked, fault := k.ReadPlan(fmt.Appendf(nil, `{"steps":[{"kind":"tool","id":"s","tool":"send","args":{"to":%q,"body":"x"}}],"final":"s"}`, to),
			kernel.Frame{Grant: kernel.NewGrant("mail.send"), Query: kernel.Trusted()})
		stopIf(t, fault.Code != "", "%v", fault)
		return checked.Preflight()[0].Verdict.Ruling
	}
	ann, kim := plan("ann"), plan("kim")
	failIf(t, ann != kernel.Deny || kim != kernel.Allow, "a mail to ann is judged %v, to kim %v", ann, kim)
}

// A mesh that lost the tools of a kernel does not load.
func TestKernelWithoutItsTools(t *testing.T) {
	t.Parallel()
	folder := kernelFolder()
	delete(folder, "tools/mail.yaml")
	mesh, report := definition.Load(folder)
	failIf(t, mesh != nil || !strings.Contains(fmt.Sprint(report.Errors), "there is no tool"), "got %v", report)
}

// What Controllers may hear of runs is a subscription of theirs, which they cannot
// declare themselves; and only requesters hear anything.
//
// covers DUAL-109
func TestResultOfAKernel(t *testing.T) {
	t.Parallel()
	const (
		main  = "agents/main.md"
		desk  = "agents/desk.md"
		hears = "name: main\nbcp_channels:\n- {peer: desk, role: controller, max_category: 1, budget_bits: 9}\n"
	)
	mesh, report := definition.Load(kernelFolder(main, "name: main\n", hears, desk, "bcp_channels:\n", "bcp_channels:\n- {peer: main, role: reader}\n",
		desk, "kernel:\n", "kernel:\n  result: {category: 1, fields: [{name: angry, type: boolean}]}\n"))
	stopIf(t, mesh == nil, "%v", report.Errors)
	ch, ok := mesh.Channel(bcp.ChannelKey{Controller: "main", Reader: "desk"})
	failIf(t, !ok || len(ch.Subscriptions) != 1 || ch.Subscriptions[0].ID != bcp.ResultSubscription || ch.Subscriptions[0].Spec.Fields[0].Name != "angry",
		"the channel is %+v", ch)
	agent, _ := mesh.Agent("desk")
	failIf(t, agent.BaseTaint != bcp.TaintHigh, "a kernel that tells has the taint %s", agent.BaseTaint)
	k := kernel.OfMesh(mesh)[0]
	failIf(t, k.Definition().Result == nil, "the kernel does not know of the result")
}
