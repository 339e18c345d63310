// Package client connects a command to a running mesh as an agent, operator,
// auditor or approver, with the credentials that the flags name or the state
// folder allows, and serves until it is interrupted. It decides nothing.
package client
