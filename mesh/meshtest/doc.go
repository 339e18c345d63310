// Package meshtest runs throw-away meshes for tests: a real server, gateway and
// journal in this process, from definition texts, in a folder of the test's.
//
//	m := meshtest.Start(t, map[string]string{"main.md": …, "mailer.md": …})
//	reader := m.Connect(t, "mailer", bcp.RoleReader)
//	queries := reader.Queries(t)
//
// Agents are stock NATS clients with creds of the mesh, and nothing more: what
// a test does through them, an agent in any language can do. [Mesh.Wait] waits
// for a decision of the gateway instead of sleeping, and [Mesh.Settle] until
// everything that was decided has been sent.
//
// [CheckJournal] reads a journal with none of the code that wrote it and sums
// up its balances from scratch.
//
// It is for tests alone; no program imports it.
package meshtest
