// Package cli is the framework of all commands: streams and environment,
// output (text, tables and JSON), errors with exit codes and hints, flags,
// questions to a person, and durable file writes. It knows nothing of meshes.
// The commands about the program itself (completion, help, version) are here
// too.
package cli
