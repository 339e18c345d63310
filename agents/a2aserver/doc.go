// Package a2aserver lets any client of the Agent2Agent protocol (A2A 1.0, JSON-RPC)
// be a Controller: an ask is a task, and its answer the task's one artifact.
//
// What comes in is a client's message, whose data part names a Reader and a spec. What
// goes out is what the gateway delivered, and texts of this package: nothing else of a
// Reader reaches a client. The gateway's rules, prices and permissions are those of any
// Controller, and the client has that Controller's rights and no more.
//
// A task has the id of its query, and a message that is sent again the same task, so
// nothing is charged twice. A delivery is acknowledged when a client was given it; until
// then it comes again, also after a restart. A query that waits for a person is a task
// that works: a client learns no more than a Controller's program may show.
//
// Shortest correct use:
//
//	server := a2aserver.New(connection)
//	server.Start, server.Handler, server.Stop
package a2aserver
