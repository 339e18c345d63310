// Package onecall has agents that are a model with one tool, which takes the
// result: nothing is run when the model calls it.
//
// A [Reader] answers each query by one extraction from an untrusted text. The
// model reads the text in a fence and returns one object in the shape of the
// query's spec, or nothing; the gateway validates and charges it like any
// answer.
//
// A [Planner] is a kernel's. Its model sees only the task, the tools, the
// questions that Readers can answer, the limits and the error codes: the same
// task and tools give the same bytes. The plan goes unchanged to the kernel:
// only the kernel judges it. A sub-planner sees an instruction and content in
// place of the task. The content is cleaned, redacted and fenced, but may still
// hijack the model, so its plans are as tainted as the content.
package onecall
