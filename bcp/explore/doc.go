// Package explore searches the commit protocol for a way to break its
// guarantees. It contains tests only.
//
// The search is breadth first over a small world: two gateways with a lease, one
// journal that appends by expected sequence, a Controller with two requests, a
// Reader with two pushes, two approvers, one clock. At each step anything may
// happen that can: a message comes, once or again; a record is stored and
// acknowledged, or no acknowledgement comes and the record is stored later or
// never; the lease passes on although its holder still serves; a gateway crashes
// and starts; time passes.
//
// The real code decides: [bcp.State] makes every decision, which is sealed,
// encoded as a record, decoded and applied, and every state of a gateway is
// compared with a replay of the journal. Only the order of the gateway's
// commit step and recovery is a copy (gateway_test.go), since the originals,
// step and recover of package mesh/gateway, need a server.
//
// For each guarantee there are reverts: gateways that break one rule on
// purpose, which the search must find.
package explore
