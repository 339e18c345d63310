package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
)

// output is what a reading tool returns.
type output struct {
	Text  string   `json:"text"`
	Items []string `json:"items,omitzero"`
}

// toolOutput is what a reading tool returns: the whole part of the state that it reads from.
func (s *suite) toolOutput(w score.State, tool string, args map[string]jsontext.Value) output {
	var part any = map[string]any(w)
	for name, of := range map[string]string{"email": "inbox", "contact": "inbox", "calendar": "calendar", "file": "cloud_drive"} {
		if found, has := w[of]; has && strings.Contains(tool, name) {
			part = found
		}
	}
	out := output{Text: score.Text(part)}
	if list, has := s.Lists[tool]; has {
		out.Items = listOf(w, list, args)
	}
	return out
}

// listOf is a list of the state.
func listOf(w score.State, l listSpec, args map[string]jsontext.Value) []string {
	list := []string{}
	add := func(texts any) bool {
		elements, isList := texts.([]any)
		for _, e := range elements {
			list = append(list, fmt.Sprint(e))
		}
		return isList
	}
	node := w.At(l.Path)
	elements, _ := node.([]any)
	if byID, isObject := node.(map[string]any); isObject {
		for _, id := range sortedKeys(byID) {
			elements = append(elements, byID[id])
		}
	}
	for _, e := range elements {
		of, isObject := e.(map[string]any)
		switch {
		case isObject && !matches(of, l.Match, args):
		case isObject:
			if add(of[l.Take]) {
				return list // of the first that matches
			}
			list = append(list, fmt.Sprint(of[l.Take]))
		default:
			list = append(list, fmt.Sprint(e))
		}
	}
	return list
}

// matches reports whether an element has in its fields what the arguments say.
func matches(element map[string]any, match map[string]string, args map[string]jsontext.Value) bool {
	for field, argument := range match {
		for _, text := range scalarTexts(args[argument]) {
			if !strings.Contains(strings.ToLower(fmt.Sprint(element[field])), strings.ToLower(text)) {
				return false
			}
		}
	}
	return true
}

// toolDefinition is the definition of a tool, with its rules: who gets something or what is changed, the critical arguments,
// stands in the requester's own words, or a person is asked because content chose it. In the other arguments content may stand.
func (s *suite) toolDefinition(t *toolSpec) (tool map[string]any, rules []any, err error) {
	properties, sealed := map[string]any{}, []string(nil)
	for _, name := range sortedKeys(t.Input.Properties) {
		schema := t.Input.Properties[name]
		typ, err := closeType(schema)
		if err != nil {
			return nil, nil, fmt.Errorf("%s of %s: %w", name, t.Name, err)
		}
		if slices.Contains(t.Critical, name) {
			typ["critical"] = true
		}
		of, isList := typ["items"].(map[string]any)
		if !isList {
			of = typ
		}
		if of["type"] == "string" {
			of["accepts"] = "sealed"
			sealed = append(sealed, "args."+name+".sealed")
		}
		properties[name] = typ
	}
	outputs := map[string]any{"text": map[string]any{"type": "string"}}
	if _, has := s.Lists[t.Name]; has {
		outputs["items"] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	}
	tool = map[string]any{
		"name": t.Name, "effect_level": t.Level, "required_caps": []string{use}, "result_subjects": []string{"user"},
		"input_schema":  map[string]any{"type": "object", "properties": properties, "required": append([]string{}, t.Input.Required...)},
		"output_schema": map[string]any{"type": "object", "properties": outputs},
	}
	if t.Level == "read" {
		tool["egress"] = t.Egress
	} else {
		tool["idempotency"] = "key"
	}
	if !t.effect() {
		return tool, nil, nil
	}
	named, dirty := map[string]any{}, map[string]any{}
	var written, own, heard []string
	for _, name := range sortedKeys(properties) {
		if !slices.Contains(t.Critical, name) {
			named[name], dirty[name] = map[string]any{"tainted": true}, map[string]any{"tainted": true, "third_party": true}
			continue
		}
		named[name], dirty[name] = t.example(name), map[string]any{"tainted": true}
		own = append(own, "task.mentions(args."+name+")")
		written = append(written, "!args."+name+".tainted && !task.mentions(args."+name+")")
		heard = append(heard, "args."+name+".tainted")
	}
	if len(own) == 0 && len(properties) > 0 { // nothing in it decides who gets something
		own = append(own, "!args."+sortedKeys(properties)[0]+".third_party")
	}
	for _, is := range sealed {
		own = append(own, "!"+is)
	}
	// A person decides about what content chose, nobody has read, or content led to.
	ask := rule(t.Name+"-ask", "ask", t.Name, strings.Join(slices.Concat(heard, sealed, []string{"control.tainted"}), " || "), named, named)
	ask["examples"].(map[string]any)["yes"] = []any{map[string]any{"args": named, "control": map[string]any{"tainted": true}}}
	rules = []any{ask}
	if len(own) > 0 {
		rules = append(rules, rule(t.Name+"-content", "declassify", t.Name, strings.Join(own, " && "), named, dirty))
	}
	if !s.bare && len(written) > 0 {
		other := rule(t.Name+"-named", "forbid", t.Name, strings.Join(written, " || "), named, named)
		other["examples"].(map[string]any)["yes"] = []any{map[string]any{"args": named, "task": "Do it."}}
		rules = append(rules, other)
	}
	return tool, rules, nil
}

// example is a value of an argument that the task of an example names.
func (t *toolSpec) example(argument string) any {
	var v any = "x1"
	if t.typeName(argument) != "string" {
		v = 1
	}
	if t.isList(argument) {
		v = []any{v}
	}
	return v
}

func rule(id, effect, tool, when string, yes, no map[string]any) map[string]any {
	const task = "For x1 and 1."
	return map[string]any{"id": strings.ReplaceAll(id, "_", "-"), "effect": effect, "tool": tool, "when": when,
		"examples": map[string]any{"yes": []any{map[string]any{"args": yes, "task": task}}, "no": []any{map[string]any{"args": no, "task": task}}}}
}

// closeType closes a type: what may be null is optional.
func closeType(schema jsontext.Value) (map[string]any, error) {
	var s struct {
		Type  string           `json:"type"`
		AnyOf []jsontext.Value `json:"anyOf"`
		Items jsontext.Value   `json:"items"`
		Ref   string           `json:"$ref"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	switch {
	case len(s.AnyOf) > 0:
		return closeType(s.AnyOf[0])
	case s.Ref != "":
		return map[string]any{"type": "string"}, nil
	case s.Type == "array":
		items, err := closeType(s.Items)
		return map[string]any{"type": "array", "items": items}, err
	case s.Type == "object":
		return map[string]any{"type": "string"}, nil // a file that is attached: its id
	default:
		return map[string]any{"type": s.Type}, nil
	}
}

// typeName is the type of an argument, or of its elements.
func (t *toolSpec) typeName(argument string) string {
	typ, err := closeType(t.Input.Properties[argument])
	if err != nil {
		return ""
	}
	if items, isList := typ["items"].(map[string]any); isList {
		typ = items
	}
	name, _ := typ["type"].(string)
	return name
}

// isList reports whether an argument is a list.
func (t *toolSpec) isList(argument string) bool {
	typ, err := closeType(t.Input.Properties[argument])
	return err == nil && typ["items"] != nil
}
