package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unwrittenFormats are the formats of the server's lines about a stream that was not
// written: it says so nowhere else, and once after each time that it has opened the stream.
var unwrittenFormats = []string{"JetStream stream '%s > %s' critical write error: %v", "Filesystem permission denied while writing msg, disabling JetStream: %v"}

// quotingFormats begin the lines that quote clients without naming one first.
var quotingFormats = []string{"Removed sub", "Internal subscription on"}

// Unwritten reports whether the format of a line says that a stream was not written.
func Unwritten(format string) bool { return slices.Contains(unwrittenFormats, format) }

// Unsynced reports whether such a line says that it was a sync that failed.
func Unsynced(line string) bool { return strings.Contains(line, " critical write error: sync ") }

// Unopened reports whether a line is about a stream that cannot be opened.
func Unopened(line string) bool { return strings.HasPrefix(line, "  Error recreating stream ") }

// Unrecovered reports whether the server's health says of a stream that it was skipped.
func Unrecovered(failure string) bool { return strings.HasSuffix(failure, "could not be recovered") }

// Quoting returns the beginning of a format that quotes a client without naming one
// first, or nothing.
func Quoting(format string) string {
	for _, begins := range quotingFormats {
		if strings.HasPrefix(format, begins) {
			return begins
		}
	}
	return ""
}

// Client is a line of the server about a client.
type Client struct {
	ID   uint64 // of the connection
	Tail string // the rest: the server's own format or text
}

// ParseClient reads `host:port - cid:N - "client's words" - "account/user" -
// tail`, where both quoted parts may be absent. The client chose the first one,
// so it is skipped as a quoted string and not searched.
func ParseClient(line string) (Client, bool) {
	address, rest, ok := strings.Cut(line, " - ")
	if !ok || address == "" || strings.ContainsAny(address, " \"") {
		return Client{}, false
	}
	kind, rest, ok := strings.Cut(rest, ":")
	if kind = strings.TrimSuffix(kind, "_ws"); !ok || len(kind) != len("cid") || kind[1:] != "id" {
		return Client{}, false
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	id, err := strconv.ParseUint(rest[:digits], 10, 64)
	if err != nil {
		return Client{}, false
	}
	line = rest[digits:]
	for {
		tail, _ := strings.CutPrefix(line, " - ")
		quoted, err := strconv.QuotedPrefix(tail)
		if err != nil || quoted[0] != '"' {
			return Client{ID: id, Tail: tail}, true
		}
		line = tail[len(quoted):]
	}
}

// Refused is what the server refused. The numbers are those of an operation of package
// server; zero is nothing.
type Refused uint8

// What is refused.
const (
	Connect   Refused = 1
	Publish   Refused = 2
	Subscribe Refused = 3
)

// SlowConsumer begins a line about a client that does not read.
const SlowConsumer = "Slow Consumer"

// The server's words about refusals.
const (
	publishRefused   = "Publish Violation - Subject "
	replyRefused     = "Publish Violation - Reply "
	subscribeRefused = "Subscription Violation"
	authFailed       = "authentication error"
	subjectMark      = " - Subject "
)

// Refusal returns what was refused, or zero if the line is not about a refusal.
// args are those of the line's format, if it has any.
func (c Client) Refusal(args []any) (Refused, string) {
	switch {
	case strings.HasPrefix(c.Tail, publishRefused), strings.HasPrefix(c.Tail, replyRefused):
		if len(args) > 0 {
			// The client's words before may contain verbs; the subject is the
			// server's last argument.
			return Publish, fmt.Sprintf("%s", args[len(args)-1])
		}
		return Publish, ""
	case strings.HasPrefix(c.Tail, subscribeRefused):
		_, subject, _ := strings.Cut(c.Tail, subjectMark)
		if quoted, err := strconv.QuotedPrefix(subject); err == nil {
			if subject, err = strconv.Unquote(quoted); err == nil {
				return Subscribe, subject
			}
		}
		return Subscribe, ""
	case strings.HasPrefix(c.Tail, authFailed):
		return Connect, ""
	case strings.HasPrefix(c.Tail, "%v - %s") && len(args) > 0 && fmt.Sprint(args[0]) == authFailed:
		return Connect, ""
	}
	return 0, ""
}

// classes are constants that replace lines that quote clients.
var classes = []struct{ begins, says string }{
	{publishRefused, "refused a publish"},
	{replyRefused, "refused a publish"},
	{subscribeRefused, "refused a subscription"},
	{authFailed, "refused a connection"},
	{"%v - %s", "refused a connection"},
	{"maximum payload exceeded", "disconnected a client: its message is too large"},
	{"%s: %d vs %d", "disconnected a client: its message is too large"},
	{"maximum subscriptions exceeded", "refused a subscription: there are too many"},
	{"maximum account active connections exceeded", "refused a connection: there are too many"},
	{SlowConsumer, "a client reads too slowly"},
	{"Client parser ERROR", "disconnected a client: not the protocol"},
}

// Class returns the constant that replaces a line.
func (c Client) Class() string {
	for _, class := range classes {
		if strings.HasPrefix(c.Tail, class.begins) {
			return class.says
		}
	}
	return "an event of a client"
}
