// Package status has the types for the health of a mesh, its agents, what their models took,
// and its disk, and for what it answers its operator. It decides nothing about messages.
//
// It is for the operator alone: a Reader chooses what its process does, so a
// Controller may learn of it only by the codes of PROTOCOL P10.
package status
