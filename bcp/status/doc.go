// Package status has the words for how a mesh is: its agents and its disk. It decides
// nothing about what an agent says.
//
// It is for the operator alone: what a Reader's process does is the Reader's choice, so
// nobody who asks it may hear of it but by the codes of PROTOCOL P10.
package status
