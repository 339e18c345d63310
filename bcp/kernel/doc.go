// Package kernel turns tasks into effects that no content can choose.
//
// A requester starts a run. A planner, which sees the task and the tools and never
// any content, answers with a plan ([ParsePlan], [Kernel.Check]). The plan's steps
// run in order: constants and merges at once, content through Readers, calls
// through the gate ([Gate.Judge]). Every value has a [Label] that says where it came
// from, where it may flow, and how many bits of it content can have chosen.
//
// [State] is the machine of all runs. Its Decide methods judge one message each and
// change nothing; what they return is stored, applied ([State.Apply]) and then
// released ([State.Releases]), in this order. So a call is recorded before it is
// sent, and the state is what the records make of it.
//
// Nothing here knows a clock, a network or a secret. What agents and people said is
// in [Change.Private] and in what is released to those whom it is for; codes, labels
// and events hold none of it.
package kernel
