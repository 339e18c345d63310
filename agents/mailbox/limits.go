package mailbox

import "time"

// Limits bounds the work and memory for mail. A field that is zero or negative
// takes its default.
type Limits struct {
	// MaxMessageBytes is the size up to which a message is kept; the rest is
	// counted and dropped, and the message is marked [TooLarge]. 8 MiB holds the
	// text of any mail together with the usual attachments.
	MaxMessageBytes int
	// MaxMessages ends a mailbox with [ErrTooManyMessages]. A Reader works
	// through a mailbox in one sitting; 100,000 is years of one person's mail.
	MaxMessages int
	// MaxParts is the number of MIME parts of a message that are read,
	// including containers; real mail has under 50.
	MaxParts int
	// MaxDepth is how deep containers and attached messages may nest, the
	// message itself being depth 1; real mail stays under 6.
	MaxDepth int
	// MaxTextBytes is the size of Text and of Hidden, each, in bytes of UTF-8.
	MaxTextBytes int
	// MaxAttachmentText is the size of the text of one attachment.
	MaxAttachmentText int
}

const (
	defaultMaxMessageBytes   = 8 << 20
	defaultMaxMessages       = 100_000
	defaultMaxParts          = 200
	defaultMaxDepth          = 12
	defaultMaxTextBytes      = 256 << 10
	defaultMaxAttachmentText = 64 << 10

	// maxHeaderBytes is how much of a message's header block is parsed: twice
	// what common servers accept. A longer one is cut at the end of a line.
	maxHeaderBytes = 256 << 10
	// maxFieldBytes is one decoded header field; addresses of a long To line are
	// of no use to anybody here.
	maxFieldBytes = 4 << 10
	// maxRecipients is the number of addresses kept of a field.
	maxRecipients = 50
	// maxDirEntries is the number of names in one folder of a Maildir beyond
	// which it is refused: sorting needs them all in memory.
	maxDirEntries = 500_000
	// maxHTML bounds the bytes of HTML of a message that are parsed, and parseTime
	// how long; what comes later is left out, and the message is marked [TextCut].
	maxHTML   = 4 << 20
	parseTime = 10 * time.Second
	// maxPostmarkBytes is how much of a line is looked at to recognise the
	// separator of an mbox file.
	maxPostmarkBytes = 512
)

// DefaultLimits returns the limits that [Open] uses.
func DefaultLimits() Limits {
	return Limits{}.withDefaults()
}

func (l Limits) withDefaults() Limits {
	fill := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	fill(&l.MaxMessageBytes, defaultMaxMessageBytes)
	fill(&l.MaxMessages, defaultMaxMessages)
	fill(&l.MaxParts, defaultMaxParts)
	fill(&l.MaxDepth, defaultMaxDepth)
	fill(&l.MaxTextBytes, defaultMaxTextBytes)
	fill(&l.MaxAttachmentText, defaultMaxAttachmentText)
	return l
}
