// Package web turns web pages into text for agents, and has the tool web_fetch of
// an agent's model.
//
// [Read] decodes the character set of a page, finds the readable part of HTML,
// and writes it as text with headings, lists, tables and numbered links. It
// leaves out what a person would not see (scripts, styles, comments, hidden
// elements).
//
// It parses hostile bytes, and so runs inside the agent's process. Package
// agents/fetch, which gets the bytes, runs outside of it. The tool of one
// conversation, [NewTool], checks arguments, and returns extracted, cleaned, cut
// and redacted text, or a code.
package web
