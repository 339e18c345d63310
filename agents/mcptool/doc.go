// Package mcptool serves tools of MCP servers as tools of kernels and, if an
// operator named them, to the models of Readers ([Desk]).
//
// It passes calls of kernels to the server, and results back to the kernel,
// which judges them. It also drafts a definition for an operator to finish. The
// server's descriptions are untrusted: they are comments in the draft, and a
// tool whose listing has changed since it was reviewed is not called. Only the
// definition decides what a tool may do.
package mcptool
