package constraint

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxExtraction bounds the cost of one extraction. It runs in a Reader, on what a foreign
// program said: more than a constraint may cost, and not without end.
const maxExtraction = 1_000_000

// extractionStrings is the version of the strings extension, whose functions docs/bridges.md names.
const extractionStrings = 3

// Extraction takes a value out of a result: see [CompileExtraction]. It may be used
// concurrently.
type Extraction struct{ program cel.Program }

// CompileExtraction compiles an expression over `result` and `arguments`, which are
// trees of any, in the standard language of CEL with its macros and the functions of its strings extension. A Reader makes its answer
// of it; what comes out is judged by the gateway like any answer.
func CompileExtraction(expression string) (extraction *Extraction, err error) {
	defer func() {
		if recover() != nil { // the parser is a large generated program
			extraction, err = nil, errPrepare
		}
	}()
	if len(expression) == 0 || len(expression) > bcp.MaxConstraintBytes {
		return nil, fmt.Errorf("expected an expression of 1 to %d bytes", bcp.MaxConstraintBytes)
	}
	environment, err := cel.NewEnv(cel.Variable("result", cel.DynType), cel.Variable("arguments", cel.DynType), ext.Strings(ext.StringsVersion(extractionStrings)),
		cel.ParserExpressionSizeLimit(bcp.MaxConstraintBytes), cel.ParserRecursionLimit(maxDepth*4), cel.ExpressionNestingDepthLimit(maxDepth*4))
	if err != nil {
		return nil, errPrepare
	}
	tree, issues := environment.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, placed(first, first.Message)
	}
	program, err := environment.Program(tree, cel.CostLimit(maxExtraction))
	if err != nil {
		return nil, errPrepare
	}
	return &Extraction{program}, nil
}

// Value evaluates it: the result is a boolean, a whole number or text. The error says
// nothing about the values.
func (e *Extraction) Value(result, arguments any) (value any, err error) {
	defer func() {
		if recover() != nil {
			value, err = nil, ErrEvaluation
		}
	}()
	out, _, err := e.program.Eval(map[string]any{"result": result, "arguments": arguments})
	if err != nil {
		return nil, ErrEvaluation
	}
	switch v := out.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.String:
		return string(v), nil
	}
	return nil, errNoAnswer
}

var errNoAnswer = errors.New("the expression gives no boolean, whole number or text")
