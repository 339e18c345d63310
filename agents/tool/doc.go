// Package tool is what the tools of a model have in common: strict arguments, a closed list of
// failures, and outside text that is made ready for one result.
//
// What a tool returns is either outside text, all of which the engine of a conversation fences
// (package llm), or a constant of this package. Nothing that came from outside is in a failure.
package tool
