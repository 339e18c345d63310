package kernel

import (
	"errors"
	"fmt"
	"slices"
)

// ErrExample says that bytes are no example of a rule; it quotes nothing.
var ErrExample = errors.New("kernel: no example: expected args, requester, run and grant")

// UnmarshalJSON reads an example of a rule: a JSON object of args, by name,
// requester {name, address}, run {depth, grant}, grant, task and control; or of the
// arguments alone. An argument is {value, label}, {value, tainted, third_party,
// influence, from, readers, literal, sealed}, or a value, which is the requester's then. A task
// is its text, or {text, influence}; control is as an argument without a value.
func (e *Example) UnmarshalJSON(b []byte) error {
	v, err := ParseValue(b)
	if err != nil || v.kind != ObjectValue {
		return ErrExample
	}
	*e = Example{Arguments: map[string]ExampleArgument{}, Control: Trusted(), Asker: Asker{Task: Task{Known: true, Label: Trusted()}}}
	if !v.onlyHas("args", "requester", "run", "grant", "task", "control") {
		return e.setArguments(&v)
	}
	var grant []Capability
	for i, key := range v.keys {
		switch value := &v.list[i]; key {
		case "args":
			if value.kind != ObjectValue {
				return ErrExample
			}
			err = e.setArguments(value)
		case "requester":
			if !value.onlyHas("name", "address") {
				return ErrExample
			}
			e.Asker.Requester.Name, _ = value.optionalText("name")
			e.Asker.Requester.Address, _ = value.optionalText("address")
		case "task":
			err = e.Asker.Task.set(value)
		case "control":
			var control ExampleArgument
			control, err = exampleArgument(value)
			e.Control = control.Label
		case "run":
			if !value.onlyHas("depth", "grant") {
				return ErrExample
			}
			if depth := value.member("depth"); depth != nil {
				e.Depth = int(depth.n)
			}
			if names := value.member("grant"); names != nil {
				grant, err = appendCapabilities(grant, names)
			}
		case "grant":
			grant, err = appendCapabilities(grant, value)
		}
		if err != nil {
			return err
		}
	}
	e.Grant = NewGrant(grant...)
	return nil
}

// set reads the task of an example.
func (t *Task) set(v *Value) error {
	if v.kind == TextValue {
		t.Text = v.text
		return nil
	}
	bits := v.member("influence")
	if !v.onlyHas("text", "influence") || bits == nil || bits.kind != IntValue || bits.n < 1 {
		return ErrExample
	}
	t.Text, _ = v.optionalText("text")
	t.Label = Told(Width(min(bits.n, int64(Unbounded))))
	return nil
}

func (e *Example) setArguments(args *Value) error {
	for i, name := range args.keys {
		argument, err := exampleArgument(&args.list[i])
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		e.Arguments[name] = argument
	}
	return nil
}

func exampleArgument(v *Value) (ExampleArgument, error) {
	a := ExampleArgument{Label: Trusted(), Literal: true}
	if !v.onlyHas("value", "label", "tainted", "third_party", "influence", "from", "readers", "literal", "sealed") {
		a.Value = v
		return a, nil
	}
	a.Value, a.Sealed = v.member("value"), v.holds("sealed")
	if label := v.member("label"); label != nil {
		if !a.Label.read(label) {
			return a, ErrLabel
		}
		a.Literal = !a.Label.Tainted()
		return a, nil
	}
	if v.holds("tainted") {
		a.Label.Sources |= ToolRead
		a.Label.Readers, a.Literal = Only(), v.holds("literal")
	}
	if from := v.member("from"); from != nil {
		for i := range from.list {
			a.Label.Tools = joinTools(a.Label.Tools, []string{from.list[i].text})
		}
	}
	if readers := v.member("readers"); readers != nil && !a.Label.Readers.read(readers) {
		return a, ErrLabel
	}
	if v.holds("third_party") {
		a.Label.Subjects |= ThirdParty
	}
	if bits := v.member("influence"); bits != nil && !a.Label.Influence.read(new(object(member{"example", *bits}))) {
		return a, ErrLabel
	}
	return a, nil
}

func appendCapabilities(to []Capability, v *Value) ([]Capability, error) {
	if v.kind != ListValue {
		return nil, ErrExample
	}
	for i := range v.list {
		to = append(to, Capability(v.list[i].text))
	}
	return to, nil
}

// onlyHas reports whether a value is an object that has no other keys.
func (v *Value) onlyHas(keys ...string) bool {
	return v.kind == ObjectValue && !slices.ContainsFunc(v.keys, func(key string) bool { return !slices.Contains(keys, key) })
}

// holds reports whether a member is true.
func (v *Value) holds(key string) bool {
	m := v.member(key)
	return m != nil && m.flag
}
