// Package mailbox reads real mail: a Maildir. [Box.Tools] lets a model read it.
//
//	for m, err := range mailbox.Messages(os.DirFS("Maildir")) { ... }
//
// Everything in a [Message] was written by strangers, and this package does not
// protect from it. A Reader answers from it, and the gateway decides what a
// Controller learns (BCP-12, BCP-18). A damaged message does not fail the mailbox:
// it comes with its readable parts and a list of [Defect] codes. Limits bound
// memory, whatever the size of the mailbox.
//
// A [Copier] makes a Maildir of a mailbox of an IMAP server, at which nothing changes: it
// uses TLS from the first byte on, EXAMINE and BODY.PEEK, and few other commands (ADR 0131).
// A keeper runs it, and it reads no message; who reads them never sees the server. The
// server is not trusted: each command has a size limit for its answer and a timeout, no
// file name comes from the server, and a message is in the Maildir as a whole or not at
// all. Errors and logs contain no text of the server, and not the key.
package mailbox
