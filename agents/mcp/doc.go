// Package mcp lets any host of the Model Context Protocol be an agent of a mesh:
// it serves one agent, in one role, as MCP tools and a prompt.
//
// A Controller's host gets BCPQuery, BCPInbox, BCPBudget and BCPSubscribe; a
// Reader's host gets BCPQueries, BCPRespond and, if its definition lists it and a
// subscription names it, BCPPublish. The schemas of the tools list the agent's
// own channels and subscriptions, and the host is told when a reload changes
// them.
//
// The package is a client of the mesh like any other: it uses package agents and
// an agent's own credentials, on the same subjects and under the same permissions.
// From a Reader, a Controller's host gets only what the gateway delivered.
//
// Shortest correct use:
//
//	server := mcp.New(name, bcp.RoleController, mcp.Options{})
//	server.Serve or server.Handler; server.Start with a connection; server.Stop
//
// A host may start before the mesh: it is answered at once, and its questions
// about the agent wait for Start. [Host] enters the server in the configuration
// file of a host, as text.
package mcp
