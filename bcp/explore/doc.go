// Package explore searches the commit protocol for a way to break a promise. It
// has tests alone.
//
// The search is breadth first over a small world: two gateways with a lease, one
// journal that appends by expected sequence, a Controller with two requests, a
// Reader with two pushes, two approvers, one clock. At each step anything may
// happen that can: a message comes, once or again; a record is stored and
// acknowledged, or no acknowledgement comes and the record is stored later or
// never; the lease passes on although its holder still serves; a gateway crashes
// and starts; time passes.
//
// What decides is the real code: every decision is made by [bcp.State], sealed,
// encoded as a record, decoded and applied, and every state that a gateway has is
// compared with a replay of the journal. What the search has of its own is the
// order of the gateway's commit step and of its recovery (gateway_test.go): the
// real one is step and recover of package mesh/gateway, which need a server.
//
// For each promise there are reverts: gateways that break one rule on purpose. A
// search that cannot find them would prove nothing.
package explore
