package constraint

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
)

// extend returns a language with names, such as those of a spec or a tool.
func extend(language func() (*cel.Env, error), names []FactName) (*cel.Env, error) {
	options := make([]cel.EnvOption, len(names))
	for i, n := range names {
		if factTypes[n.Kind] == nil || n.Name == "" {
			return nil, fmt.Errorf("variable %d has no name or no kind", i+1)
		}
		options[i] = cel.Variable(n.Name, factTypes[n.Kind])
	}
	base, err := language()
	if err != nil {
		return nil, errors.New("the language cannot be set up")
	}
	extended, err := base.Extend(options...)
	if err != nil {
		return nil, errors.New("a name cannot be used in an expression")
	}
	return extended, nil
}

// date is a [bcp.Date] as CEL sees it: an object with month, day and perhaps
// year. Two dates are equal where all three are.
type date struct {
	Year  int `cel:"year"`
	Month int `cel:"month"`
	Day   int `cel:"day"`
}

var dateType = cel.ObjectType("constraint.date")
