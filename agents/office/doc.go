// Package office has the tools of an office for a tool service of a kernel: a mailbox that is read, an outbox, contacts,
// a calendar and files, all below one folder.
//
//	mail           a Maildir, an mbox file or a folder of messages: it is only read
//	contacts.vcf   vCards: they are only read
//	outbox/        a message for each mail that was sent, named by the key of its call
//	calendar.ics   iCalendar; an event that is added has the key of its call as its UID
//	files/         text files
//
// The kernel judges each call before it comes here, and its arguments are of the tool's schema. They are hostile all the
// same: a name of a file leads nowhere else, a header has no second line, and everything is bounded. What writes does it
// once for each key, also where a process died between the effect and its answer.
package office
