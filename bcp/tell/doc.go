// Package tell writes decisions of the gateway as sentences for people, in one
// style for terminal and web, and explains them: which rule decided, what it found, and
// what would have let the message through (PROTOCOL P11.3). Everything that an agent could have chosen is
// made inert ([inert.Line]). The functions are pure, may be called
// concurrently, and say nothing of a message's content: decisions in the audit
// have commitments only.
package tell
