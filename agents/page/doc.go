// Package page makes text for agents of what a host served: it decodes the
// character set, finds the readable part of an HTML page, and writes it as
// text with headings, lists, tables and numbered links. What a person would
// not see (scripts, styles, comments, hidden elements) is left out.
//
// It runs where hostile bytes are read, inside the agent's process. Package
// agents/fetch, which gets the bytes, runs outside of it.
package page
