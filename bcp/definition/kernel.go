package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

func (b *builder) readService(s *source, content []byte) {
	b.file(s, content)
	root := b.root(s, content, 0)
	if root == nil {
		return
	}
	service := read[serviceForm](s, LevelService, root)
	service.File = s.path
	if service.bad {
		b.incomplete = true
		return
	}
	b.services = append(b.services, service)
}

// kernels makes the kernels of the mesh: of the agents that have the key, of all tools,
// and of the rules of mesh.yaml.
func (b *builder) kernels(m *bcp.Mesh) {
	if b.incomplete {
		return // what is missing may be what they refer to
	}
	tools, places := b.tools(m)
	rules := buildRules(b.mesh.RuleEntries, places)
	var kernels []*kernel.Kernel
	for _, a := range b.agents {
		if !a.written("kernel") {
			continue
		}
		k := b.kernel(m, a, tools, rules, maps.Clone(places))
		if k == nil {
			continue
		}
		kernels = append(kernels, k)
		rights := k.Rights()
		for _, r := range a.Kernel.RoleLists {
			if rights.Roles == nil {
				rights.Roles = map[bcp.AgentName][]string{}
			}
			rights.Roles[bcp.AgentName(r.At.name)] = r.Is
		}
		m.Kernels = append(m.Kernels, rights)
	}
	if len(kernels) > 0 {
		m.Compiled = kernels
	}
	for _, s := range b.services {
		if b.started(m, s) {
			m.Services = append(m.Services, s.Service)
		}
	}
	slices.SortFunc(m.Services, func(x, y bcp.Service) int { return cmp.Compare(x.Name, y.Name) })
}

// started judges a service, and reports whether the mesh starts it. One that no kernel calls has
// no creds, and is not started.
func (b *builder) started(m *bcp.Mesh, s *serviceForm) bool {
	if len(s.Command) == 0 {
		return false
	}
	b.startable(&s.object, s.Command, s.Sandbox)
	called := slices.ContainsFunc(m.Kernels, func(k bcp.KernelRights) bool {
		return slices.ContainsFunc(k.Calls, func(c bcp.CallRight) bool { return c.Service == s.Name })
	})
	if !called {
		s.warnf("command", CodeNoEffect, "no effect: no kernel calls a tool of this service")
	}
	return called
}

// place is where something is defined that a kernel may find wrong.
type place struct {
	source *source
	position
	path string
}

func (o *object) place(key string) place { return place{o.source, o.at(key), join(o.path, key)} }

// places has them by what [kernel.Defect.Where] calls them.
type places map[string]place

// tools returns the tools of all services.
func (b *builder) tools(m *bcp.Mesh) ([]kernel.Tool, places) {
	var tools []kernel.Tool
	at, services := places{}, map[bcp.AgentName]string{}
	for _, s := range b.services {
		if other := services[s.Name]; other != "" {
			s.errorf("service", CodeDuplicate, "the service %s is defined in %s already", s.Name, other)
			continue
		}
		services[s.Name] = s.File
		if _, isAgent := m.Agent(s.Name); isAgent || isPerson(m, s.Name) {
			s.errorf("service", CodeKernel, "there is an agent or a person of this name: a tool service is neither")
		}
		for _, t := range s.ToolEntries {
			where := fmt.Sprintf("tool %q", t.Name)
			if other, again := at[where]; again {
				t.errorf("name", CodeDuplicate, "the tool %s is defined in %s already", quote(t.Name), other.source.path)
				continue
			}
			at[where] = t.place("name")
			t.Service, t.NoEgress = string(s.Name), !t.Egress
			for _, word := range t.SubjectWords {
				t.Subjects |= map[string]kernel.Subjects{"user": kernel.SubjectUser, "third_party": kernel.ThirdParty}[word]
			}
			tools = append(tools, t.Tool)
		}
	}
	return tools, at
}

func buildRules(entries []*ruleForm, at places) []kernel.Rule {
	var rules []kernel.Rule
	for _, r := range entries {
		where := fmt.Sprintf("rule %q", r.ID)
		if other, again := at[where]; again {
			r.errorf("id", CodeDuplicate, "there is a rule of this id in %s already", other.source.path)
			continue
		}
		at[where] = place{r.source, r.at("id"), r.path}
		r.Yes, r.No = r.Examples.Yes, r.Examples.No
		rules = append(rules, r.Rule)
	}
	return rules
}

// kernel makes the kernel of an agent; nil after an error.
func (b *builder) kernel(m *bcp.Mesh, a *agentForm, tools []kernel.Tool, meshRules []kernel.Rule, at places) *kernel.Kernel {
	if !a.has("kernel") {
		return nil
	}
	o := a.Kernel
	before := len(b.report.Errors)
	for _, key := range []string{"command", "model", "tools", "network", "cron_schedules", "share_queries", "base_taint"} {
		if a.has(key) {
			a.errorf(key, CodeKernel, "a kernel is a part of the gateway: it has no %s", key)
		}
	}
	d := o.Definition
	d.Name, d.Requesters, d.Grants, d.GrantControl = a.Name, map[bcp.AgentName][]string{}, map[string][]kernel.Capability{}, map[string]int{}
	b.checkApprovers(m, &o.object, d.Approvers)
	if !o.has("approvers") {
		d.Approvers = m.Approvers
	}
	for where, key := range map[string]string{"name": "name", "planner": "planner", "sub_planner": "sub_planner", "limits": "limits", "rules": "rules", "tools": "kernel", "result": "result"} {
		at[where] = o.place(key)
	}
	named := func(what string, n namedAt) {
		at[fmt.Sprintf(what+" %q", n.name)] = place{a.source, n.position, n.path}
	}
	for _, g := range o.GrantLimits {
		named("limits of grant", g.At)
		d.GrantControl[g.At.name] = g.Is.ControlBits
	}
	for _, g := range o.GrantLists {
		named("grant", g.At)
		for i, text := range g.Is {
			capability := kernel.Capability(text)
			d.Grants[g.At.name] = append(d.Grants[g.At.name], capability)
			if !slices.ContainsFunc(tools, func(t kernel.Tool) bool { return slices.Contains(t.RequiredCaps, capability) }) {
				o.source.warnf(o.at(index("grants."+g.At.name, i)), CodeKernel, g.At.path, "no tool needs the capability %q: is it misspelt?", text)
			}
		}
	}
	for _, r := range o.RequesterLists {
		named("requester", r.At)
		d.Requesters[bcp.AgentName(r.At.name)] = r.Is
		b.checkRequester(m, a, r.At)
	}
	b.checkPlans(m, d.Planner, o, "planner", "a planner has no channels and starts no runs: it may never see what a Reader says") // K8, DUAL-11
	if d.SubPlanner != "" {
		b.checkSubPlanner(m, d.SubPlanner, o)
	}
	d.Tools = grantedTools(tools, d.Grants)
	d.Rules = buildRules(o.RuleEntries, at)
	// A rule for all kernels says nothing about one that has not its tool.
	d.MeshRules = slices.DeleteFunc(slices.Clone(meshRules), func(r kernel.Rule) bool {
		return r.Tool != kernel.AnyTool && !slices.ContainsFunc(d.Tools, func(t kernel.Tool) bool { return t.Name == r.Tool }) &&
			slices.ContainsFunc(tools, func(t kernel.Tool) bool { return t.Name == r.Tool })
	})
	for _, s := range o.SchemaEntries {
		named("schema", s.At)
		if schema, ok := a.buildParse(m, s); ok {
			d.Schemas = append(d.Schemas, schema)
		}
	}
	d.Result = b.buildResult(m, a)
	k, defects := kernel.New(d)
	for _, defect := range defects {
		p, known := at[defect.Where]
		if !known {
			p = place{a.source, positionOf(o.node), "kernel"}
		}
		p.source.errorf(p.position, CodeKernel, p.path, "%s: %s", defect.Where, defect.Message)
	}
	if len(b.report.Errors) > before {
		return nil
	}
	if len(d.Approvers) == 0 && asks(&d) {
		a.warnf("kernel", CodeNoApprovers, "nobody can decide about a call that waits for a person: mesh.yaml names no approvers")
	}
	o.adviseRules(&d)
	return k
}

// adviseRules says which critical arguments no rule compares with the task, and which
// tools name none although content may flow into them.
func (o *kernelForm) adviseRules(d *kernel.Definition) {
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
				o.warnf("rules", CodeAdviceMentions,
					"no rule asks whether the critical argument %s of %s stands in the requester's own words: a rule that declassifies may, with when: %s", f.Name, t.Name, ask)
			}
		}
		if from := slices.IndexFunc(d.Tools, func(s kernel.Tool) bool {
			return len(s.Readers) > 0 && kernel.NewGrant(s.Readers...).HoldsAll(t.RequiredCaps)
		}); from >= 0 && !critical {
			o.warnf("", CodeKernel, "what %s returns may flow into every argument of %s, also into one that decides who gets it: mark those with critical: true", d.Tools[from].Name, t.Name)
		}
	}
}

// asks reports whether a call of a kernel can wait for a person.
func asks(d *kernel.Definition) bool {
	return slices.ContainsFunc(d.Rules, func(r kernel.Rule) bool { return r.Effect == kernel.Ask }) ||
		slices.ContainsFunc(d.Tools, func(t kernel.Tool) bool {
			return t.Idempotency == kernel.Once || t.Idempotency == kernel.ByLevel && t.Level == kernel.Write
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
func (a *agentForm) buildParse(m *bcp.Mesh, s named[*parseForm]) (kernel.Schema, bool) {
	schema := kernel.Schema{Name: s.At.name, Reader: s.Is.Reader, Spec: s.Is.Spec}
	i := slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Controller == a.Name && c.Reader == schema.Reader })
	if i < 0 {
		s.Is.errorf("reader", CodeKernel, "the kernel has no channel to %s: both need an entry in bcp_channels", schema.Reader)
		return kernel.Schema{}, false
	}
	ch := &m.Channels[i]
	if schema.Spec.Category > ch.MaxCategory {
		s.Is.errorf("category", CodeAboveCategory, "expected at most %d, the smaller max_category of both ends of the channel", ch.MaxCategory)
		return kernel.Schema{}, false
	}
	schema.Settings = ch.Settings(m, constraint.Compile)
	return schema, true
}

// results gives the channel of a requester to its kernel the one subscription that it has.
func (b *builder) results(m *bcp.Mesh, c, r *channelForm, ch *bcp.Channel) {
	if !r.agent.has("kernel") {
		return
	}
	o := r.agent.Kernel
	switch {
	case !o.has("result"):
		r.errorf("role", CodeKernel, "a kernel answers no queries: with the key result it tells requesters what their runs came to")
	case !slices.ContainsFunc(o.RequesterLists, func(n named[[]string]) bool { return n.At.name == string(ch.Controller) }):
		r.errorf("peer", CodeKernel, "%s is no requester: it has no runs to hear of", ch.Controller)
	case c.has("subscriptions"):
		c.errorf("subscriptions", CodeKernel, "a kernel says nothing but the result that its definition declares")
	case o.Result.Spec.Category > ch.MaxCategory:
		c.errorf("max_category", CodeAboveCategory, "the result of %s is of category %d, and the smaller max_category of both ends is %d", ch.Reader, o.Result.Spec.Category, ch.MaxCategory)
	default:
		ch.Subscriptions = []bcp.Subscription{{ID: bcp.ResultSubscription, Spec: o.Result.Spec}}
		b.checkSubscription(m, &o.Result.object, *ch, ch.Subscriptions[0], 1)
	}
}

// buildResult is what a kernel may say of its runs.
func (b *builder) buildResult(m *bcp.Mesh, a *agentForm) *kernel.Schema {
	if !a.Kernel.has("result") {
		return nil
	}
	i := slices.IndexFunc(m.Channels, func(c bcp.Channel) bool { return c.Reader == a.Name && len(c.Subscriptions) > 0 })
	if i < 0 {
		if !b.incomplete {
			a.Kernel.warnf("result", CodeNoEffect, "no effect: no requester has a channel to the kernel, with role controller there and reader here")
		}
		return nil
	}
	ch := &m.Channels[i]
	return &kernel.Schema{Reader: a.Name, Spec: ch.Subscriptions[0].Spec, Settings: ch.Settings(m, constraint.Compile)}
}

// checkSubPlanner refuses a sub-planner that could pass on what it reads in another way
// than by its plans, whose values are as tainted as that (K8, DUAL-11).
func (b *builder) checkSubPlanner(m *bcp.Mesh, sub bcp.AgentName, o *kernelForm) {
	if b.plans(sub, "planner") {
		o.errorf("sub_planner", CodeKernel, "a planner sees no content, and a sub-planner reads it: name another agent")
		return
	}
	b.checkPlans(m, sub, o, "sub_planner", "a sub-planner has no channels and starts no runs: what it reads leaves it by its plans alone")
	if x, known := m.Agent(sub); known && x.Execution.Role != string(contract.Processor) {
		o.errorf("sub_planner", CodeKernel, "the definition of %s does not say that it reads content: it needs execution: {role: processor}", sub)
	}
}

// checkPlans refuses whom a kernel cannot ask for plans.
func (b *builder) checkPlans(m *bcp.Mesh, who bcp.AgentName, o *kernelForm, key, channels string) {
	switch x, _ := m.Agent(who); {
	case isPerson(m, who):
		o.errorf(key, CodeKernel, "a person plans nothing here")
	case x.Controller || x.Reader:
		o.errorf(key, CodeKernel, "%s", channels)
	case slices.ContainsFunc(b.services, func(s *serviceForm) bool { return s.Name == who }):
		o.errorf(key, CodeKernel, "a tool service plans nothing")
	}
}

// checkRequester refuses who cannot start runs, and lets others be Controllers.
func (b *builder) checkRequester(m *bcp.Mesh, of *agentForm, r namedAt) {
	refuse := func(format string, args ...any) { of.source.errorf(r.position, CodeKernel, r.path, format, args...) }
	switch i, known := b.find(bcp.AgentName(r.name)); {
	case !known:
		refuse("expected an agent, got %s%s", quote(r.name), didYouMean(r.name, b.names()))
	case m.Agents[i].Name == of.Name || b.agents[i].has("kernel"):
		refuse("a kernel starts no runs")
	case m.Agents[i].Reader && !m.Agents[i].Controller:
		refuse("%s is a Reader: content would start runs with these grants", r.name)
	default:
		m.Agents[i].Controller = true
	}
}

func isPerson(m *bcp.Mesh, name bcp.AgentName) bool {
	return name == bcp.Operator || slices.Contains(m.Approvers, name) || slices.Contains(m.Auditors, name)
}
