// Package conformance tests an agent by playing its peers, and reports which
// rules of the protocol it keeps.
//
//	rig, err := conformance.Start(ctx, conformance.Config{Role: bcp.RoleReader, State: folder})
//	// give the agent rig.URL() and rig.Creds(), and start it
//	report := rig.Check(ctx)
//	err = rig.Stop(ctx)
//
// Server, accounts, creds and permissions are real. This package plays the
// gateway, and can send what a real one never sends, such as a query whose
// reply subject belongs to another agent. The mesh has only the agent under
// test, and is deleted afterwards.
//
// Every check has an id whose meaning never changes. Pushes and asks, which
// only the agent can start, are checked if it makes them, and otherwise
// reported as unseen.
package conformance
