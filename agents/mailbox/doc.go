// Package mailbox reads real mail: a Maildir, an mbox file or a single message file. [Tools] gives
// it to a model.
//
//	box, err := mailbox.Open("Maildir")
//	for m, err := range box.All() { ... }
//
// Everything in a [Message] was written by strangers. Nothing here protects anybody from it; a
// Reader hands it to the gateway, and the gateway decides what a Controller learns (BCP-12, BCP-18).
//
// Damage never fails a mailbox. A message that cannot be read in full comes back with what could be
// read and a list of [Defect] codes, and the next one follows. Memory is bounded by [Limits]
// whatever the size of the mailbox.
package mailbox
