package kernel

import (
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// AppendPlanSchema appends the JSON Schema of a plan, for planners: what
// [ParsePlan] reads, as far as a schema can say it. It is made from the same table.
// steers says that content may steer plans, asks that they may ask the requester, names
// that they name what they return.
func AppendPlanSchema(dst []byte, steers, asks, names bool) []byte {
	steps := List()
	for i := range planTable {
		if s := (&Step{Kind: planTable[i].kind}); s.forks() && !steers || s.Kind == AskStep && !asks || s.Kind == ResultStep && !names {
			continue
		}
		steps.list = append(steps.list, stepSchema(i))
	}
	definitions, list := schemaDefinitions(), object(member{"type", Text("array")}, member{"maxItems", Int(MaxPlanSteps)}, member{"items", object(member{"oneOf", steps})})
	if steers {
		definitions.add("steps", list)
		list = refTo("steps")
	}
	v := object(
		member{"$schema", Text("https://json-schema.org/draft/2020-12/schema")}, member{"title", Text("A plan")},
		member{"type", Text("object")}, member{"additionalProperties", Bool(false)}, member{"required", texts([]string{"steps", "final"})},
		member{"properties", object(
			member{"steps", list},
			member{"final", object(member{"type", Text("string")}, member{"description", Text("The id of the step whose value is the result.")})},
			member{"run_id", object(member{"type", Text("string")}, member{"description", Text("Taken and ignored.")})},
		)},
		member{"$defs", definitions},
	)
	return v.AppendJSON(dst)
}

// stepSchema is the schema of one kind of step.
func stepSchema(i int) Value {
	kind := &planTable[i]
	properties := object(member{"kind", object(member{"const", Text(kind.kind.Word())})}, member{"id", refTo("id")})
	required := texts([]string{"kind", "id"})
	for j := range kind.keys {
		key := &kind.keys[j]
		properties.add(key.name, key.schema())
		if !key.optional {
			required.list = append(required.list, Text(key.name))
		}
	}
	return object(member{"type", Text("object")}, member{"additionalProperties", Bool(false)}, member{"properties", properties}, member{"required", required})
}

func (k *planKey) schema() Value {
	switch k.form {
	case constForm:
		return object(member{"anyOf", List(refTo("scalar"), object(member{"type", Text("array")}, member{"items", refTo("scalar")}))})
	case argsForm:
		return namedSchema(refTo("arg" + strconv.Itoa(maxListDepth)))
	case inputsForm:
		return namedSchema(refTo("ref"))
	case refForm:
		return refTo("ref")
	case stepsForm:
		return refTo("steps")
	case casesForm:
		return object(member{"type", Text("object")}, member{"minProperties", Int(1)}, member{"maxProperties", Int(maxCases)}, member{"additionalProperties", refTo("steps")})
	case idForm:
		return refTo("id")
	case countForm:
		return object(member{"type", Text("integer")}, member{"minimum", Int(1)}, member{"maximum", Int(maxElements)})
	case moreForm:
		return object(member{"enum", texts([]string{"stop", "first"})})
	case questionsForm:
		return object(member{"type", Text("array")}, member{"minItems", Int(1)}, member{"maxItems", Int(bcp.MaxQuestions)}, member{"items", questionSchema()})
	case grantForm:
		return object(member{"type", Text("array")}, member{"maxItems", Int(MaxTools)}, member{"items", object(member{"type", Text("string")}, member{"pattern", Text(`^[a-z0-9][a-z0-9._-]{0,62}$`)})})
	default:
		if k.optional {
			return object(member{"anyOf", List(object(member{"type", Text("null")}), object(member{"type", Text("string")}, member{"minLength", Int(1)}, member{"maxLength", Int(MaxPlanText)}))})
		}
		if k.name == "instruction" {
			return object(member{"type", Text("string")}, member{"maxLength", Int(MaxPlanText)}, member{"pattern", Text(visible)})
		}
		return refTo("text")
	}
}

// askedFormats are those of a requester's answers, which need nothing of the mesh.
var askedFormats = []bcp.Format{
	bcp.FormatBoolean, bcp.FormatEnum, bcp.FormatInteger, bcp.FormatDate, bcp.FormatTime, bcp.FormatEmail, bcp.FormatPersonName, bcp.FormatShortText, bcp.FormatShortList,
}

// questionSchema is the schema of a question, as far as all formats have it.
func questionSchema() Value {
	var formats []string
	for _, f := range askedFormats {
		formats = append(formats, f.String())
	}
	integer := object(member{"type", Text("integer")})
	return object(
		member{"type", Text("object")}, member{"additionalProperties", Bool(false)}, member{"required", texts([]string{"id", "question", "expected_format"})},
		member{"properties", object(
			member{"id", object(member{"type", Text("string")})}, member{"question", object(member{"type", Text("string")})},
			member{"expected_format", object(member{"enum", texts(formats)})},
			member{"values", object(member{"type", Text("array")}, member{"items", object(member{"type", Text("string")})}, member{"description", Text("The choices of an enum.")})},
			member{"min", integer}, member{"max", integer}, member{"max_words", integer}, member{"max_chars", integer},
		)},
	)
}

// namedSchema is the schema of an object of names.
func namedSchema(of Value) Value {
	return object(
		member{"type", Text("object")}, member{"propertyNames", object(member{"pattern", Text(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)})}, member{"additionalProperties", of},
	)
}

func refTo(name string) Value { return object(member{"$ref", Text("#/$defs/" + name)}) }

func schemaDefinitions() Value {
	number := object(member{"type", Text("number")})
	v := object(
		member{"id", object(member{"type", Text("string")}, member{"pattern", Text(`^[A-Za-z0-9_-]{1,64}$`)})},
		member{"text", object(member{"type", Text("string")}, member{"maxLength", Int(MaxPlanText)})},
		member{"scalar", object(member{"anyOf", List(refTo("text"), number, object(member{"type", Text("boolean")}), object(member{"type", Text("null")}))})},
		member{"ref", object(
			member{"type", Text("object")}, member{"additionalProperties", Bool(false)}, member{"required", texts([]string{"ref"})},
			member{"description", Text("The value of an earlier step, or what a path of properties and indexes leads to in it.")},
			member{"properties", object(
				member{"kind", object(member{"const", Text("ref")})},
				member{"ref", object(member{"type", Text("string")})},
				member{"path", object(member{"type", texts([]string{"string", "null"})})},
			)},
		)},
		member{"arg0", object(member{"anyOf", List(refTo("ref"), refTo("scalar"))})},
	)
	for depth := 1; depth <= maxListDepth; depth++ {
		inner := refTo("arg" + strconv.Itoa(depth-1))
		v.add("arg"+strconv.Itoa(depth), object(member{"anyOf", List(refTo("arg0"), object(member{"type", Text("array")}, member{"items", inner}))}))
	}
	return v
}
