// Package meshtest runs throw-away meshes for tests: a real server, gateway
// and journal in this process, from definition texts, in the test's temporary
// folder.
//
//	m := meshtest.Start(t, map[string]string{"main.md": …, "mailer.md": …})
//	reader := m.Connect(t, "mailer", bcp.RoleReader)
//	queries := reader.Queries(t)
//
// Agents are plain NATS clients with creds of the mesh: whatever a test does,
// an agent in any language can do. [Mesh.Wait] waits for a decision of the
// gateway instead of sleeping, and [Mesh.Settle] until all decisions have been
// sent.
//
// [CheckJournal] reads a journal without the state that made it, and
// recomputes its balances.
//
// It is only for tests; no program imports it.
package meshtest
