package definition

import (
	"encoding"
	"net/netip"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// of binds a row to a field of what its level makes.
func of[S any](field func(*S) any) func(any) any {
	return func(made any) any { return field(made.(*S)) }
}

// fill sets the fields that the level's rows are bound to, to what is written or else to the
// default. A key that is absent, without a constant for a default, leaves its field as it is. Of a
// wrong one the field gets what could be read, so that less is said of what depends on it: but not
// no bits at all, or nobody.
func (o *object) fill(made any) {
	for _, key := range levels[o.level] {
		if key.field == nil {
			continue
		}
		if v := o.values[key.Name]; v != nil && !(v.bad && (key.Type == TypeBits || key.Type == TypeNames)) || v == nil && key.Default != "" {
			assign(key.field(made), o.get(key.Name))
		}
	}
}

// assign sets a field of any of the types that definitions have.
func assign(field any, v *value) {
	switch f := field.(type) {
	case *string:
		*f = v.text
	case *bool:
		*f = v.boolean || v.word != "" // of a word alone, that it is written
	case **bool:
		*f = &v.boolean
	case *int:
		*f = int(v.number)
	case *int64:
		*f = v.number
	case **int64:
		*f = &v.number
	case *time.Duration:
		*f = v.duration
	case *bcp.Bits:
		*f = v.bits
	case *cost.USD:
		*f = cost.USD(v.number)
	case *bcp.Category:
		*f = bcp.Category(v.number)
	case *bcp.Rate:
		*f = v.rate
	case *bcp.AgentName:
		*f = bcp.AgentName(v.text)
	case *bcp.SubscriptionID:
		*f = bcp.SubscriptionID(v.text)
	case **time.Location:
		*f = v.zone
	case *bcp.SecretName:
		*f = buildSecretName(v.text)
	case *bcp.Quiet:
		*f = buildQuiet(v.text)
	case *map[string][]string:
		*f = v.lists
	case **kernel.Type:
		*f = v.typ
	case *kernel.EffectLevel:
		*f, _ = kernel.ParseEffectLevel(v.word)
	case *kernel.Idempotency:
		*f, _ = kernel.ParseIdempotency(v.word)
	case *kernel.RuleEffect:
		*f, _ = kernel.ParseRuleEffect(v.word)
	case *[]kernel.Example:
		*f = v.calls
	case *[]string:
		*f = textsIn(v.texts)
	case *[]bcp.AgentName:
		*f = convert[bcp.AgentName](textsIn(v.texts))
	case *[]kernel.Capability:
		*f = convert[kernel.Capability](textsIn(v.texts))
	case *[]netip.Prefix:
		for _, e := range v.texts {
			if prefix, err := netip.ParsePrefix(e.text); err == nil {
				*f = append(*f, prefix)
			}
		}
	case *[]bcp.Field:
		*f = filled[bcp.Field](v)
	case *[]bcp.Question:
		*f = filled[bcp.Question](v)
		for i, o := range v.objects {
			if !o.has("alphabet") { // of a spec, the default is not written
				(*f)[i].Alphabet = ""
			}
		}
	case *[]bcp.CronSchedule:
		*f = filled[bcp.CronSchedule](v)
	case *bcp.Execution, *kernel.Limits:
		for _, o := range v.objects { // one, or none that can be read
			o.fill(f)
		}
	case encoding.TextUnmarshaler: // a member of an enumeration, of which the schema lets all words through
		_ = f.UnmarshalText([]byte(v.word))
	default:
		panic("definition: a row is bound to a field of a type that assign does not know")
	}
}

// filled makes what the entries of a list say.
func filled[T any](v *value) []T {
	var list []T
	for _, o := range v.objects {
		var made T
		o.fill(&made)
		list = append(list, made)
	}
	return list
}

func convert[T ~string](texts []string) []T {
	var converted []T
	for _, text := range texts {
		converted = append(converted, T(text))
	}
	return converted
}

func textsIn(elements []element) []string {
	var texts []string
	for _, e := range elements {
		texts = append(texts, e.text)
	}
	return texts
}

func buildSecretName(text string) bcp.SecretName {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		return bcp.SecretName{Variable: name}
	}
	name, _ := strings.CutPrefix(text, "file:")
	return bcp.SecretName{File: name}
}
