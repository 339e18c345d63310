package bcp

// Kind is the type of a Value in a constraint (PROTOCOL P3.7).
type Kind uint8

// The kinds.
const (
	KindBool Kind = 1
	KindInt  Kind = 2
	KindText Kind = 3 // texts, names, lists, e-mails, enums, times (15:04)
	KindDate Kind = 4
)

// Value is one typed, normalised answer, as a constraint sees it.
type Value struct {
	Kind Kind
	Bool bool
	Int  int64
	Text string
	Date Date
}

// Date is one calendar date; Year is 0 where the answer had none.
type Date struct {
	Year, Month, Day int
}

// Variable declares one answer to a constraint: the name of its field or the
// id of its question, with every hyphen written as an underscore, and its kind.
type Variable struct {
	Name string
	Kind Kind
}

// Constraint is a compiled condition over the answers of one spec. Holds takes
// the values in the order of the spec; false, or an error, makes the anomaly
// "inconsistent". It is pure, bounded in cost and safe for concurrent use.
type Constraint interface {
	Holds(values []Value) (bool, error)
}

// ConstraintCompiler compiles one expression against the answers of a spec.
// Package constraint has the one that is used in production.
type ConstraintCompiler func(expression string, variables []Variable) (Constraint, error)
