package constraint

import "cel.dev/cel-go/cel"

// date is a [bcp.Date] as CEL sees it: an object with month, day and perhaps
// year. Two dates are equal where all three are.
type date struct {
	Year  int `cel:"year"`
	Month int `cel:"month"`
	Day   int `cel:"day"`
}

var dateType = cel.ObjectType("constraint.date")
