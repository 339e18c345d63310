// Package approvals has the commands of the people who decide about summaries:
// list, show, approve, edit, reject and watch. All text of agents goes through
// inert before it reaches a terminal.
package approvals
