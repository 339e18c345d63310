// Package lint reviews definitions before anything runs: [FlowOf] computes which
// taint and how many bits can reach which agent, with findings such as private
// data, untrusted input and a way out in one agent.
//
// It changes and refuses nothing; its callers show the findings.
package lint
