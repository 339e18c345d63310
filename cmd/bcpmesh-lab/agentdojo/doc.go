// Command agentdojo runs the task suites of AgentDojo or AgentDyn on a mesh, and reports
// for each user task how it can be done and what an attacker achieved: through
// a reasoning kernel, and through plain channels of category 1, 2 and 3.
//
//	go run ./cmd/bcpmesh-lab/agentdojo [flags] DIR [OUT]
//
// DIR holds the suites as data (tasks.jsonl and suites/; of AgentDyn also
// injections.jsonl and traces.jsonl), which are not part of this project. OUT is the Markdown report, which says what is played; the
// default is stdout. The exit code is 1 if a goal was reached through a channel
// of category 1 or 3, or if honest traffic raised an alert.
//
// With -provider and -model a model makes the plans and, in separate calls,
// plays the Reader. -attacker adds one who adapts to what is refused: a search,
// or the model again. -record writes transcripts to a folder, from which
// -provider replay makes the same page. Package score judges what was done.
package main
