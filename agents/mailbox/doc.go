// Package mailbox reads real mail: a Maildir. [Box.Tools] lets a model read it.
//
//	for m, err := range mailbox.Messages(os.DirFS("Maildir")) { ... }
//
// Everything in a [Message] was written by strangers, and this package does not
// protect from it. A Reader answers from it, and the gateway decides what a
// Controller learns (BCP-12, BCP-18).
//
// A damaged message does not fail the mailbox: it comes with its readable parts
// and a list of [Defect] codes. Limits bound memory, whatever the size of the
// mailbox.
package mailbox
