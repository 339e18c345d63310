// Package byhand has the commands with which a person acts as an agent or upon
// one: query, publish, answer, inbox, session and taint.
package byhand
