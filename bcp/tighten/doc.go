// Package tighten proposes the narrowest definitions of a channel that its history fits:
// [Propose] reads what the gateway accepted and people did not refuse, and narrows
// subscriptions and max_category; [Proposal.Decided] then sets rates and budgets by what
// deciding the same history again charged, and counts what it refused.
//
// A proposal only narrows: whatever it accepts, the definitions accepted before, with the
// same canonical bytes. A hostile message in the history can make a proposal
// wider than it might be, never wider than what is defined.
//
// It has no clock and no I/O. It is not for a history of fewer than [MinMessages].
package tighten
