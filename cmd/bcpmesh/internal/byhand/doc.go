// Package byhand has the commands by which a person takes part in a mesh: query, publish, answer,
// inbox, session and taint, as an agent or its operator; and approvals, as an approver. All text of
// agents is made inert before it reaches a terminal.
package byhand
