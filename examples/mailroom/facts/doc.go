// Package facts replaces a language model in the mailroom example: [Extract]
// reads mail honestly by word rules, and [FindInjection] finds the instruction
// that a hijacked Reader repeats. Neither is a safeguard. Do not use
// FindInjection to decide whether mail is safe.
package facts
