package server

import (
	"errors"
	"fmt"
	"strconv"
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
	if c, is := parseClient(format); is {
		says, refused, subject := c.class(args)
		if refused != "" {
			a.denials.add(c.ID, refused, subject)
		}
		a.say(level, says, says, "client", c.ID)
		return
	}
	if c, is := parseClient(text); is { // the first argument: none of these is a refusal
		says, _, _ := c.class(nil)
		a.say(level, says, says, "client", c.ID)
		return
	}
	if begins := quoting(format); begins != "" {
		text = begins
	}
	text = printable(text, maxLine)
	switch {
	case saysUnwritten(format):
		select {
		case a.unwritten <- text:
		default: // one is enough
		}
	case saysUnopened(text):
		a.unopened.Store(&text)
	}
	a.say(level, printable(format, maxLine), text)
}

// tlsFailed is what this package itself says of a client.
const tlsFailed = "a TLS handshake failed"

// client logs what happened to a client before the server knew it.
func (a *adapter) client(what string) {
	says, _, _ := clientLine{Tail: what}.class(nil)
	a.say(hclog.Info, says, says, "client", uint64(0))
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
