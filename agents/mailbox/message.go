package mailbox

import (
	"slices"
	"time"
)

// Message is one mail, decoded to UTF-8. All of its text is as its sender wrote
// it: look-alikes, invisible characters and lies included.
type Message struct {
	// ID is a hash of the message, with any line ends: two copies of a mail share
	// it. 16 hexadecimal digits.
	ID string
	// From is the first author. Its parts may be empty.
	From Address
	// To and Cc list the recipients of these fields, the first 50 of each.
	To, Cc []Address
	// Subject is decoded and on one line; empty if there is none.
	Subject string
	// Date is the Date field or, if that is missing or damaged, the time of the
	// newest Received field, in the zone that it says; zero if there is neither.
	Date time.Time
	// Text is the best visible text: the text/plain parts, or else the HTML
	// parts without markup. Lines end in \n.
	Text string
	// Hidden is text that a person does not see but a model gets: HTML
	// comments, hidden elements, texts of images, what stands beside the parts of
	// a container, and letters in invisible tag characters. Pieces are separated
	// by an empty line.
	Hidden string
	// Attachments are in the order of the message.
	Attachments []Attachment
	// ReplyTo is the field Reply-To, on one line.
	ReplyTo string
	// Size is the number of bytes of the message as it lay in the mailbox,
	// those past the limit included.
	Size int64
	// Defects lists the problems, each code once, in the order found. Empty for
	// a sound message.
	Defects []Defect
}

// Address is one mail address.
type Address struct {
	// Name is the display name; anybody may write anything there.
	Name string
	// Address is the part with the @, not checked.
	Address string
}

// String returns "Name <address>", or the part that exists.
func (a Address) String() string {
	switch {
	case a.Address == "":
		return a.Name
	case a.Name == "":
		return a.Address
	}
	return a.Name + " <" + a.Address + ">"
}

// Attachment is a part that is not the text of the message.
type Attachment struct {
	// Name is the file name that the sender gave, without folders; may be empty.
	Name string
	// Type is the media type in lower case, such as "application/pdf".
	Type string
	// Size is the decoded size in bytes.
	Size int
	// Text is the content when it is text, an attached message or a calendar.
	Text string
}

// Defect is a stable code for damage of a message.
type Defect string

// The closed list of defects.
const (
	TooLarge       Defect = "too_large"        // cut at [MaxMessage]
	HeaderTooLarge Defect = "header_too_large" // header block cut
	TooComplex     Defect = "too_complex"      // style sheets too costly: Text may have what they hide
	TooManyParts   Defect = "too_many_parts"   // parts past 200 left out
	TooDeep        Defect = "too_deep"         // parts past a depth of 12, or HTML from where it is too deep on, left out
	TextCut        Defect = "text_cut"         // Text, Hidden or an attachment's text cut
	BadHeader      Defect = "bad_header"       // a header line or field is malformed
	BadFrom        Defect = "bad_from"         // no valid author
	BadDate        Defect = "bad_date"         // no valid Date field
	BadEncoding    Defect = "bad_encoding"     // base64 or transfer encoding is damaged
	BadCharset     Defect = "bad_charset"      // charset unknown or guessed, or invalid bytes for it
	BadStructure   Defect = "bad_structure"    // MIME structure is damaged
	BadRecipient   Defect = "bad_recipient"    // a recipient without an address
	AddressesCut   Defect = "addresses_cut"    // not all authors or recipients are named
	VersionsDiffer Defect = "versions_differ"  // HTML that is not in Text has words that Text has not
	SetAside       Defect = "set_aside"        // reading it has ended a cell: it is not read
	Unreadable     Defect = "unreadable"       // nothing could be parsed or read
)

// Has reports whether the message has the defect.
func (m *Message) Has(d Defect) bool { return slices.Contains(m.Defects, d) }

func (m *Message) mark(d Defect) { m.note(true, d) }

// note adds a defect that holds, once.
func (m *Message) note(holds bool, d Defect) {
	if holds && !m.Has(d) {
		m.Defects = append(m.Defects, d)
	}
}
