// Package conformance plays the other side against somebody's agent, and says
// which rules of the protocol it keeps.
//
//	rig, err := conformance.Start(ctx, conformance.Config{Role: bcp.RoleReader, State: folder})
//	// give the agent rig.URL() and rig.Creds(), and start it
//	report := rig.Check(ctx)
//	err = rig.Stop(ctx)
//
// The server is real, and so are accounts, creds and permissions. The gateway is
// this package: it can say what a gateway never says, such as a query that wants
// its answer on somebody else's subject. Nothing is kept: the mesh has one agent
// under test, and ends with the rig.
//
// An agent that is at work in its own mesh is judged by what others saw of it
// there, which is less: see [Judge].
//
// Every check has an id that never changes its meaning. What the agent does by
// its own will (push, ask) is judged where it does it, and is otherwise unseen.
package conformance
