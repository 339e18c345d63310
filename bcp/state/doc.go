// Package state is the gateway's state, and decides from it (PROTOCOL P4 to
// P9): budgets, sessions, escalations, approvals, release order, taint.
//
// A Decide method of [State] takes a message and a [bcp.Moment], returns a [bcp.Decision] and
// changes nothing. Once the decision is recorded, [State.Apply] changes the state. Nothing else
// does, so a journal replays to the state that wrote it. [State.Checkpoint] and [Restore] save
// and load it, [Redecider] decides a journal again, [Recount] adds up its charges alone.
//
// It reads no clock, draws no random numbers and has no effects: those belong
// to the caller. A State is for one goroutine.
package state
