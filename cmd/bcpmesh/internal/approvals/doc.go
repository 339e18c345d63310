// Package approvals has the commands of approvers: list, show, approve, edit,
// reject and watch. All text of agents is made inert before it reaches a
// terminal.
package approvals
