// Package replay records all messages to and from a cell (package cell), and
// runs a cell again on such a recording without a mesh, keys or network:
// request for request the same, or with another model on the recorded content.
//
// A recording is as hostile as the content that the agent read: a cell treats
// it like any other content, and callers must make it inert before they show
// it.
package replay
