// Package subjects is the only one that defines the NATS subjects of a mesh: it
// builds, parses and matches them, and derives from the definitions what each
// agent and each person may publish and subscribe to.
//
// The shortest correct use, in a gateway and in an agent:
//
//	connection.Subscribe(subjects.All(subjects.KindAsk), func(m *nats.Msg) {
//		ask, err := subjects.Parse(m.Subject) // ask.Controller, ask.Reader
//	})
//	connection.Publish(subjects.Ask("main", "researcher"), body)
//
// Everything here is pure: text in, text out. Builders fail closed: if a part
// is invalid (a name with a dot or a wildcard, an empty id) they return the
// empty string, which no client or server accepts as a subject. Parse is strict
// and the exact inverse of the builders.
//
// Do not use subject patterns of your own against the mesh, and do not compare
// subjects by prefix: [Match] follows the server's rules.
package subjects
