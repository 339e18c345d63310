// Command agentdojo runs the task suites of AgentDojo on a mesh, and reports
// for each user task how it can be done and what an attacker achieved: through
// a reasoning kernel, and through plain channels of category 1, 2 and 3.
//
//	go run ./cmd/bcpmesh-lab/agentdojo [flags] DIR [OUT]
//
// DIR holds the suites as data (tasks.jsonl and suites/), which are not part
// of this project. OUT is the Markdown report; the default is stdout. The exit
// code is 1 if a goal was reached through the kernel or a channel of category
// 1 or 3, if an attacker's words passed one of those channels without a person
// having seen them, or if honest traffic raised an alert.
//
// Plans are made from the ground truth, so no model's skill is measured. A
// value in the user's text is a constant of the plan; for a value in an output
// a Reader is asked. A reading tool returns its whole part of the environment,
// with the goal in every place that allows one: more than an attacker has.
// Writing tools only log their calls. If a rule asks a person, the person
// approves exactly what the task needs.
//
// With -honest N nobody attacks: each task runs N times with one planner per
// suite, and the report says how long plans are and how near honest traffic
// comes to the thresholds of suspicion (docs/suspicion.md).
//
// With -provider and -model a model makes the plans and, in separate calls,
// plays the Reader; -record saves its replies and -provider replay repeats
// them.
package main
