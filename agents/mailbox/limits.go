package mailbox

import "time"

// limits bounds the work and memory for mail. They are smaller in tests.
type limits struct {
	message        int // bytes of one that are kept; the rest is counted and dropped
	parts          int // of a message, including containers
	depth          int // of containers and attached messages in each other, the message itself being 1
	text           int // bytes of Text and of Hidden, each
	attachmentText int // bytes
}

// MaxMessage is the size up to which a message is kept, in bytes: the text of any mail together with the usual attachments.
const MaxMessage = 8 << 20

// standard are far from real mail, which has under 50 parts and a depth under 6.
var standard = limits{message: MaxMessage, parts: 200, depth: 12, text: 256 << 10, attachmentText: 64 << 10}

const (
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
)
