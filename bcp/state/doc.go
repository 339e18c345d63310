// Package state is what a gateway remembers, and what it decides from that (PROTOCOL P4 to
// P9): budgets, sessions, escalations, approvals, release order, taint.
//
// What comes in is a message and a [bcp.Moment]: a Decide method of [State] returns a
// [bcp.Decision] and changes nothing. Once the decision is recorded, [State.Apply] changes
// the state, and nothing else does, so that a journal replays to the state that made it.
// [State.Checkpoint] and [Restore] save and read it, [Redecider] decides a journal again,
// and [Recount] adds its charges up without a state.
//
// It must not read a clock, draw a random number or act: those are the caller's. A State is
// for one goroutine.
package state
