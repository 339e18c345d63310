// Package a2aserver lets any client of the Agent2Agent protocol (A2A 1.0, JSON-RPC)
// be a Controller: an ask is a task, and its answer is the task's only artifact.
//
// A client's message names a Reader and a spec in its data part. From a Reader
// the client gets only what the gateway delivered, and constant texts of this
// package. Rules, prices and permissions are those of any Controller; the
// client has only that Controller's rights.
//
// A task has the id of its query, and a repeated message gets the same task, so
// nothing is charged twice. A delivery is acknowledged once a client has it,
// and is redelivered until then, also after a restart. A query that waits for a
// person is a task in state working: a client learns only what a Controller may
// show.
//
// Shortest correct use:
//
//	server := a2aserver.New(connection)
//	server.Start, server.Handler, server.Stop
package a2aserver
