// Package page turns web pages into text for agents: it decodes the character
// set, finds the readable part of an HTML page, and writes it as text with
// headings, lists, tables and numbered links. It leaves out what a person
// would not see (scripts, styles, comments, hidden elements).
//
// It parses hostile bytes, and so runs inside the agent's process. Package
// agents/fetch, which gets the bytes, runs outside of it.
package page
