package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// service is one file of tools.
type service struct {
	source *source
	object *object
}

func (b *builder) readService(s *source, content []byte) {
	b.file(s, content)
	root := parseYAML(s, unixLines(content), 0)
	if root == nil {
		b.incomplete = true
		return
	}
	o := (&walker{source: s}).object(LevelService, root, "")
	if o.bad {
		b.incomplete = true
		return
	}
	b.services = append(b.services, &service{s, o})
}

// kernels makes the kernels of the mesh: of the agents that have the key, of all tools,
// and of the rules of mesh.yaml.
func (b *builder) kernels(m *bcp.Mesh) {
	if b.incomplete {
		return // what is missing may be what they refer to
	}
	tools, places := b.tools(m)
	rules := b.buildRules(b.meshSource, b.mesh.get("rules").objects, places)
	var kernels []*kernel.Kernel
	for i, a := range b.agents {
		if a.object.has("kernel") {
			if k := b.kernel(m, &m.Agents[i], a, tools, rules, places.clone()); k != nil {
				kernels = append(kernels, k)
				rights := k.Rights()
				for _, r := range a.object.get("kernel").objects[0].get("requires_role").named {
					if rights.Roles == nil {
						rights.Roles = map[bcp.AgentName][]string{}
					}
					rights.Roles[bcp.AgentName(r.name)] = textsIn(r.texts)
				}
				m.Kernels = append(m.Kernels, rights)
			}
		}
	}
	if len(kernels) > 0 {
		m.Compiled = kernels
	}
	for _, s := range b.services {
		if service, ok := b.started(m, s); ok {
			m.Services = append(m.Services, service)
		}
	}
	slices.SortFunc(m.Services, func(x, y bcp.Service) int { return cmp.Compare(x.Name, y.Name) })
}

// started returns a service that the mesh starts. One that no kernel calls has no creds,
// and is not started.
func (b *builder) started(m *bcp.Mesh, s *service) (bcp.Service, bool) {
	service := bcp.Service{File: s.source.path}
	s.object.fill(&service)
	for _, name := range service.Environment {
		if !passable(name) {
			s.source.errorf(s.object.at("environment"), CodeBadValue, "environment", "expected names of variables, of letters, digits and underscores, and none of the mesh's own, which begin with BCPMESH_, got %s", quote(name))
		}
	}
	if len(service.Command) == 0 {
		return service, false
	}
	b.startable(s.source, s.object, service.Command, &service.Sandbox,
		"start it through sudo -u, docker, bwrap or the like; or accept that with `sandbox: none`; or, if it confines itself, say `sandbox: own`")
	called := slices.ContainsFunc(m.Kernels, func(k bcp.KernelRights) bool {
		return slices.ContainsFunc(k.Calls, func(c bcp.CallRight) bool { return c.Service == service.Name })
	})
	if !called {
		s.source.warnf(s.object.at("command"), CodeNoEffect, "command", "no effect: no kernel calls a tool of this service")
	}
	return service, called
}

// passable reports whether a name is that of a variable which a command may be given.
func passable(name string) bool {
	return name != "" && !strings.HasPrefix(name, "BCPMESH_") && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// place is where something is defined that a kernel may find wrong.
type place struct {
	source *source
	position
	path string
}

// places has them by what [kernel.Defect.Where] calls them.
type places map[string]place

func (p places) clone() places {
	c := make(places, len(p))
	for where, at := range p {
		c[where] = at
	}
	return c
}

// tools returns the tools of all services.
func (b *builder) tools(m *bcp.Mesh) ([]kernel.Tool, places) {
	var tools []kernel.Tool
	at, services := places{}, map[string]string{}
	for _, s := range b.services {
		o := s.object
		name := o.get("service").text
		if other := services[name]; other != "" {
			s.source.errorf(o.at("service"), CodeDuplicate, "service", "the service %s is defined in %s already", name, other)
			continue
		}
		if services[name] = s.source.path; isAgent(m, bcp.AgentName(name)) || isPerson(m, bcp.AgentName(name)) {
			s.source.errorf(o.at("service"), CodeKernel, "service", "there is an agent or a person of this name: a tool service is neither")
		}
		for _, t := range o.get("tools").objects {
			tool := buildTool(name, t)
			where := fmt.Sprintf("tool %q", tool.Name)
			if other, again := at[where]; again {
				s.source.errorf(t.at("name"), CodeDuplicate, join(t.path, "name"), "the tool %s is defined in %s already", quote(tool.Name), other.source.path)
				continue
			}
			at[where] = place{s.source, t.at("name"), join(t.path, "name")}
			tools = append(tools, tool)
		}
	}
	return tools, at
}

func buildTool(service string, o *object) kernel.Tool {
	t := kernel.Tool{Service: service, NoEgress: o.has("egress") && !o.get("egress").boolean}
	o.fill(&t)
	subjects := o.texts("result_subjects")
	if word := o.get("result_subjects").word; word != "" {
		subjects = []string{word}
	}
	if slices.Contains(subjects, "user") {
		t.Subjects |= kernel.SubjectUser
	}
	if slices.Contains(subjects, "third_party") {
		t.Subjects |= kernel.ThirdParty
	}
	return t
}

func (b *builder) buildRules(s *source, objects []*object, at places) []kernel.Rule {
	var rules []kernel.Rule
	for _, o := range objects {
		var r kernel.Rule
		o.fill(&r)
		for _, examples := range o.get("examples").objects {
			examples.fill(&r)
		}
		where := fmt.Sprintf("rule %q", r.ID)
		if other, again := at[where]; again {
			s.errorf(o.at("id"), CodeDuplicate, join(o.path, "id"), "there is a rule of this id in %s already", other.source.path)
			continue
		}
		at[where] = place{s, o.at("id"), o.path}
		rules = append(rules, r)
	}
	return rules
}

// kernel makes the kernel of an agent; nil after an error.
func (b *builder) kernel(m *bcp.Mesh, agent *bcp.Agent, a *agent, tools []kernel.Tool, meshRules []kernel.Rule, at places) *kernel.Kernel {
	if a.object.values["kernel"].bad {
		return nil
	}
	o := a.object.get("kernel").objects[0]
	before := len(b.report.Errors)
	b.checkSeat(m, agent, a)
	d := kernel.Definition{
		Name: agent.Name, Requesters: map[bcp.AgentName][]string{}, Grants: map[string][]kernel.Capability{}, GrantControl: map[string]int{},
		MeshRules: meshRules, Approvers: m.Approvers,
	}
	(&object{level: LevelLimits}).fill(&d.Limits) // their defaults
	o.fill(&d)
	b.checkApprovers(m, a.source, o)
	for where, key := range map[string]string{"name": "name", "planner": "planner", "sub_planner": "sub_planner", "limits": "limits", "rules": "rules", "tools": "kernel", "result": "result"} {
		at[where] = place{a.source, o.at(key), join(o.path, key)}
	}
	for _, g := range o.get("grant_limits").named {
		if at[fmt.Sprintf("limits of grant %q", g.name)] = (place{a.source, g.position, g.path}); g.object != nil {
			d.GrantControl[g.name] = int(g.object.get("control_budget_bits").number)
		}
	}
	for _, g := range o.get("grants").named {
		d.Grants[g.name] = convert[kernel.Capability](textsIn(g.texts))
		at[fmt.Sprintf("grant %q", g.name)] = place{a.source, g.position, g.path}
	}
	for _, r := range o.get("requesters").named {
		name := bcp.AgentName(r.name)
		d.Requesters[name] = textsIn(r.texts)
		at[fmt.Sprintf("requester %q", name)] = place{a.source, r.position, r.path}
		b.checkRequester(m, agent, a, r)
	}
	b.checkPlanner(m, d.Planner, a, o)
	if d.SubPlanner != "" {
		b.checkSubPlanner(m, d.SubPlanner, a, o)
	}
	for _, g := range o.get("grants").named {
		for _, e := range g.texts {
			if !slices.ContainsFunc(tools, func(t kernel.Tool) bool { return slices.Contains(t.RequiredCaps, kernel.Capability(e.text)) }) {
				a.source.warnf(e.position, CodeKernel, g.path, "no tool needs the capability %q: is it misspelt?", e.text)
			}
		}
	}
	d.Tools = grantedTools(tools, d.Grants)
	d.Rules = b.buildRules(a.source, o.get("rules").objects, at)
	// A rule for all kernels says nothing about one that has not its tool.
	d.MeshRules = slices.DeleteFunc(slices.Clone(meshRules), func(r kernel.Rule) bool {
		return r.Tool != kernel.AnyTool && !slices.ContainsFunc(d.Tools, func(t kernel.Tool) bool { return t.Name == r.Tool }) &&
			slices.ContainsFunc(tools, func(t kernel.Tool) bool { return t.Name == r.Tool })
	})
	for _, s := range o.get("schemas").named {
		at[fmt.Sprintf("schema %q", s.name)] = place{a.source, s.position, s.path}
		if schema, ok := b.buildParse(m, a, s); ok {
			d.Schemas = append(d.Schemas, schema)
		}
	}
	for _, t := range o.get("results").named {
		at[fmt.Sprintf("result %q", t.name)] = place{a.source, t.position, t.path}
	}
	d.Results = b.buildResults(m, a, o)
	k, defects := kernel.New(d)
	for _, defect := range defects {
		p, known := at[defect.Where]
		if !known {
			p = place{a.source, o.position, "kernel"}
		}
		p.source.errorf(p.position, CodeKernel, p.path, "%s: %s", defect.Where, defect.Message)
	}
	if len(b.report.Errors) > before {
		return nil
	}
	if len(d.Approvers) == 0 && asks(&d) {
		a.source.warnf(o.position, CodeNoApprovers, "kernel", "nobody can decide about a call that waits for a person: mesh.yaml names no approvers")
	}
	adviseRules(a, o, &d)
	return k
}

// adviseRules says which critical arguments no rule compares with the task, and which
// tools name none although content may flow into them.
func adviseRules(a *agent, o *object, d *kernel.Definition) {
	for i := range d.Tools {
		t := &d.Tools[i]
		if t.Level != kernel.Write {
			continue
		}
		critical := false
		for _, f := range t.Input.Fields {
			if !f.Type.Critical {
				continue
			}
			critical = true
			ask := "task.mentions(args." + f.Name + ")"
			if !slices.ContainsFunc(d.Rules, func(r kernel.Rule) bool {
				return strings.Contains(r.When, ask) && (r.Tool == t.Name || r.Tool == kernel.AnyTool)
			}) {
				a.source.warnf(o.at("rules"), CodeAdviceMentions, join(o.path, "rules"),
					"no rule asks whether the critical argument %s of %s stands in the requester's own words: a rule that declassifies may%swhen: %s", f.Name, t.Name, InsteadWrite, ask)
			}
		}
		flows := func(s kernel.Tool) bool {
			return len(s.Readers) > 0 && kernel.NewGrant(s.Readers...).HoldsAll(t.RequiredCaps)
		}
		if from := slices.IndexFunc(d.Tools, flows); !critical && from >= 0 {
			a.source.warnf(o.position, CodeKernel, "kernel", "what %s returns may flow into every argument of %s, also into one that decides who gets it: mark those with critical: true", d.Tools[from].Name, t.Name)
		}
	}
}

// asks reports whether a call of a kernel can wait for a person.
func asks(d *kernel.Definition) bool {
	return slices.ContainsFunc(d.Rules, func(r kernel.Rule) bool { return r.Effect == kernel.Ask }) ||
		slices.ContainsFunc(d.Tools, func(t kernel.Tool) bool {
			return t.Idempotency == kernel.Once || t.Idempotency == 0 && t.Level == kernel.Write
		})
}

// grantedTools returns the tools that some grant allows to call: a kernel has no way to
// others.
func grantedTools(tools []kernel.Tool, grants map[string][]kernel.Capability) []kernel.Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t kernel.Tool) bool {
		for _, capabilities := range grants {
			if kernel.NewGrant(capabilities...).HoldsAll(t.RequiredCaps) {
				return false
			}
		}
		return true
	})
}

// buildParse returns a schema of a kernel: what it may ask a Reader of its channels.
func (b *builder) buildParse(m *bcp.Mesh, a *agent, s named) (kernel.Schema, bool) {
	if s.object == nil || s.object.bad {
		return kernel.Schema{}, false
	}
	o := s.object
	schema := kernel.Schema{Name: s.name, Reader: bcp.AgentName(o.get("reader").text), Spec: buildSpec(o)}
	i := slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Controller == a.name() && c.Reader == schema.Reader })
	if i < 0 {
		a.source.errorf(o.at("reader"), CodeKernel, join(o.path, "reader"), "the kernel has no channel to %s: both need an entry in bcp_channels", schema.Reader)
		return kernel.Schema{}, false
	}
	ch := &m.Channels[i]
	if schema.Spec.Category > ch.MaxCategory {
		a.source.errorf(o.at("category"), CodeAboveCategory, join(o.path, "category"), "expected at most %d, the smaller max_category of both ends of the channel", ch.MaxCategory)
		return kernel.Schema{}, false
	}
	schema.Settings = ch.Settings(m, nil, constraint.Compile)
	return schema, true
}

// results gives the channel of a requester to its kernel the one subscription that it has.
func (b *builder) results(m *bcp.Mesh, c, r *end, ch *bcp.Channel) {
	if !r.agent.object.has("kernel") || r.agent.object.values["kernel"].bad {
		return
	}
	o := r.agent.object.get("kernel").objects[0]
	switch {
	case !o.has("result") && !o.has("results"):
		r.errorf("role", CodeKernel, "a kernel answers no queries: with the key result it tells requesters what their runs came to")
	case !slices.ContainsFunc(o.get("requesters").named, func(n named) bool { return n.name == string(ch.Controller) }):
		r.errorf("peer", CodeKernel, "%s is no requester: it has no runs to hear of", ch.Controller)
	case c.object.has("subscriptions"):
		c.errorf("subscriptions", CodeKernel, "a kernel says nothing but the result that its definition declares")
	default:
		types := resultTypes(o)
		for _, t := range types {
			if t.object == nil || t.object.bad {
				continue
			}
			spec := buildSpec(t.object)
			if spec.Category > ch.MaxCategory {
				c.errorf("max_category", CodeAboveCategory, "the result of %s is of category %d, and the smaller max_category of both ends is %d", ch.Reader, spec.Category, ch.MaxCategory)
				continue
			}
			sub := bcp.Subscription{ID: bcp.SubscriptionID(t.name), Spec: spec}
			ch.Subscriptions = append(ch.Subscriptions, sub)
			b.checkSubscription(m, r, t.object, *ch, sub, len(types))
		}
	}
}

// resultTypes are what a kernel may say of its runs, by the names of subscriptions.
func resultTypes(o *object) []named {
	if o.has("result") {
		return []named{{name: string(bcp.ResultSubscription), object: o.get("result").objects[0]}}
	}
	return o.get("results").named
}

// buildResults are what a kernel may say of its runs; the only one has no name.
func (b *builder) buildResults(m *bcp.Mesh, a *agent, o *object) (results []kernel.Schema) {
	key := "results"
	switch {
	case o.has("result") && o.has(key):
		a.source.errorf(o.at(key), CodeKernel, join(o.path, key), "a kernel has one result, or several results that plans name")
	case o.has("result"):
		key = "result"
	case !o.has(key):
		return nil
	}
	i := slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Reader == a.name() && len(c.Subscriptions) > 0 })
	if i < 0 {
		if !b.incomplete {
			a.source.warnf(o.at(key), CodeNoEffect, join(o.path, key), "no effect: no requester has a channel to the kernel, with role controller there and reader here")
		}
		return nil
	}
	ch := &m.Channels[i]
	for _, sub := range ch.Subscriptions {
		results = append(results, kernel.Schema{Name: string(sub.ID), Reader: a.name(), Spec: sub.Spec, Settings: ch.Settings(m, nil, constraint.Compile)})
	}
	if key == "result" {
		results[0].Name = ""
	}
	return results
}

// checkSeat refuses what would run a kernel: it is a part of the gateway.
func (b *builder) checkSeat(m *bcp.Mesh, agent *bcp.Agent, a *agent) {
	for _, key := range []string{"command", "model", "tools", "network", "cron_schedules", "share_queries", "base_taint"} {
		if a.object.has(key) {
			a.source.errorf(a.object.at(key), CodeKernel, key, "a kernel is a part of the gateway: it has no %s", key)
		}
	}
}

// checkPlanner refuses a planner that may have seen content (K8, DUAL-11).
func (b *builder) checkPlanner(m *bcp.Mesh, planner bcp.AgentName, a *agent, o *object) {
	b.checkPlans(m, planner, a, o, "planner", "a planner has no channels and starts no runs: it may never see what a Reader says")
}

// checkSubPlanner refuses a sub-planner that could pass on what it reads in another way
// than by its plans, whose values are as tainted as that (K8, DUAL-11).
func (b *builder) checkSubPlanner(m *bcp.Mesh, sub bcp.AgentName, a *agent, o *object) {
	if b.plans(sub, "planner") {
		a.source.errorf(o.at("sub_planner"), CodeKernel, join(o.path, "sub_planner"), "a planner sees no content, and a sub-planner reads it: name another agent")
		return
	}
	b.checkPlans(m, sub, a, o, "sub_planner", "a sub-planner has no channels and starts no runs: what it reads leaves it by its plans alone")
	for i := range m.Agents {
		if x := &m.Agents[i]; x.Name == sub && x.Execution.Role != string(contract.Processor) {
			a.source.errorf(o.at("sub_planner"), CodeKernel, join(o.path, "sub_planner"), "the definition of %s does not say that it reads content: it needs execution: {role: processor}", sub)
		}
	}
}

// checkPlans refuses whom a kernel cannot ask for plans.
func (b *builder) checkPlans(m *bcp.Mesh, who bcp.AgentName, a *agent, o *object, key, channels string) {
	message := ""
	switch i, known := slices.BinarySearchFunc(m.Agents, who, func(x bcp.Agent, name bcp.AgentName) int { return cmp.Compare(x.Name, name) }); {
	case isPerson(m, who):
		message = "a person plans nothing here"
	case known && (m.Agents[i].Controller || m.Agents[i].Reader):
		message = channels
	case slices.ContainsFunc(b.services, func(s *service) bool { return s.object.get("service").text == string(who) }):
		message = "a tool service plans nothing"
	}
	if message != "" {
		a.source.errorf(o.at(key), CodeKernel, join(o.path, key), "%s", message)
	}
}

// checkRequester refuses who cannot start runs, and lets others be Controllers.
func (b *builder) checkRequester(m *bcp.Mesh, of *bcp.Agent, a *agent, r named) {
	i, known := slices.BinarySearchFunc(m.Agents, bcp.AgentName(r.name), func(x bcp.Agent, name bcp.AgentName) int { return cmp.Compare(x.Name, name) })
	switch {
	case !known:
		a.source.errorf(r.position, CodeKernel, r.path, "expected an agent, got %s%s", quote(r.name), didYouMean(r.name, b.names()))
	case m.Agents[i].Name == of.Name || b.agents[i].object.has("kernel"):
		a.source.errorf(r.position, CodeKernel, r.path, "a kernel starts no runs")
	case m.Agents[i].Reader && !m.Agents[i].Controller:
		a.source.errorf(r.position, CodeKernel, r.path, "%s is a Reader: content would start runs with these grants", r.name)
	default:
		m.Agents[i].Controller = true
	}
}

func isAgent(m *bcp.Mesh, name bcp.AgentName) bool {
	_, ok := m.Agent(name)
	return ok
}

func isPerson(m *bcp.Mesh, name bcp.AgentName) bool {
	return name == bcp.Operator || slices.Contains(m.Approvers, name) || slices.Contains(m.Auditors, name)
}
