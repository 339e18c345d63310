package constraint

import "github.com/bcpmesh/bcpmesh/bcp"

// Limits of one constraint. The expression comes from an operator or a
// Controller, whose key may be stolen; the values come from a Reader.
const (
	// maxCost bounds the estimate at compile time and the cost of every
	// evaluation, in CEL's units: about one a step, one for each ten
	// characters that are compared. It is far above honest conditions and
	// keeps one evaluation below a millisecond.
	maxCost = 100_000
	// maxNodes and maxDepth bound the syntax tree.
	maxNodes = 256
	maxDepth = 32
	// maxTextChars is the longest text that an answer can have.
	maxTextChars = bcp.MaxAnswerChars
	// maxVariables is the number of answers that one spec can have.
	maxVariables = bcp.MaxFields
	// maxFactBytes and maxFactItems bound the texts and lists that a rule can read:
	// with maxCost they keep one evaluation below a millisecond.
	maxFactBytes = 1 << 16
	maxFactItems = 1 << 10
	// maxErrorBytes bounds an error of Compile.
	maxErrorBytes = 300
)
