// Package tool has what all tools of a model share: strict arguments, a closed
// list of failures, and preparation of outside text as a result.
//
// A tool returns either outside text, which package llm fences whole, or a
// constant of this package. A failure contains nothing from outside.
package tool
