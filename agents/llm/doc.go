// Package llm talks to language models, and keeps what they may be told apart
// by type: a prompt consists of parts, and a part is an [Instruction] (a
// constant of the program, or text of the operator), a [Data] (text in a fence,
// which package bcp/guard alone makes) or something that the model itself
// [Said]. No function takes a string for a part, so that a tool's result which
// nobody fenced does not compile into a prompt.
//
// A [Provider] is one way to a model. [Script] is the one that answers from a
// list. [Extract] has a model without tools turn hostile text into an object
// of a schema.
package llm
