// Command agentdojo runs the task suites of AgentDojo on a mesh, and says for each user task how it can be done and what an
// attacker got: through a reasoning kernel, and through plain channels of category 1, 2 and 3.
//
//	go run ./examples/agentdojo [flags] DIR [OUT]
//
// DIR holds the suites as data (tasks.jsonl and suites/), which are not a part of this project. OUT is the Markdown file
// that is written; without one it goes to stdout. The exit code is 1 if a goal was reached through the kernel or through a
// channel of category 1 or 3, if words of an attacker came through one of those channels that nobody looked at, or if honest
// traffic raised an alert.
//
// What is played, and what is not: plans are made of the ground truth, so no model's skill is measured. What stands in the
// user's text is a constant of the plan, and what stands in an output is asked of a Reader. A reading tool returns the whole
// part of the environment that it reads from, with the goal in every place where one may stand: more than an attacker has. A
// writing tool does nothing but be noted. Where a rule asks a person, the person approves what the task needs and nothing
// else.
//
// With -honest N nobody attacks: each task is run N times over with one planner for each suite, and what is written is how
// long plans are and how near honest traffic comes to being suspected (docs/suspicion.md).
//
// With -provider and -model a model makes the plans and another call of it is the Reader, and the flags -record and -provider
// replay keep and repeat what it said.
package main
