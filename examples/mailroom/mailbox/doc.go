// Package mailbox reads real mail for the mailroom example: a Maildir, an mbox
// file or a single message file.
//
//	box, err := mailbox.Open("Maildir")
//	for m, err := range box.All() { ... }
//
// It stands on the tainted side: everything in a [Message] was written by
// strangers. Nothing here protects anybody from it; a Reader hands it to the
// gateway, and the gateway decides what a Controller learns (BCP-12, BCP-18).
//
// Damage never fails a mailbox. A message that cannot be read in full comes
// back with what could be read and a list of [Defect] codes, and the next one
// follows. Memory is bounded by [Limits] whatever the size of the mailbox.
//
// Two functions play the parts of a language model that the example does not
// have: [Extract] is an honest Reader made of word rules, and [FindInjection]
// is the ear of a hijacked one, which repeats what an attacker wrote. Neither
// is a safeguard. Do not use FindInjection to decide whether mail is safe.
package mailbox
