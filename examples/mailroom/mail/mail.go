// Package mail carries the example mailbox inside the program, so that the
// demonstration runs from any folder. Read it with mailbox.Messages(mail.FS).
//
// Every message is fiction: senders, amounts and accounts are made up, all
// domains are reserved for documentation, and all addresses of servers come
// from the blocks of RFC 5737. See README.md for what is in it.
package mail

import "embed"

// FS holds the Maildir folders cur and new. It is read-only and safe for
// concurrent use.
//
//go:embed cur new
var FS embed.FS
