// Package explain says why a decision came out as it did: by which rule, what that rule
// found, and what would have let the message through (PROTOCOL P11.3).
//
// It reads a record, and the definitions for the values of their keys. It decides nothing
// and needs no state, so that an auditor can explain an export.
package explain
