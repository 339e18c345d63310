// Package primitive reads the usual spellings of category 1 answers in one pass, without an allocation but the result.
//
// The shortest correct use is to make a [Matcher] of the fields of a spec, once, and to ask it first:
//
//	if canonical, ok := matcher.Match(raw); ok { deliver(canonical) }
//
// It only ever says yes. An answer that it does not know, be it valid or not, is for the validator of package bcp, which
// alone refuses and says why: so whoever leaves this package out gets the same verdicts, later. What it says yes to is what
// that validator accepts, as the same bytes (PROTOCOL P2.2, P3.1, P3.2); FuzzUsual of package bcp compares the two.
//
// What is usual: one object with each field once, in any order; keys without escapes, with the colon directly after;
// booleans, integers of up to 18 digits, and values of enums spelled as in the spec, without escapes; the white space of JSON.
package primitive
