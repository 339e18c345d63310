// Package office has office tools for a kernel's tool service: a read-only
// mailbox, an outbox, contacts, a calendar and files, all below one folder.
//
//	mail           a Maildir, an mbox file or a folder of messages, read-only
//	contacts.vcf   vCards, read-only
//	outbox/        a message for each sent mail, named by the key of its call
//	calendar.ics   iCalendar; an added event has the key of its call as its UID
//	files/         text files
//
// The kernel judges each call first, and its arguments fit the tool's schema.
// They are still treated as hostile: file names cannot leave the folder,
// headers are one line, and all sizes are limited. A write happens once for
// each key, even if the process dies between the effect and its answer.
package office
