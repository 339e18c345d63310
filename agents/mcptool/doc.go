// Package mcptool serves the tools of MCP servers as tools of kernels, and those that an
// operator named to the models of Readers ([Desk]).
//
// In come calls of kernels and what the server lists and returns; out go its results, to be
// judged by the kernel, and a draft of a definition for an operator to finish. Whatever the
// server says of itself is untrusted: it is in comments of the draft, and a tool that it
// lists otherwise than when somebody looked at it is not called. What a tool may do the
// definition decides, and nothing here.
package mcptool
