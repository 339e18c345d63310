// Package replay records what a cell (package cell) is asked and asks for, and runs a cell again on such a record: without a
// mesh, keys or network, and request for request the same, or with another model over the content that was recorded.
//
// A record is as hostile as what the agent had read. Nothing here trusts it: a cell reads it as it reads anything else, and
// whoever shows a part of it makes it inert.
package replay
