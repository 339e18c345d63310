// Package tell writes decisions of the gateway as sentences for people, one style for
// the terminal and the page. Everything that an agent could have chosen is inert in
// them ([inert.Line]). The functions are pure, may be called concurrently, and never
// say anything of what a message held: decisions in the audit have commitments only.
package tell
