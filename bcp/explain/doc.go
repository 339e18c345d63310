// Package explain gives the reasons for a decision: which rule decided, what
// it found, and what would have let the message through (PROTOCOL P11.3).
//
// It reads a record, and takes limits from the definitions. It decides nothing
// and needs no state, so an auditor can explain an export.
package explain
