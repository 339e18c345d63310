// Package cli is what every command is written with: the program that it is
// given, its output (text, tables and JSON), failures with their exit codes and
// hints, flags, questions to a person, and files that are written whole. It knows
// no mesh. The commands about the program itself (completion, help, version) are
// here too.
package cli
