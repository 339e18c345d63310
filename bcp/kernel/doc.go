// Package kernel turns tasks into effects that no content can choose.
//
// A requester starts a run. A planner, which sees the task and the tools and never
// any content, answers with a plan ([ParsePlan], [Kernel.Check]). The plan's steps
// run in order: constants and merges at once, content through Readers, calls
// through the gate ([Gate.Judge]). Every value has a [Label]: its origin, where it
// may flow, and how many of its bits content can have chosen. Where a kernel lets it,
// content steers a plan, at a price that is bounded before its first step
// ([Checked.Worst]).
//
// [State] is the state machine of all runs. Its Decide methods judge one
// message each and change nothing; the result is stored, applied
// ([State.Apply]) and then released ([State.Releases]), in this order. So a
// call is recorded before it is sent, and the state follows from the records
// alone.
//
// Nothing here has a clock, a network or a secret. Texts of agents and people
// are only in [Change.Private] and in releases to their recipients; codes,
// labels and events contain none.
package kernel
