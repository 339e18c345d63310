package definition_test

import (
	"fmt"
	"maps"
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

// What is wrong with a kernel, its tools and its rules is said where it stands.
//
// covers KER-79, KER-80, KER-81, KER-26, DUAL-11
func TestWrongKernels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, old, new string
		at, want       string
	}{
		{"agents/desk.md", "planner: ann", "planner: main", "kernel.planner", "starts no runs"},
		{"agents/desk.md", "planner: ann", "planner: mailer", "kernel.planner", "never see"},
		{"agents/desk.md", "planner: ann", "planner: kim", "kernel.planner", "person"},
		{"agents/desk.md", "planner: ann", "planner: mail", "kernel.planner", "tool service"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: paul", "", ""},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: ann", "kernel.sub_planner", "sees no content"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: main", "kernel.sub_planner", "no channels"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: mailer", "kernel.sub_planner", "no channels"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: kim", "kernel.sub_planner", "person"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: mail", "kernel.sub_planner", "tool service"},
		{"agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: A b", "kernel.sub_planner", "name"},
		{"agents/desk.md", "{main: [read, all]}", "{main: [none]}", "kernel.requesters.main", "no grant"},
		{"agents/desk.md", "{main: [read, all]}", "{nobody: [all]}", "kernel.requesters.nobody", "expected an agent"},
		{"agents/desk.md", "{main: [read, all]}", "{desk: [all]}", "kernel.requesters.desk", "kernel starts no runs"},
		{"agents/desk.md", "{main: [read, all]}", "{mailer: [all]}", "kernel.requesters.mailer", "is a Reader"},
		{"agents/desk.md", "read: [mail.read]", "read: [Mail.Read]", "kernel.grants.read", "capability"},
		{"agents/desk.md", "reader: mailer", "reader: other", "kernel.schemas.Mood.reader", "no channel"},
		{"agents/desk.md", "max_category: 2", "max_category: 1", "", ""},
		{"agents/desk.md", "max_category: 2", "max_category: 2, base_category: 2", "", ""},
		{"agents/desk.md", "max_category: 2", "max_category: 2, base_category: 1", "bcp_channels[0].base_category", "justifies no escalation"},
		{"agents/desk.md", "category: 1, fields: [{name: angry, type: boolean}]", "category: 1, fields: [{name: angry, type: enum}]", "kernel.schemas.Mood", "values"},
		{"agents/desk.md", "category: 1, fields", "category: 3, fields", "kernel.schemas.Mood.category", "1 to 2"},
		{"agents/desk.md", "tool: send", "tool: wipe", "kernel.rules[0]", "no tool"},
		{"agents/desk.md", `== "kim"`, `== 7`, "kernel.rules[0]", "for tool"},
		{"agents/desk.md", "no: [{args: {to: ann}}]", "no: [{args: {to: kim}}]", "kernel.rules[0]", "example 1 of no"},
		{"agents/desk.md", "yes: [{args: {to: kim}}], ", "", "kernel.rules[0].examples.yes", "needs this key"},
		{"agents/desk.md", "yes: [{args: {to: kim}}]", "yes: [{args: {to: {label: 7}}}]", "kernel.rules[0].examples.yes[0]", "expected a call"},
		{"agents/desk.md", "effect: declassify", "effect: declassify\n    reads: data", "kernel.rules[0]", "decides by labels"},
		{"agents/desk.md", "kernel:\n", "command: [cat]\nsandbox: none\nkernel:\n", "command", "part of the gateway"},
		{"agents/desk.md", "kernel:\n", "kernel:\n  result: {category: 1, fields: [{name: angry, type: enum}]}\n", "", ""}, // nobody hears it
		{"agents/desk.md", "name: desk\n", "name: desk\nmodel: x/y\n", "model", "part of the gateway"},
		{"mesh.yaml", "approvers: [kim]\n", meshRules, "", ""}, // a rule about a tool that no kernel has is nobody's
		{"mesh.yaml", "approvers: [kim]\n", "rules: [{id: x, effect: ask, tool: send, when: 'true', examples: {yes: [{}], no: [{}]}}]\n", "rules[0]", "forbids"},
		{"mesh.yaml", "approvers: [kim]\n", "rules: [{id: to-kim, effect: forbid, tool: send, when: 'true', examples: {yes: [{}], no: [{}]}}]\n", "kernel.rules[0].id", "in mesh.yaml"},
		{"tools/mail.yaml", "service: mail", "service: main", "service", "an agent or a person"},
		{"tools/mail.yaml", "service: mail", "service: mail\nenvironment: [A=b]", "environment[0]", "the name of a variable"},
		{"tools/mail.yaml", "service: mail", "service: mail\nenvironment: [BCPMESH_KEY]", "environment[0]", "mesh's own"},
		{"tools/mail.yaml", "service: mail", "service: mail\nenvironment: [GITHUB_TOKEN]", "", ""},
		{"tools/mail.yaml", "service: mail", "service: kim", "service", "an agent or a person"},
		{"tools/mail.yaml", "name: send", "name: look", "tools[1].name", "defined in tools/mail.yaml"},
		{"tools/mail.yaml", "  required_caps: [mail.send]\n", "", "tools[1].name", "needs a capability"},
		{"tools/mail.yaml", "output_schema: {type: boolean}", "output_schema: {type: any}", "tools[1].output_schema", "closed type"},
		{"tools/mail.yaml", "input_schema: {type: object}", "input_schema: {type: boolean}", "tools[0].name", "input_schema is an object"},
		{"tools/mail.yaml", "effect_level: read", "effect_level: none", "tools[0].effect_level", "pure, read, write"},
		{"tools/mail.yaml", "name: send", "name: send-mail", "tools[1].name", "letters, digits and underscores"},
	} {
		mesh, report := definition.Load(kernelFolder(c.file, c.old, c.new))
		if c.at == "" {
			failIf(t, mesh == nil, "%s: %v", c.new, report.Errors)
			continue
		}
		if mesh != nil || !slices.ContainsFunc(report.Errors, func(p definition.Problem) bool {
			// What an edit of another file makes wrong with a kernel is said at the kernel.
			return (p.File == c.file || p.File == "agents/desk.md") && p.Key == c.at && strings.Contains(p.Message, c.want) && p.Line > 0
		}) {
			t.Errorf("%s: want %q at %s, got %v", c.new, c.want, c.at, report.Errors)
		}
	}
}

// A kernel is edited as anything else: a mesh that lost its tools does not load.
func TestKernelWithoutItsTools(t *testing.T) {
	t.Parallel()
	folder := kernelFolder()
	delete(folder, "tools/mail.yaml")
	mesh, report := definition.Load(folder)
	failIf(t, mesh != nil || !strings.Contains(fmt.Sprint(report.Errors), "there is no tool"), "got %v", report)
	other := maps.Clone(kernelFolder())
	other["tools/more.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(mailTools, "service: mail", "service: post", 1))}
	if mesh, report := definition.Load(other); mesh != nil || !strings.Contains(fmt.Sprint(report.Errors), "defined in tools/mail.yaml already") {
		t.Errorf("two services may have a tool of one name: %v", report)
	}
}

// A capability that no tool needs is misspelt.
func TestCapabilityOfNoTool(t *testing.T) {
	t.Parallel()
	warned := func(folder fstest.MapFS) bool {
		_, report := definition.Load(folder)
		return slices.ContainsFunc(report.Warnings, func(p definition.Problem) bool {
			return p.Key == "kernel.grants.read" && strings.Contains(p.Message, `no tool needs the capability "mail.raed"`) && p.Line > 0
		})
	}
	failIf(t, warned(kernelFolder()) || !warned(kernelFolder("agents/desk.md", "read: [mail.read]", "read: [mail.read, mail.raed]")),
		"a misspelt capability is not told from others")
}

// Whoever marks an argument as critical is told of the rule that compares it with the task, until a rule does.
func TestCriticalArgumentWithoutItsRule(t *testing.T) {
	t.Parallel()
	advised := func(folder fstest.MapFS) bool {
		mesh, report := definition.Load(folder)
		return mesh == nil || slices.ContainsFunc(report.Warnings, func(p definition.Problem) bool {
			return p.Code == definition.CodeAdviceMentions && strings.Contains(p.Message, "task.mentions(args.to)")
		})
	}
	critical := []string{"tools/mail.yaml", "to: {type: string}", "to: {type: string, critical: true}"}
	ruled := append(critical, "agents/desk.md", `when: args.to.value == "kim"`, "when: task.mentions(args.to)",
		"agents/desk.md", "yes: [{args: {to: kim}}]", "yes: [{task: write to kim, args: {to: kim}}]")
	failIf(t, advised(kernelFolder()) || !advised(kernelFolder(critical...)) || advised(kernelFolder(ruled...)),
		"the advice does not come, or does not go")
}

// Who plans for one kernel reads no content for another.
//
// covers DUAL-11
func TestPlannerOfAnotherKernelIsNoSubPlanner(t *testing.T) {
	t.Parallel()
	folder := maps.Clone(kernelFolder("agents/desk.md", "planner: ann", "planner: ann\n  sub_planner: bea"))
	shop := strings.NewReplacer("name: desk", "name: shop", "planner: ann", "planner: bea").Replace(string(kernelFolder()["agents/desk.md"].Data))
	folder["agents/shop.md"] = &fstest.MapFile{Data: []byte(shop)}
	folder["agents/mailer.md"] = &fstest.MapFile{Data: []byte(strings.Replace(string(folder["agents/mailer.md"].Data), "bcp_channels:\n", "bcp_channels:\n- {peer: shop, role: reader}\n", 1))}
	mesh, report := definition.Load(folder)
	failIf(t, mesh != nil || len(report.Errors) != 1 || report.Errors[0].Key != "kernel.sub_planner" || !strings.Contains(report.Errors[0].Message, "sees no content"),
		"got %v", report.Errors)
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
	reads := func(changes ...string) fstest.MapFS {
		return kernelFolder(append([]string{main, "name: main\n", hears, desk, "bcp_channels:\n", "bcp_channels:\n- {peer: main, role: reader}\n",
			desk, "kernel:\n", "kernel:\n  result: {category: 1, fields: [{name: angry, type: boolean}]}\n"}, changes...)...)
	}
	mesh, report := definition.Load(reads())
	stopIf(t, mesh == nil, "%v", report.Errors)
	ch, ok := mesh.Channel(bcp.ChannelKey{Controller: "main", Reader: "desk"})
	failIf(t, !ok || len(ch.Subscriptions) != 1 || ch.Subscriptions[0].ID != bcp.ResultSubscription || ch.Subscriptions[0].Spec.Fields[0].Name != "angry",
		"the channel is %+v", ch)
	agent, _ := mesh.Agent("desk")
	failIf(t, agent.BaseTaint != bcp.TaintHigh, "a kernel that tells has the taint %s", agent.BaseTaint)
	k := kernel.OfMesh(mesh)[0]
	failIf(t, k.Definition().Result == nil, "the kernel does not know of the result")
	for _, c := range []struct{ file, old, new, at, want string }{
		{desk, "  result: {category: 1, fields: [{name: angry, type: boolean}]}\n", "", "bcp_channels[0].role", "answers no queries"},
		{desk, "requesters: {main: [read, all]}", "requesters: {ann2: [read]}", "bcp_channels[0].peer", "no requester"},
		{main, "budget_bits: 9}", "budget_bits: 9, subscriptions: [{id: more, category: 1, fields: [{name: a, type: boolean}]}]}", "bcp_channels[0].subscriptions", "nothing but the result"},
		{desk, "result: {category: 1, fields: [{name: angry, type: boolean}]}", "result: {category: 2, questions: [{id: a, question: 'What?', max_words: 2, expected_format: short_text}]}", "bcp_channels[0].max_category", "of category 2"},
		{desk, "type: boolean}]}\n", "type: enum}]}\n", "kernel.result.fields[0]", ""},
	} {
		mesh, report := definition.Load(reads(c.file, c.old, c.new))
		if mesh != nil || !slices.ContainsFunc(report.Errors, func(p definition.Problem) bool {
			return strings.HasPrefix(p.Key, c.at) && strings.Contains(p.Message, c.want)
		}) {
			t.Errorf("%s: want %q at %s, got %v", c.new, c.want, c.at, report.Errors)
		}
	}
}
