// Package notify tells people about held items, alerts and expiring
// credentials, by the routes of mesh.yaml (PROTOCOL P4.6).
//
// Each route has a durable consumer of the journal and no other state: a record
// is redelivered until the route has taken it, also after kill -9, and on a
// cluster by whichever gateway serves. A failing route is retried until it
// works, and delays nothing else.
//
// A notification contains kinds, numbers, and names from the definitions, and
// no text of agents. Ids of items go only to people who may decide them.
package notify
