// Package lint reads definitions as a reviewer would, before anything runs: [Advise] looks
// for a cheaper spec that asks the same, and [FlowOf] for what taint and bits can reach
// which agent, with findings such as private data, untrusted input and a way out in one.
//
// It changes and refuses nothing; whoever checks definitions shows what it says.
package lint
