package server

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

// saysUnwritten reports whether the format of a line says that a stream was not written.
func saysUnwritten(format string) bool { return slices.Contains(unwrittenFormats, format) }

// saysUnsynced reports whether such a line says that it was a sync that failed.
func saysUnsynced(line string) bool { return strings.Contains(line, " critical write error: sync ") }

// saysUnopened reports whether a line is about a stream that cannot be opened.
func saysUnopened(line string) bool { return strings.HasPrefix(line, "  Error recreating stream ") }

// saysUnrecovered reports whether the server's health says of a stream that it was skipped.
func saysUnrecovered(failure string) bool {
	return strings.HasSuffix(failure, "could not be recovered")
}

// quoting returns the beginning of a format that quotes a client without naming one
// first, or nothing.
func quoting(format string) string {
	if i := slices.IndexFunc(quotingFormats, func(begins string) bool { return strings.HasPrefix(format, begins) }); i >= 0 {
		return quotingFormats[i]
	}
	return ""
}

// clientLine is a line of the server about a client.
type clientLine struct {
	ID   uint64 // of the connection
	Tail string // the rest: the server's own format or text
}

// parseClient reads `host:port - cid:N - "client's words" - "account/user" -
// tail`, where both quoted parts may be absent. The client chose the first one,
// so it is skipped as a quoted string and not searched.
func parseClient(line string) (clientLine, bool) {
	address, rest, ok := strings.Cut(line, " - ")
	if !ok || address == "" || strings.ContainsAny(address, " \"") {
		return clientLine{}, false
	}
	kind, rest, ok := strings.Cut(rest, ":")
	if kind = strings.TrimSuffix(kind, "_ws"); !ok || len(kind) != len("cid") || kind[1:] != "id" {
		return clientLine{}, false
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	id, err := strconv.ParseUint(rest[:digits], 10, 64)
	if err != nil {
		return clientLine{}, false
	}
	line = rest[digits:]
	for {
		tail, _ := strings.CutPrefix(line, " - ")
		quoted, err := strconv.QuotedPrefix(tail)
		if err != nil || quoted[0] != '"' {
			return clientLine{ID: id, Tail: tail}, true
		}
		line = tail[len(quoted):]
	}
}

// The server's words about what it refuses.
const (
	publishRefused   = "Publish Violation - Subject "
	replyRefused     = "Publish Violation - Reply "
	subscribeRefused = "Subscription Violation"
	authFailed       = "authentication error"
	authFormat       = "%v - %s"
	subjectMark      = " - Subject "
	// slowConsumer begins a line about a client that does not read.
	slowConsumer = "Slow Consumer"
)

// classes are constants that replace lines about clients, which quote them, by their
// beginnings; and what was refused.
var classes = []struct {
	begins, says string
	refused      Operation
}{
	{publishRefused, "refused a publish", Publish},
	{replyRefused, "refused a publish", Publish},
	{subscribeRefused, "refused a subscription", Subscribe},
	{authFailed, "refused a connection", Connect},
	{authFormat, "refused a connection", ""}, // of authFailed alone
	{"maximum payload exceeded", "disconnected a client: its message is too large", ""},
	{"%s: %d vs %d", "disconnected a client: its message is too large", ""},
	{"maximum subscriptions exceeded", "refused a subscription: there are too many", ""},
	{"maximum account active connections exceeded", "refused a connection: there are too many", ""},
	{slowConsumer, "a client reads too slowly", ""},
	{"Client parser ERROR", "disconnected a client: not the protocol", ""},
	{tlsFailed, tlsFailed, ""},
}

// class returns the constant that replaces a line, and what was refused, if anything was,
// with its subject. args are those of the line's format, if it has any.
func (c clientLine) class(args []any) (says string, refused Operation, subject string) {
	says = "an event of a client"
	for _, class := range classes {
		if strings.HasPrefix(c.Tail, class.begins) {
			says, refused = class.says, class.refused
			break
		}
	}
	switch {
	case refused == Publish && len(args) > 0:
		// The client's words before may contain verbs; the subject is the
		// server's last argument.
		subject = fmt.Sprintf("%s", args[len(args)-1])
	case refused == Subscribe:
		_, quoted, _ := strings.Cut(c.Tail, subjectMark)
		if quoted, err := strconv.QuotedPrefix(quoted); err == nil {
			subject, _ = strconv.Unquote(quoted)
		}
	case strings.HasPrefix(c.Tail, authFormat) && len(args) > 0 && fmt.Sprint(args[0]) == authFailed:
		refused = Connect
	}
	return says, refused, subject
}
