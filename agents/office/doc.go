// Package office has office tools for a kernel's tool service: a read-only
// mailbox, an outbox, contacts, a calendar and files, all below one folder.
//
//	mail           a Maildir, an mbox file or a folder of messages: it is only read
//	contacts.vcf   vCards: they are only read
//	outbox/        a message for each mail that was sent, named by the key of its call
//	calendar.ics   iCalendar; an event that is added has the key of its call as its UID
//	files/         text files
//
// The kernel judges each call first, and its arguments fit the tool's schema.
// They are treated as hostile all the same: file names cannot leave the
// folder, headers are one line, and everything is bounded. A write happens
// once for each key, even if the process dies between the effect and its
// answer.
package office
