// Package facts plays the parts of a language model that the mailroom example does
// not have: [Extract] is an honest Reader of mail made of word rules, and
// [FindInjection] is the ear of a hijacked one, which repeats what an attacker
// wrote. Neither is a safeguard. Do not use FindInjection to decide whether mail is
// safe.
package facts
