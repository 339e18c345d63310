package constraint

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// FactKind is the type of a fact that a rule may look at.
type FactKind uint8

// The kinds of facts. The zero value is no kind.
const (
	FactBool    FactKind = 1
	FactInt     FactKind = 2
	FactText    FactKind = 3
	FactDecimal FactKind = 4
	FactTexts   FactKind = 5 // a list of texts
	FactInts    FactKind = 6 // a list of integers
	FactPart    FactKind = 7 // something of which a rule asks with a function alone
	factDate    FactKind = 8 // of constraints
)

// FactName declares one fact to a rule: its dotted name, such as
// args.to.tainted, and its kind. Bytes bounds a text, or each text of a list, and
// Items a list; 0 is the greatest that a rule can read. What is larger cannot be read.
type FactName struct {
	Name         string
	Kind         FactKind
	Bytes, Items int
}

// Part is what the functions of rules are about: an argument of a call, or the task.
type Part interface {
	// Mentions reports whether the requester's own words have the argument o.
	Mentions(o Part) Truth
	// From reports whether all that content chose of the argument came from these tools;
	// it fails where only a part of it did.
	From(tools []string) Truth
	// ReadableBy reports whether whoever the argument o names may read this one.
	ReadableBy(o Part) Truth
}

// FactState says whether a fact can be read.
type FactState uint8

// The states of a fact. The zero value cannot be read: reading it is an error.
const (
	FactUnreadable FactState = iota
	FactKnown
	FactUnknown // not decided yet: see [Undecided]
)

// Fact is the value of one [FactName]; of the other fields that of its kind
// counts.
type Fact struct {
	State   FactState
	Bool    bool
	Int     int64
	Text    string
	Decimal Decimal
	Texts   []string
	Ints    []int64
	Part    Part
	date    date
}

// Decimal is a number with a fraction, exactly: Whole + Fraction / 10^15, with
// Fraction from 0 to 10^15 - 1.
type Decimal struct{ Whole, Fraction int64 }

// Facts tells a rule what it asks for, by the index of the name in what was
// given to [CompileRule].
type Facts interface{ Fact(index int) Fact }

// Truth is what a rule says about facts. The zero value is a failure.
type Truth uint8

// The truths.
const (
	// Failed: the rule has no result: it read what cannot be read or is too long,
	// divided by zero, or overflowed.
	Failed Truth = iota
	False
	True
	// Undecided: it depends on a fact that is not known yet.
	Undecided
)

// Rule is a compiled condition over facts. It is immutable and safe for
// concurrent use.
type Rule struct {
	program cel.Program
	facts   []ruleFact // those that it mentions
}

type ruleFact struct {
	FactName
	index int
}

// CompileRule compiles a condition in the language of [Compile] over other
// names: facts with dotted names, of which only those that the expression
// mentions are read. Decimals compare with decimals and, standing left, with
// integers. It refuses what Compile refuses; the error quotes the place in the
// expression. It may be called concurrently.
func CompileRule(expression string, names []FactName) (*Rule, error) {
	source := language{
		base: ruleBase, names: names, lists: true,
		describe: func(issues []*cel.Error) error { return placed(issues[0], issues[0].Message) },
		sizes:    func(name string, list bool) int { return sizeOf(names, name, list) },
	}
	return source.compile(expression)
}

// Evaluate decides the rule. A part that does not change the result may fail or
// be undecided: "false && x" is false whatever x is.
func (r *Rule) Evaluate(facts Facts) Truth {
	result, _, err := r.program.Eval(resolver(func(name string) (any, bool) {
		for i := range r.facts {
			if f := &r.facts[i]; f.Name == name {
				return nativeFact(&f.FactName, facts.Fact(f.index)), true
			}
		}
		return nil, false
	}))
	if err != nil {
		return Failed
	}
	switch result := result.(type) {
	case types.Bool:
		if result {
			return True
		}
		return False
	case *types.Unknown:
		return Undecided
	default:
		return Failed
	}
}

// Reads reports whether the rule refers to a fact.
func (r *Rule) Reads(name string) bool {
	return slices.ContainsFunc(r.facts, func(f ruleFact) bool { return f.Name == name })
}

// mentioned returns the facts that the checked tree refers to.
func mentioned(tree *cel.Ast, names []FactName) []ruleFact {
	var facts []ruleFact
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		for i, n := range names {
			if n.Name == e.AsIdent() {
				facts = append(facts, ruleFact{n, i})
				return
			}
		}
	}))
	return facts
}

// ruleBase is the environment of constraints with decimals, lists and functions of
// parts. It is made once, when first needed, and never changed.
var ruleBase = sync.OnceValues(func() (*cel.Env, error) {
	b, err := base()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.Macros(cel.HasMacro, cel.AllMacro, cel.ExistsMacro),
		cel.Function("mentions", cel.MemberOverload("part_mentions", []*cel.Type{partType, partType}, cel.BoolType, cel.BinaryBinding(aboutTwo(Part.Mentions)))),
		cel.Function("readableBy", cel.MemberOverload("part_readable_by", []*cel.Type{partType, partType}, cel.BoolType, cel.BinaryBinding(aboutTwo(Part.ReadableBy)))),
		cel.Function("from",
			cel.MemberOverload("part_from_text", []*cel.Type{partType, cel.StringType}, cel.BoolType, cel.BinaryBinding(fromTools)),
			cel.MemberOverload("part_from_texts", []*cel.Type{partType, cel.ListType(cel.StringType)}, cel.BoolType, cel.BinaryBinding(fromTools))),
	}
	for name, word := range map[string]string{"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"} {
		options = append(options, cel.Function(name,
			cel.Overload(word+"_decimal", []*cel.Type{decimalType, decimalType}, cel.BoolType),
			cel.Overload(word+"_decimal_int64", []*cel.Type{decimalType, cel.IntType}, cel.BoolType)))
	}
	return b.Extend(options...)
})

var factTypes = map[FactKind]*cel.Type{
	FactBool: cel.BoolType, FactInt: cel.IntType, FactText: cel.StringType, FactDecimal: decimalType,
	FactTexts: cel.ListType(cel.StringType), FactInts: cel.ListType(cel.IntType), FactPart: partType, factDate: dateType,
}

func sizeOf(names []FactName, name string, list bool) int {
	n := &FactName{}
	if i := slices.IndexFunc(names, func(n FactName) bool { return n.Name == name }); i >= 0 {
		n = &names[i]
	}
	if list {
		return n.items()
	}
	return n.bytes()
}

// bytes and items bound what can be read of a fact.
func (n *FactName) bytes() int { return min(cmp.Or(n.Bytes, maxFactBytes), maxFactBytes) }
func (n *FactName) items() int { return min(cmp.Or(n.Items, maxFactItems), maxFactItems) }

var (
	errUnreadable = types.NewErr("the value cannot be read")
	undecided     = types.NewUnknown(1, nil)
)

func nativeFact(n *FactName, f Fact) any {
	switch {
	case f.State == FactUnknown:
		return undecided
	case f.State != FactKnown, len(f.Text) > n.bytes(), len(f.Texts) > n.items(), len(f.Ints) > n.items(),
		slices.ContainsFunc(f.Texts, func(text string) bool { return len(text) > n.bytes() }):
		return errUnreadable
	}
	switch n.Kind {
	case FactBool:
		return types.Bool(f.Bool)
	case FactInt:
		return types.Int(f.Int)
	case FactText:
		return types.String(f.Text)
	case FactDecimal:
		return decimal{Decimal: f.Decimal}
	case FactTexts:
		return types.NewStringList(types.DefaultTypeAdapter, f.Texts)
	case FactInts:
		list := make([]ref.Val, len(f.Ints))
		for i, n := range f.Ints {
			list[i] = types.Int(n)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case FactPart:
		return part{Part: f.Part}
	case factDate:
		return f.date
	default:
		return errUnreadable
	}
}

// opaque is what values are made of that nothing converts.
type opaque struct{}

var errConversion = errors.New("the value cannot be converted")

// ConvertToNative implements [ref.Val].
func (opaque) ConvertToNative(reflect.Type) (any, error) { return nil, errConversion }

// ConvertToType implements [ref.Val].
func (opaque) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errConversion) }

var decimalType = cel.ObjectType("decimal", traits.ComparerType)

// decimal is a [Decimal] as CEL sees it: it compares, and nothing else.
type decimal struct {
	Decimal
	opaque
}

// Compare implements [traits.Comparer].
func (d decimal) Compare(other ref.Val) ref.Val {
	switch o := other.(type) {
	case decimal:
		return types.Int(d.compare(o.Decimal))
	case types.Int:
		return types.Int(d.compare(Decimal{Whole: int64(o)}))
	default:
		return types.MaybeNoSuchOverloadErr(other)
	}
}

func (d Decimal) compare(o Decimal) int {
	return cmp.Or(cmp.Compare(d.Whole, o.Whole), cmp.Compare(d.Fraction, o.Fraction))
}

// Equal implements [ref.Val].
func (d decimal) Equal(other ref.Val) ref.Val {
	o, ok := other.(decimal)
	return types.Bool(ok && d == o)
}

// Type implements [ref.Val].
func (d decimal) Type() ref.Type { return decimalType }

// Value implements [ref.Val].
func (d decimal) Value() any { return d }

var partType = cel.ObjectType("part")

// part is a [Part] as CEL sees it: functions take it, and nothing else does.
type part struct {
	Part
	opaque
}

var errPart = errors.New("an argument is no value: its value is in args.NAME.value")

// Equal implements [ref.Val]: parts do not compare.
func (p part) Equal(ref.Val) ref.Val { return types.WrapErr(errPart) }

// Type implements [ref.Val].
func (p part) Type() ref.Type { return partType }

// Value implements [ref.Val].
func (p part) Value() any { return p }

// val is a truth as CEL has it.
func (t Truth) val() ref.Val {
	switch t {
	case True, False:
		return types.Bool(t == True)
	case Undecided:
		return undecided
	default:
		return errUnreadable
	}
}

func aboutTwo(ask func(Part, Part) Truth) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		x, ok1 := a.(part)
		y, ok2 := b.(part)
		if !ok1 || !ok2 {
			return errUnreadable
		}
		return ask(x.Part, y.Part).val()
	}
}

// fromTools asks where an argument comes from: of one tool, or of a list of them.
func fromTools(a, names ref.Val) ref.Val {
	p, ok := a.(part)
	tools := []string{}
	switch names := names.(type) {
	case types.String:
		tools = append(tools, string(names))
	case traits.Lister:
		for it := names.Iterator(); it.HasNext() == types.True; {
			name, text := it.Next().(types.String)
			ok, tools = ok && text, append(tools, string(name))
		}
	default:
		ok = false
	}
	if !ok {
		return errUnreadable
	}
	return p.Part.From(tools).val()
}
