// Package imap copies a mailbox of an IMAP server into a Maildir, and changes nothing at the server.
//
// A keeper runs a [Copier]; what reads the mail reads the Maildir and never the server. The copier speaks TLS from the first
// byte on, opens the mailbox with EXAMINE and gets messages with BODY.PEEK: no flag is set. It speaks the few commands of IMAP
// that this takes, and no others (ADR 0119).
//
// Nothing that the server says is believed. Each command has a bound for the bytes of its answer and for its time, no name
// of a file comes from the server, and a message is in the Maildir as a whole or not at all. No error and no log has a word
// of the server, or the key.
package imap
