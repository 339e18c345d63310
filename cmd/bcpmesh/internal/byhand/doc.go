// Package byhand has the commands by which a person acts as an agent: query,
// publish, answer, inbox, session and taint.
package byhand
