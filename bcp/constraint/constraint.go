package constraint

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of Holds. They say nothing about the values.
var (
	// ErrValues means that the values are not those that were declared.
	ErrValues = errors.New("the values do not fit the variables of the constraint")
	// ErrEvaluation means that the expression has no result: an overflow, a
	// division by zero, or too high a cost.
	ErrEvaluation = errors.New("the constraint has no result for these values")
)

// Compile is the [bcp.ConstraintCompiler] of production. It refuses an
// expression that is longer than [bcp.MaxConstraintBytes], is not a condition
// over the variables in the language of this package, or could cost too much.
// The error quotes the place in the expression. It may be called concurrently.
func Compile(expression string, variables []bcp.Variable) (bcp.Constraint, error) {
	if len(variables) > maxVariables {
		return nil, fmt.Errorf("expected at most %d variables", maxVariables)
	}
	source := language{
		base:     base,
		describe: func(issues []*cel.Error) error { return describe(issues, variables) },
		sizes:    func(string, bool) int { return maxTextChars },
	}
	for _, v := range variables {
		source.names = append(source.names, FactName{Name: v.Name, Kind: variableKinds[v.Kind], Bytes: maxTextChars * utf8.UTFMax})
	}
	rule, err := source.compile(expression, cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return &constraint{rule, slices.Clone(variables)}, nil
}

var variableKinds = map[bcp.Kind]FactKind{bcp.KindBool: FactBool, bcp.KindInt: FactInt, bcp.KindText: FactText, bcp.KindDate: factDate}

var errPrepare = errors.New("the expression cannot be prepared")

// language is what expressions of one kind may say.
type language struct {
	base     func() (*cel.Env, error)
	names    []FactName
	describe func([]*cel.Error) error
	sizes    sizes
	lists    bool // it has all and exists
}

// compile compiles an expression and bounds its cost.
func (l *language) compile(expression string, options ...cel.ProgramOption) (rule *Rule, err error) {
	// The parser is a large generated program; a panic of it must not stop a
	// gateway that a Controller asks.
	defer func() {
		if recover() != nil {
			rule, err = nil, errors.New("the expression cannot be compiled")
		}
	}()
	if len(expression) == 0 || len(expression) > bcp.MaxConstraintBytes {
		return nil, fmt.Errorf("expected an expression of 1 to %d bytes", bcp.MaxConstraintBytes)
	}
	if !utf8.ValidString(expression) {
		return nil, errors.New("expected UTF-8")
	}
	environment, err := extend(l.base, l.names)
	if err != nil {
		return nil, err
	}
	tree, issues := environment.Compile(expression)
	if issues.Err() != nil {
		return nil, l.describe(issues.Errors())
	}
	if err := checkTree(tree, l.lists); err != nil {
		return nil, err
	}
	estimate, err := environment.EstimateCost(tree, l.sizes)
	if err != nil || estimate.Max > maxCost {
		return nil, fmt.Errorf("the expression could cost too much: its bound is %d", maxCost)
	}
	program, err := environment.Program(tree, append(options, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, errPrepare
	}
	return &Rule{program: program, facts: mentioned(tree, l.names)}, nil
}

var _ bcp.ConstraintCompiler = Compile

// functions are all that an expression may call, by name and overload. What is
// not listed does not exist: matches, timestamps, conversions, floating point.
var functions = map[string][]string{
	"!_":         {"logical_not"},
	"_&&_":       {"logical_and"},
	"_||_":       {"logical_or"},
	"_?_:_":      {"conditional"},
	"_==_":       {"equals"},
	"_!=_":       {"not_equals"},
	"_<_":        {"less_int64", "less_string"},
	"_<=_":       {"less_equals_int64", "less_equals_string"},
	"_>_":        {"greater_int64", "greater_string"},
	"_>=_":       {"greater_equals_int64", "greater_equals_string"},
	"_+_":        {"add_int64"},
	"_-_":        {"subtract_int64"},
	"_*_":        {"multiply_int64"},
	"_/_":        {"divide_int64"},
	"_%_":        {"modulo_int64"},
	"-_":         {"negate_int64"},
	"@in":        {"in_list"},
	"size":       {"size_string", "string_size"},
	"contains":   {"contains_string"},
	"startsWith": {"starts_with_string"},
	"endsWith":   {"ends_with_string"},
	// What all and exists of rules are made of; no expression can write it.
	"@not_strictly_false": {"not_strictly_false"},
}

// base is the environment without variables. It is made once, when first
// needed, and never changed.
var base = sync.OnceValues(func() (*cel.Env, error) {
	subset := &env.LibrarySubset{DisableMacros: true}
	for name, overloads := range functions {
		f := &env.Function{Name: name}
		for _, id := range overloads {
			f.Overloads = append(f.Overloads, &env.Overload{ID: id})
		}
		subset.IncludeFunctions = append(subset.IncludeFunctions, f)
	}
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return cel.NewCustomEnv(
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(registry),
		ext.NativeTypes(reflect.TypeFor[date](), ext.ParseStructTags(true)),
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.Macros(cel.HasMacro),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(bcp.MaxConstraintBytes),
		cel.ParserRecursionLimit(maxDepth*4),
		cel.ParserErrorRecoveryLimit(1),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ExpressionNestingDepthLimit(maxDepth),
	)
})

// checkTree refuses what the type checker lets through: another result than a
// boolean, and literals and constructions of types that answers do not have.
func checkTree(tree *cel.Ast, lists bool) error {
	if !tree.OutputType().IsExactType(cel.BoolType) {
		return fmt.Errorf("expected a condition that is true or false, got %s", plainTypes.Replace(tree.OutputType().String()))
	}
	var err error
	refuse := func(e ast.Expr, what string) {
		if err != nil {
			return
		}
		at := tree.NativeRep().SourceInfo().GetStartLocation(e.ID())
		err = &PlacedError{at.Line(), at.Column() + 1, what}
	}
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			switch e.AsLiteral().(type) {
			case types.Bool, types.Int, types.String:
			default:
				refuse(e, "expected true, false, a whole number or text")
			}
		case ast.CallKind, ast.IdentKind, ast.ListKind, ast.SelectKind:
		case ast.ComprehensionKind:
			if !lists {
				refuse(e, "all and exists are not allowed here")
			}
		default:
			refuse(e, "maps, objects and conversions are not allowed")
		}
	}))
	return err
}

// describe turns the first issue into one line with its place.
func describe(issues []*cel.Error, variables []bcp.Variable) error {
	first := issues[0]
	message := first.Message
	if name, found := strings.CutPrefix(message, "undeclared reference to '"); found {
		name, _, _ = strings.Cut(name, "'")
		message = fmt.Sprintf("%q is no answer of this spec and no function", name)
		if _, known := functions[name]; !known {
			names := make([]string, len(variables))
			for i, v := range variables {
				names[i] = v.Name
			}
			message += "; the answers are " + strings.Join(names, ", ")
		}
	}
	return placed(first, message)
}

// plainTypes names the types of ours without their package.
var plainTypes = strings.NewReplacer(dateType.String(), "date")

// PlacedError says what is wrong at a place of an expression.
type PlacedError struct {
	Line, Column int // from 1
	Message      string
}

func (e *PlacedError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// placed returns a message in one line, with the place that it is about.
func placed(issue *cel.Error, message string) error {
	message = strings.Join(strings.FieldsFunc(plainTypes.Replace(message), func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if len(message) > maxErrorBytes {
		message = strings.ToValidUTF8(message[:maxErrorBytes], "") + "…"
	}
	return &PlacedError{issue.Location.Line(), issue.Location.Column() + 1, message}
}

// sizes tell the cost model how long the text of a name can be, each of a list of texts, or the
// list itself. What is longer than that is not read, so that the bound at compile time holds:
// counting the cost of each evaluation of a rule as well would double it.
type sizes func(name string, list bool) int

// EstimateSize implements [cost.Estimator].
func (s sizes) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	path := element.Path()
	switch t := element.Type(); {
	case t.IsExactType(dateType), t.IsExactType(decimalType), t.IsExactType(partType):
		return &cost.SizeEstimate{Min: 1, Max: 1}
	case len(path) > 0 && (t.IsExactType(cel.StringType) || t.Kind() == types.ListKind):
		return &cost.SizeEstimate{Min: 0, Max: uint64(s(path[0], t.Kind() == types.ListKind))}
	default:
		return nil
	}
}

// EstimateCallCost implements [cost.Estimator].
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// resolver finds the values of one evaluation by name.
type resolver func(name string) (any, bool)

// ResolveName implements [cel.Activation].
func (r resolver) ResolveName(name string) (any, bool) { return r(name) }

// Parent implements [cel.Activation].
func (resolver) Parent() cel.Activation { return nil }

// constraint is a rule over the answers of a spec.
type constraint struct {
	rule      *Rule
	variables []bcp.Variable
}

// Holds implements [bcp.Constraint].
func (c *constraint) Holds(values []bcp.Value) (bool, error) {
	if !slices.EqualFunc(values, c.variables, func(v bcp.Value, of bcp.Variable) bool { return v.Kind == of.Kind }) {
		return false, ErrValues
	}
	switch c.rule.Evaluate(answers(values)) {
	case True:
		return true, nil
	case False:
		return false, nil
	}
	return false, ErrEvaluation
}

// answers are the values of one evaluation as facts.
type answers []bcp.Value

// Fact implements [Facts].
func (a answers) Fact(index int) Fact {
	v := &a[index]
	return Fact{State: FactKnown, Bool: v.Bool, Int: v.Int, Text: v.Text, date: date(v.Date)}
}
