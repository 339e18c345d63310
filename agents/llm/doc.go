// Package llm talks to language models, and separates instructions from data by
// type: a prompt consists of parts, and a part is an [Instruction] (a constant
// of the program, or text of the operator), a [Data] (text in a fence, which
// only package bcp/guard makes) or something that the model itself [Said]. No
// function takes a string as a part, so an unfenced tool result cannot get into
// a prompt: the code would not compile.
//
// A [Provider] is a connection to a model; [Script] is one that answers from a
// list. [Extract] makes a model without tools turn hostile text into an object
// that fits a schema.
package llm
