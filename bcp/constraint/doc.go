// Package constraint compiles the consistency conditions of a spec: CEL
// expressions over the typed, normalised answers (PROTOCOL P3.7).
//
//	c, err := constraint.Compile("(q_date.month <= 3) == q_is_q1", variables)
//	holds, err := c.Holds(values)
//
// The language is a part of CEL that always ends, always gives the same
// result, and whose cost is bounded before and while it runs:
//
//   - values: booleans, 64-bit integers, texts, and dates with the integers
//     month, day and, where has(d.year) says so, year; lists in brackets;
//   - operators: ! && || ?: == != < <= > >= in, and + - * / % on integers;
//   - functions on texts: size, contains, startsWith, endsWith.
//
// There are no regular expressions, no clock, no time zone, no floating point,
// no conversions, and no macro but has. Integer overflow and division by zero
// are errors, and an error counts as a condition that does not hold.
//
// An expression is written by an operator or a Controller, never by a Reader:
// errors of [Compile] may quote it. Errors of evaluation quote nothing.
package constraint
