package kernel

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Definition is a kernel as its operator defines it.
type Definition struct {
	Name    bcp.AgentName
	Planner bcp.AgentName
	// SubPlanner plans sub-runs; without it a plan has none.
	SubPlanner bcp.AgentName
	// Requesters may start runs, each with the grants named.
	Requesters map[bcp.AgentName][]string
	// Approvers decide about its calls.
	Approvers []bcp.AgentName
	Grants    map[string][]Capability
	// GrantControl are the control bits of grants that have fewer than the kernel's limits.
	GrantControl map[string]int
	Tools        []Tool
	Schemas      []Schema
	// Result is what Controllers may hear of the value of a run; nil is nothing. Its Reader
	// is the kernel.
	Result *Schema
	Limits Limits
	// Rules are those of the kernel; MeshRules, forbid rules alone, hold for every
	// kernel of the mesh.
	Rules     []Rule
	MeshRules []Rule
	// UntestedRules takes rules without examples, and BareWrites tools that write and
	// need no capability: for commands that play cases. A kernel that runs has
	// neither.
	UntestedRules, BareWrites bool
}

// Defect is one thing that is wrong with a definition.
type Defect struct {
	Code    DefectCode
	Where   string // such as "tool send_email" or "rule mail-to-self"
	Message string
}

func (d Defect) String() string { return fmt.Sprintf("%s: %s (%s)", d.Where, d.Message, d.Code) }

// DefectCode is the word for a kind of defect.
type DefectCode string

// The kinds of defects.
const (
	BadName                DefectCode = "bad_name"
	BadCapability          DefectCode = "bad_capability"
	DuplicateTool          DefectCode = "duplicate_tool"
	DuplicateSchema        DefectCode = "duplicate_schema"
	DuplicateRule          DefectCode = "duplicate_rule"
	WriteWithoutCapability DefectCode = "write_without_capability"
	BadType                DefectCode = "bad_type"
	BadSchema              DefectCode = "bad_schema"
	BadLimit               DefectCode = "bad_limit"
	UnknownGrantName       DefectCode = "unknown_grant"
	TooMany                DefectCode = "too_many"
	RuleUnknownTool        DefectCode = "rule_unknown_tool"
	RuleEffectWord         DefectCode = "rule_effect"
	RuleType               DefectCode = "rule_type"
	RuleReadsData          DefectCode = "rule_reads_data"
	RuleExample            DefectCode = "rule_example"
	RuleWithoutExamples    DefectCode = "rule_without_examples"
)

// Kernel is a definition that was checked and compiled. It is immutable and safe for
// concurrent use.
type Kernel struct {
	definition Definition
	tools      map[string]*Tool
	schemas    map[string]*Schema
	grants     map[string]Grant
	names      []string // of tools, sorted
}

// New checks a definition and compiles it. It returns everything that is wrong, and
// no kernel if anything is.
func New(d Definition) (*Kernel, []Defect) {
	k := &Kernel{definition: d, tools: map[string]*Tool{}, schemas: map[string]*Schema{}, grants: map[string]Grant{}}
	l := &loading{kernel: k}
	l.agents()
	l.tools()
	l.schemas()
	l.grants()
	l.limits()
	l.rules()
	l.catalogue()
	if len(l.defects) > 0 {
		return nil, l.defects
	}
	return k, nil
}

// Name returns the kernel's name.
func (k *Kernel) Name() bcp.AgentName { return k.definition.Name }

// Definition returns what the kernel was made of. The caller must not change it.
func (k *Kernel) Definition() *Definition { return &k.definition }

// Gate returns the gate of the kernel.
func (k *Kernel) Gate() Gate { return Gate{k} }

// GrantOf returns what a requester may start a run with under a name.
func (k *Kernel) GrantOf(requester bcp.AgentName, name string) (Grant, bool) {
	if !slices.Contains(k.definition.Requesters[requester], name) {
		return Grant{}, false
	}
	g, ok := k.grants[name]
	return g, ok
}

// LimitsOf are those of a run under a grant.
func (k *Kernel) LimitsOf(grant string) Limits {
	l := k.definition.Limits
	if fewer, limited := k.definition.GrantControl[grant]; limited {
		l.ControlBits = min(l.ControlBits, fewer)
	}
	return l
}

// Tool returns a tool that the grant allows to call, or nil: to who has not the
// grant, a tool is as none.
func (k *Kernel) tool(name string, g Grant) *Tool {
	if t := k.tools[name]; t != nil && g.HoldsAll(t.RequiredCaps) {
		return t
	}
	return nil
}

// loading checks one definition.
type loading struct {
	kernel  *Kernel
	defects []Defect
}

func (l *loading) failf(code DefectCode, where, format string, args ...any) {
	l.defects = append(l.defects, Defect{code, where, fmt.Sprintf(format, args...)})
}

// failIf notes a defect if there is one.
func (l *loading) failIf(wrong bool, code DefectCode, where, format string, args ...any) {
	if wrong {
		l.failf(code, where, format, args...)
	}
}

// capabilityForm says how capabilities are spelled.
const capabilityForm = "a capability is 1 to 63 of a-z, 0-9, dot, hyphen and underscore, and begins with a letter or digit"

// inOrder iterates by key: the same definition has the same defects, in the same order.
func inOrder[K ~string, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func (l *loading) agents() {
	d := &l.kernel.definition
	for where, name := range inOrder(map[string]bcp.AgentName{"name": d.Name, "planner": d.Planner, "sub_planner": d.SubPlanner}) {
		_, err := bcp.ParseAgentName(string(name))
		l.failIf(err != nil && (name != "" || where != "sub_planner"), BadName, where, "%v", err)
	}
}

func (l *loading) tools() {
	d := &l.kernel.definition
	d.Tools = slices.Clone(d.Tools)
	l.failIf(len(d.Tools) > MaxTools, TooMany, "tools", "expected at most %d", MaxTools)
	for i := range d.Tools {
		t := &d.Tools[i]
		where := fmt.Sprintf("tool %q", t.Name)
		if l.kernel.tools[t.Name] != nil {
			l.failf(DuplicateTool, where, "another tool has this name")
			continue
		}
		l.failIf(!isName(t.Name), BadName, where, "a name is 1 to %d letters, digits and underscores, and begins with no digit", maxNameBytes)
		for _, c := range slices.Concat(t.RequiredCaps, t.Readers) {
			person := isEmail(string(c)) && slices.Contains(t.Readers, c)
			l.failIf(!c.Valid() && !person, BadCapability, where, capabilityForm)
		}
		l.failIf(!slices.Contains([]EffectLevel{Pure, Read, Write}, t.Level), BadType, where, "effect_level is pure, read or write")
		l.failIf(t.Level == Write && len(t.RequiredCaps) == 0 && !d.BareWrites, WriteWithoutCapability, where, "a tool that writes needs a capability")
		l.failIf(t.Subjects&^(SubjectUser|ThirdParty) != 0, BadType, where, "result_subjects are user and third_party")
		l.failIf(!slices.Contains([]Idempotency{ByLevel, Free, ByKey, Once}, t.Idempotency), BadType, where, "idempotency is free, key or none")
		l.failIf(t.Timeout < 0, BadLimit, where, "timeout is a duration such as 30s")
		l.failIf(len(t.Description) > maxDescription, TooMany, where, "a description has at most %d bytes", maxDescription)
		l.toolTypes(t, where)
		l.kernel.tools[t.Name] = t
		l.kernel.names = append(l.kernel.names, t.Name)
	}
	slices.Sort(l.kernel.names)
}

func (l *loading) toolTypes(t *Tool, where string) {
	if t.Wrong != nil {
		l.failf(BadType, where, "%v", t.Wrong)
	} else if t.Input == nil || t.Input.Kind != ObjectType || t.Input.Nullable || t.Output == nil {
		l.failf(BadType, where, "input_schema is an object, and there is an output_schema")
	}
	if t.Input == nil || t.Input.Kind != ObjectType || t.Output == nil {
		t.Input, t.Output = &Type{Kind: ObjectType}, &Type{}
	}
	for i := range t.Input.Fields {
		l.failIf(!isName(t.Input.Fields[i].Name), BadName, where, "an argument is 1 to %d letters, digits and underscores, and begins with no digit", maxNameBytes)
		for _, inner := range t.Input.Fields[i].Type.parts() {
			l.failIf(inner.marked() && !t.Input.Fields[i].Type.takesSealed() || inner.Critical, BadType, where,
				"critical is a mark of a whole argument, and accepts of it or of its elements: set them at %q", t.Input.Fields[i].Name)
		}
	}
	l.failIf(t.Input.Critical || t.Output.marked(), BadType, where, "critical and accepts are marks of an argument")
	l.failIf(t.Input.sealed(), BadType, where, "what is sealed comes out of a tool: an argument that takes it is a string with accepts: sealed")
	t.Input, t.Output = t.Input.settled(), t.Output.settled()
	t.facts, t.rules = toolFacts(t), map[RuleEffect][]compiledRule{}
}

// parts are the types that a type is made of.
func (t *Type) parts() []*Type {
	var parts []*Type
	if t != nil && t.Items != nil {
		parts = append(parts, t.Items)
	}
	for i := 0; t != nil && i < len(t.Fields); i++ {
		parts = append(parts, t.Fields[i].Type)
	}
	return parts
}

// marked reports whether a type, or a part of it, has a mark of arguments.
func (t *Type) marked() bool {
	return t != nil && (t.Critical || t.Accepts || slices.ContainsFunc(t.parts(), (*Type).marked))
}

func (l *loading) schemas() {
	d := &l.kernel.definition
	d.Schemas = slices.Clone(d.Schemas)
	l.failIf(len(d.Schemas) > MaxSchemas, TooMany, "schemas", "expected at most %d", MaxSchemas)
	for i := range d.Schemas {
		s := &d.Schemas[i]
		where := fmt.Sprintf("schema %q", s.Name)
		if l.kernel.schemas[s.Name] != nil {
			l.failf(DuplicateSchema, where, "another schema has this name")
			continue
		}
		l.failIf(!IsStepID(s.Name), BadName, where, "a name is 1 to %d letters, digits, hyphens and underscores", maxNameBytes)
		_, err := bcp.ParseAgentName(string(s.Reader))
		l.failIf(err != nil, BadName, where, "%v", err)
		err = s.prepare(true)
		l.failIf(err != nil, BadSchema, where, "%v", err)
		s.told.add("name", Text(s.Name))
		l.kernel.schemas[s.Name] = s
	}
	if d.Result != nil {
		d.Result = new(*d.Result)
		err := d.Result.prepare(false)
		l.failIf(err != nil, BadSchema, "result", "%v", err)
	}
}

func (l *loading) grants() {
	d := &l.kernel.definition
	for name, capabilities := range inOrder(d.Grants) {
		l.failIf(!IsStepID(name), BadName, fmt.Sprintf("grant %q", name), "a name is 1 to %d letters, digits, hyphens and underscores", maxNameBytes)
		for _, c := range capabilities {
			l.failIf(!c.Valid(), BadCapability, fmt.Sprintf("grant %q", name), capabilityForm)
		}
		l.kernel.grants[name] = NewGrant(capabilities...)
	}
	for requester, names := range inOrder(d.Requesters) {
		for _, name := range names {
			_, ok := d.Grants[name]
			l.failIf(!ok, UnknownGrantName, fmt.Sprintf("requester %q", requester), "there is no grant %q", name)
		}
	}
}

func (l *loading) limits() {
	m := &l.kernel.definition.Limits
	for _, f := range recordFields(reflect.TypeOf(*m)) {
		l.failIf(reflect.ValueOf(*m).FieldByIndex(f.index).Int() < 0, BadLimit, "limits", "%s is below 0", f.key)
	}
	for name, of := range inOrder(map[string][2]int{"max_value_bytes": {m.MaxValueBytes, MaxContent}, "control_budget_bits": {m.ControlBits, MaxControlBits}, "max_depth": {m.MaxDepth, MaxDepth}}) {
		l.failIf(of[0] > of[1], BadLimit, "limits", "%s is at most %d", name, of[1])
	}
	for grant, bits := range inOrder(l.kernel.definition.GrantControl) {
		_, ok := l.kernel.definition.Grants[grant]
		l.failIf(!ok || bits < 0, UnknownGrantName, fmt.Sprintf("limits of grant %q", grant), "expected the name of a grant of the kernel, and at least 0 bits")
	}
}

func (l *loading) rules() {
	d := &l.kernel.definition
	if len(d.Rules)+len(d.MeshRules) > MaxRules {
		l.failf(TooMany, "rules", "expected at most %d, with those of the mesh", MaxRules)
		return
	}
	seen := map[string]bool{}
	for i := range d.MeshRules {
		r := &d.MeshRules[i]
		l.failIf(r.Effect != Forbid, RuleEffectWord, fmt.Sprintf("rule %q", r.ID), "a rule of the mesh forbids")
		l.rule(r, seen)
	}
	for i := range d.Rules {
		l.rule(&d.Rules[i], seen)
	}
}

func (l *loading) rule(r *Rule, seen map[string]bool) {
	where := fmt.Sprintf("rule %q", r.ID)
	var tools []*Tool
	for _, n := range l.kernel.names {
		if r.Tool == AnyTool || r.Tool == n {
			tools = append(tools, l.kernel.tools[n])
		}
	}
	switch {
	case seen[r.ID]:
		l.failf(DuplicateRule, where, "another rule has this id")
		return
	case !IsStepID(r.ID):
		l.failf(BadName, where, "an id is 1 to %d letters, digits, hyphens and underscores", maxNameBytes)
	case !slices.Contains([]RuleEffect{Forbid, Declassify, Ask}, r.Effect):
		l.failf(RuleEffectWord, where, "effect is forbid, declassify or ask, and reads is data or nothing")
	case r.ControlBits < 0 || r.ControlBits > MaxControlBits || r.ControlBits > 0 && r.Effect != Declassify:
		l.failf(RuleEffectWord, where, "control_bits is of a rule that declassifies, and at most %d", MaxControlBits)
	case r.Effect == Declassify && r.ReadsData:
		l.failf(RuleReadsData, where, "a rule that declassifies decides by labels: it has no reads: data")
	case r.Tool != AnyTool && len(tools) == 0:
		l.failf(RuleUnknownTool, where, "there is no tool %q", r.Tool)
	default:
		l.compile(r, tools, where)
	}
	seen[r.ID] = true
}

// catalogue checks that planners can be sent what there is.
func (l *loading) catalogue() {
	if len(l.defects) > 0 {
		return
	}
	var all []Capability
	for i := range l.kernel.definition.Tools {
		all = append(all, l.kernel.definition.Tools[i].RequiredCaps...)
	}
	tools, schemas, rules := l.kernel.catalogue(NewGrant(all...)), schemaList(l.kernel.definition.Schemas), l.kernel.reasons(NewGrant(all...))
	if n := len(tools.JSON()) + len(schemas.JSON()) + len(rules.JSON()); n > maxCatalogueBytes {
		l.failf(TooMany, "tools", "what planners are told of tools, schemas and rules has %d bytes, expected at most %d: shorten descriptions, or make it two kernels", n, maxCatalogueBytes)
	}
}

// compile compiles a rule for each of its tools, so that it has the types of each,
// and tries its examples.
func (l *loading) compile(r *Rule, tools []*Tool, where string) {
	for _, t := range tools {
		c, err := compileRule(r, t)
		if err != nil {
			l.failf(RuleType, where, "for tool %q: %v", t.Name, err)
			return
		}
		if !l.kernel.definition.UntestedRules || len(r.Yes)+len(r.No) > 0 {
			if message := tryExamples(r, &c, t); message != "" {
				l.failf(RuleExample, where, "%s", message)
				return
			}
		}
		t.rules[r.Effect] = append(t.rules[r.Effect], c)
	}
	l.failIf(!l.kernel.definition.UntestedRules && (len(r.Yes) == 0 || len(r.No) == 0), RuleWithoutExamples, where,
		"a rule needs an example for which it holds and one for which it does not")
	l.failIf(len(r.Yes) > maxExamples || len(r.No) > maxExamples, TooMany, where, "expected at most %d examples each way", maxExamples)
}

// tryExamples evaluates a rule for its examples and returns what is wrong, or
// nothing. What is said of a rule for all tools must hold for each.
func tryExamples(r *Rule, c *compiledRule, t *Tool) string {
	for i := range r.Yes {
		if !c.holds(r.Effect, t, &r.Yes[i]) {
			return fmt.Sprintf("the rule does not hold for example %d of yes", i+1)
		}
	}
	for i := range r.No {
		if c.holds(r.Effect, t, &r.No[i]) {
			return fmt.Sprintf("the rule holds for example %d of no", i+1)
		}
	}
	return ""
}

// ParseLabel returns the label of a Reader's answer to a schema.
func (k *Kernel) ParseLabel(schema string, source Label, at Origin) (Label, bool) {
	s := k.schemas[schema]
	if s == nil {
		return Label{}, false
	}
	return s.parseLabel(source, at), true
}

// Catalogue returns the names of the tools that a grant allows to call.
func (k *Kernel) Catalogue(g Grant) []string {
	var names []string
	for i := range k.definition.Tools {
		if name := k.definition.Tools[i].Name; k.tool(name, g) != nil {
			names = append(names, name)
		}
	}
	return names
}
