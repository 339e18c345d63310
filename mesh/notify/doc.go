// Package notify tells people what waits for them: held items, alerts and credentials
// that expire, by the routes of mesh.yaml (PROTOCOL P4.6).
//
// Each route has a durable cursor over the journal, which is all that has to outlive the
// process: a record is done when the route has taken it, and comes again until then, after
// kill -9 as well, on a cluster at whichever gateway serves. What a route has not taken is
// tried again for as long as it fails; nobody else waits for it.
//
// A notification has kinds, numbers, and names of the definitions. It has no word of an
// agent, and ids of items for people who may decide them alone.
package notify
