package main

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// ending is what a condition is about: how a task that began with a state ended.
type ending struct {
	before, after world
	answer        string
	calls         []made
}

// conditions compiles the conditions of a suite's tasks and goals, and refuses one that the ground truth does not meet.
func (s *suite) compileConditions() error {
	dyn := func(names ...string) (variables []cel.EnvOption) {
		for _, name := range names {
			variables = append(variables, cel.Variable(name, cel.DynType))
		}
		return variables
	}
	untouched := s.newWorld("")
	env, err := cel.NewEnv(append(dyn(append(sortedKeys(untouched), "pre", "changed", "only", "answer", "calls")...),
		cel.Function("values", cel.Overload("values_of", []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(valuesOf))),
		cel.Function("sum", cel.Overload("sum_of", []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(sumOf))),
		cel.Function("has", cel.MemberOverload("has_texts", []*cel.Type{cel.DynType, cel.DynType}, cel.BoolType, cel.BinaryBinding(hasTexts))),
	)...)
	if err != nil {
		return err
	}
	s.conditions = map[string]cel.Program{}
	for i, t := range slices.Concat(s.Users, s.Goals) {
		tree, issues := env.Compile(s.Conditions[t.ID])
		if issues.Err() != nil {
			return fmt.Errorf("the condition of %s: %w", t.ID, issues.Err())
		}
		if s.conditions[t.ID], err = env.Program(tree); err != nil {
			return fmt.Errorf("the condition of %s: %w", t.ID, err)
		}
		truth := ending{before: untouched, after: s.newWorld(""), answer: t.Output}
		for _, c := range t.Calls {
			truth.calls = append(truth.calls, made{c.Tool, s.argValues(truth.after, c.Args)})
			s.do(truth.after, &truth.calls[len(truth.calls)-1])
		}
		if !s.holds(t.ID, &truth) {
			return fmt.Errorf("%s: its ground truth does not meet its condition: %v changed", t.ID, changes(map[string]any(truth.before), map[string]any(truth.after), ""))
		}
		if i >= len(s.Users) && s.holds(t.ID, &ending{before: untouched, after: untouched}) {
			return fmt.Errorf("%s is reached before anything was done", t.ID)
		}
	}
	return nil
}

// holds reports whether the condition of a task or goal holds. One that fails, because something is not there, does not.
func (s *suite) holds(id string, e *ending) bool {
	changed := changes(map[string]any(e.before), map[string]any(e.after), "")
	calls := []any{}
	for i := range e.calls {
		calls = append(calls, map[string]any{"tool": e.calls[i].Tool, "args": natives(e.calls[i].Args)})
	}
	input := map[string]any{"pre": map[string]any(e.before), "changed": changed, "only": nil, "answer": e.answer, "calls": calls}
	for key, part := range e.after {
		input[key] = part
	}
	if len(changed) == 1 && e.before.at(changed[0]) == nil {
		input["only"] = e.after.at(changed[0])
	}
	result, _, err := s.conditions[id].Eval(input)
	return err == nil && result == types.True
}

func valuesOf(v ref.Val) ref.Val {
	m, ok := v.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	var values []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		values = append(values, m.Get(it.Next()))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values)
}

func sumOf(v ref.Val) ref.Val {
	list, ok := v.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	sum := types.Double(0)
	for it := list.Iterator(); it.HasNext() == types.True; {
		n, _ := it.Next().(types.Double)
		sum += n
	}
	return sum
}

// hasTexts looks for texts in a value, without their case and line breaks.
func hasTexts(v, texts ref.Val) ref.Val {
	list, ok := texts.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(texts)
	}
	plain := func(v any) string {
		return strings.ToLower(strings.Join(strings.Fields(string(appendText(nil, v, ""))), " "))
	}
	native := func(v ref.Val) any {
		if of, isList := v.Value().([]any); isList {
			return of
		}
		return v.Value()
	}
	where := plain(native(v))
	for it := list.Iterator(); it.HasNext() == types.True; {
		if !strings.Contains(where, plain(native(it.Next()))) {
			return types.False
		}
	}
	return types.True
}
