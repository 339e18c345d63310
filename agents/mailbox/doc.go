// Package mailbox reads real mail: a Maildir, an mbox file or a single message
// file. [Tools] lets a model read it.
//
//	box, err := mailbox.OpenFS(os.DirFS("mail"), "Maildir")
//	for m, err := box.Next(); err == nil; m, err = box.Next() { ... }
//
// Everything in a [Message] was written by strangers, and this package does not
// protect from it. A Reader answers from it, and the gateway decides what a
// Controller learns (BCP-12, BCP-18).
//
// A damaged message does not fail the mailbox: it comes with its readable parts
// and a list of [Defect] codes. Limits bound memory, whatever the size of the
// mailbox.
package mailbox
