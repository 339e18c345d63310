package kernel

import (
	"cmp"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Schema is what a q_parse may ask a Reader: a spec of the BCP, by name.
type Schema struct {
	Name string
	// Reader answers; the kernel has a channel to it as its Controller.
	Reader bcp.AgentName
	Spec   bcp.Spec
	// Settings are those of the channel. Of them the kernel needs what decides which
	// answers there are.
	Settings bcp.Settings

	typ       *Type
	validator *bcp.Validator
	told      Value // what planners are told of it: what is asked is as the operator wrote it
}

// prepare computes the type of the answers. sealed says that they may have sealed fields.
func (s *Schema) prepare(sealed bool) error {
	s.Settings.Sealed, s.told = sealed, Value{}
	width, compiled, err := capacity(s.Spec, s.Settings)
	if err != nil {
		return err
	}
	t := &Type{Kind: ObjectType, width: width, priced: true}
	for _, f := range compiled.Fields {
		field := &Type{}
		switch f.Type {
		case bcp.TypeBoolean:
			field.Kind = BooleanType
		case bcp.TypeInteger:
			field.Kind, field.Min, field.Max = IntegerType, f.Min, f.Max
		case bcp.TypeSealed: // content chooses all of it, and nobody is told
			field.Kind, t.seals, t.width = SealedType, true, Unbounded
		default:
			field.Kind, field.Values = EnumType, f.Values
		}
		t.Fields = append(t.Fields, TypeField{Name: f.Name, Type: field.settled()})
	}
	for _, q := range compiled.Questions {
		field := &Type{Kind: StringType, priced: true}
		switch q.ExpectedFormat {
		case bcp.FormatBoolean:
			field.Kind = BooleanType
		case bcp.FormatInteger:
			least, most := int64(bcp.DefaultIntegerMin), int64(bcp.DefaultIntegerMax)
			field.Kind, field.Min, field.Max = IntegerType, cmp.Or(q.Min, &least), cmp.Or(q.Max, &most)
		case bcp.FormatEnum:
			field.Kind, field.Values = EnumType, q.Values
		}
		q.SameAs = ""
		one := bcp.Spec{Category: s.Spec.Category, Questions: []bcp.Question{q}}
		if field.width, _, err = capacity(one, s.Settings); err != nil {
			return err
		}
		t.Fields = append(t.Fields, TypeField{Name: q.ID, Type: field})
	}
	if s.Spec.Category == 3 {
		t.Fields = []TypeField{{Name: "summary", Type: &Type{Kind: StringType, width: width, priced: true}}}
	}
	s.typ = t
	if err := s.setTold(compiled); err != nil {
		return err
	}
	strict := s.Settings
	strict.OnAnomaly, strict.Subscriptions, strict.PublishWhen = bcp.AnomalyReject, 0, ""
	s.validator, err = bcp.Compile(s.Spec, strict)
	return err
}

// setTold keeps what a planner has to know to make use of the answers: the questions
// with their formats, or the directive of a summary.
func (s *Schema) setTold(spec bcp.Spec) error {
	text, err := bcp.Encode(spec, bcp.JSON)
	if err != nil {
		return err
	}
	v, err := ParseValue(text)
	if err != nil {
		return err
	}
	s.told = object(member{"category", Int(int64(s.Spec.Category))}, member{"answer", s.typ.schema()})
	for _, key := range []string{"questions", "directive", "max_words"} {
		if asked := v.member(key); asked != nil {
			s.told.add(key, *asked)
		}
	}
	return nil
}

// capacity returns how many bits the canonical answers of a spec can carry, and
// the spec as it was compiled. Asked as the only subscription of a channel that
// refuses anomalies, a spec costs exactly that: nothing for failures, for what is
// held, or for time (CAPACITY.md).
func capacity(spec bcp.Spec, settings bcp.Settings) (Width, bcp.Spec, error) {
	settings.OnAnomaly, settings.Subscriptions, settings.PublishWhen = bcp.AnomalyReject, 1, ""
	v, err := bcp.Compile(spec, settings)
	if err != nil {
		return 0, bcp.Spec{}, err
	}
	return Width((v.Prices().Capacity + bcp.Bit - 1) / bcp.Bit), v.Spec(), nil
}

// read reads an accepted answer. In category 2 an answer is a text; here that of a
// boolean or an integer question becomes its value. The answer must be of the
// schema's type.
func (s *Schema) read(answer []byte) (Value, bool) {
	v, err := ParseValue(answer)
	if err != nil || v.kind != ObjectValue {
		return Value{}, false
	}
	if s.Spec.Category == 2 {
		for i, name := range v.keys {
			if f := s.typ.field(name); f != nil && v.list[i].kind == TextValue {
				v.list[i] = typed(v.list[i], f.Type.Kind)
			}
		}
	}
	return v, s.typ.Has(&v)
}

// judge judges what no Reader answered as if one had, and returns its canonical
// form: what is counted is only counted of canonical answers. What a person would
// have to look at is refused.
func (s *Schema) judge(answer []byte) (Value, bool) {
	v := s.validator.Validate(answer, bcp.JSON)
	if v.Outcome != bcp.Accept {
		return Value{}, false
	}
	return s.read(v.Answer.JSON())
}

// typed returns the value that the text of an answer spells, in its one spelling.
func typed(v Value, kind TypeKind) Value {
	switch kind {
	case BooleanType:
		if v.text == "true" || v.text == "false" {
			return Bool(v.text == "true")
		}
	case IntegerType:
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil && strconv.FormatInt(n, 10) == v.text {
			return Int(n)
		}
	}
	return v
}
