// Package imap copies a mailbox of an IMAP server into a Maildir, and changes nothing at the server.
//
// A keeper runs a [Copier]; readers of the mail read the Maildir and never the server.
// The copier uses TLS from the first byte on, opens the mailbox with EXAMINE and gets
// messages with BODY.PEEK: no flag is set. It supports only the few commands of IMAP that
// this needs (ADR 0131).
//
// The server is not trusted. Each command has a size limit for its answer and a timeout,
// no file name comes from the server, and a message is in the Maildir as a whole or not
// at all. Errors and logs contain no text of the server, and not the key.
package imap
