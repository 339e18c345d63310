package server

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// maxLine bounds one line of the server in the log.
	maxLine = 400
	// maxLines is how many lines of one kind are logged in linesTime; more are only
	// counted. Otherwise a client, or a stranger, could fill the disk.
	maxLines  = 10
	linesTime = time.Minute
	// maxKinds bounds the kinds that are told apart: the server has some hundreds.
	maxKinds = 1024
)

// adapter gets the server's log. Lines about the server itself go to the
// logger. Lines about a client are replaced by a constant and the number of its
// connection, since they quote what the client chose; refusals among them go to
// denials. Any of the server's goroutines calls its methods, with its locks
// held: they wait only for the logger.
type adapter struct {
	logger  hclog.Logger
	denials *denials
	// unwritten gets the reason when a stream could not be written.
	unwritten chan string

	failed   atomic.Pointer[string]
	unopened atomic.Pointer[string] // the last line about a stream that could not be opened

	mu    sync.Mutex
	since time.Time
	count map[string]int // lines since then, by kind: a format, or a class
}

// fatal returns what the server called fatal. The server itself goes on.
func (a *adapter) fatal() error {
	if text := a.failed.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

// Noticef implements the server's logger.
func (a *adapter) Noticef(format string, args ...any) { a.write(hclog.Info, format, args) }

// Warnf implements the server's logger.
func (a *adapter) Warnf(format string, args ...any) { a.write(hclog.Warn, format, args) }

// Errorf implements the server's logger.
func (a *adapter) Errorf(format string, args ...any) { a.write(hclog.Error, format, args) }

// Fatalf implements the server's logger. It does not end the process.
func (a *adapter) Fatalf(format string, args ...any) {
	text := printable(render(format, args), maxLine)
	a.failed.CompareAndSwap(nil, &text)
	a.logger.Error(text)
}

// Debugf implements the server's logger. It is switched off: it quotes clients.
func (a *adapter) Debugf(string, ...any) {}

// Tracef implements the server's logger. It is switched off: it quotes clients.
func (a *adapter) Tracef(string, ...any) {}

func (a *adapter) write(level hclog.Level, format string, args []any) {
	text := render(format, args)
	c, isClient := parseClient(format)
	if isClient {
		if operation, subject := c.refusal(args); operation != 0 {
			a.denials.add(c.id, operation, subject)
		}
	} else {
		// Some formats have the client as their first argument; none of them is
		// a refusal.
		c, isClient = parseClient(text)
	}
	if isClient {
		a.writeClient(level, c)
		return
	}
	for _, quoting := range quotingFormats {
		if strings.HasPrefix(format, quoting) {
			text = quoting
		}
	}
	text = printable(text, maxLine)
	switch {
	case slices.Contains(unwrittenFormats, format):
		select {
		case a.unwritten <- text:
		default: // one is enough
		}
	case strings.HasPrefix(text, unopenedLine):
		a.unopened.Store(&text)
	}
	a.say(level, printable(format, maxLine), text)
}

const (
	tlsFailed    = "a TLS handshake failed"
	slowConsumer = "Slow Consumer"
)

// quotingFormats begin the lines that quote clients without naming one first.
var quotingFormats = []string{"Removed sub", "Internal subscription on"}

// client logs what happened to a client before the server knew it.
func (a *adapter) client(what string) { a.writeClient(hclog.Info, clientLine{tail: what}) }

func (a *adapter) writeClient(level hclog.Level, c clientLine) {
	class := c.class()
	a.say(level, class, class, "client", c.id)
}

// say logs a line, unless there were many of its kind.
func (a *adapter) say(level hclog.Level, kind, text string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); now.Sub(a.since) >= linesTime {
		for kind, count := range a.count {
			if count > maxLines {
				a.logger.Warn("lines were left out", "line", kind, "count", count-maxLines)
			}
		}
		a.since, a.count = now, map[string]int{}
	}
	if _, known := a.count[kind]; !known && len(a.count) >= maxKinds {
		kind = "of other kinds"
	}
	if a.count[kind]++; a.count[kind] <= maxLines {
		a.logger.Log(level, text, args...)
	}
}

// render is fmt.Sprintf, but uses a format without arguments verbatim: some of
// the server's contain what a client wrote.
func render(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// clientLine is a line of the server about a client.
type clientLine struct {
	id   uint64
	tail string // the rest: the server's own format or text
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
			return clientLine{id: id, tail: tail}, true
		}
		line = tail[len(quoted):]
	}
}

// The server's words about refusals.
const (
	publishRefused   = "Publish Violation - Subject "
	replyRefused     = "Publish Violation - Reply "
	subscribeRefused = "Subscription Violation"
	authFailed       = "authentication error"
	subjectMark      = " - Subject "
)

// refusal returns what was refused, or zero if the line is not about a refusal.
// args are those of the line's format, if it has any.
func (c clientLine) refusal(args []any) (Operation, string) {
	switch {
	case strings.HasPrefix(c.tail, publishRefused), strings.HasPrefix(c.tail, replyRefused):
		if len(args) > 0 {
			// The client's words before may contain verbs; the subject is the
			// server's last argument.
			return Publish, fmt.Sprintf("%s", args[len(args)-1])
		}
		return Publish, ""
	case strings.HasPrefix(c.tail, subscribeRefused):
		_, subject, _ := strings.Cut(c.tail, subjectMark)
		if quoted, err := strconv.QuotedPrefix(subject); err == nil {
			if subject, err = strconv.Unquote(quoted); err == nil {
				return Subscribe, subject
			}
		}
		return Subscribe, ""
	case strings.HasPrefix(c.tail, authFailed):
		return Connect, ""
	case strings.HasPrefix(c.tail, "%v - %s") && len(args) > 0 && fmt.Sprint(args[0]) == authFailed:
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
	{slowConsumer, "a client reads too slowly"},
	{tlsFailed, tlsFailed},
	{errRequest.Error(), "refused a client over WebSocket"},
	{"Client parser ERROR", "disconnected a client: not the protocol"},
}

func (c clientLine) class() string {
	for _, class := range classes {
		if strings.HasPrefix(c.tail, class.begins) {
			return class.says
		}
	}
	return "an event of a client"
}

// printable escapes everything but printable ASCII, and cuts at limit bytes.
func printable(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	quoted := strconv.QuoteToASCII(text)
	quoted = quoted[1 : len(quoted)-1]
	if len(quoted) > limit {
		quoted = quoted[:limit]
	}
	return quoted
}
