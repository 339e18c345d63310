package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// A program that reads nothing stalls nobody for longer than the deadline of who waits, and is given up after a while.
func TestNobodyWaitsForAProgramThatDoesNotRead(t *testing.T) {
	t.Parallel()
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	in, silent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := newPeer(out)
	p.patience = time.Hour
	blocked := make(chan error, 1)
	go func() {
		_, err := p.ask(t.Context(), "query", strings.Repeat("x", 1<<20))
		blocked <- err
	}()
	read := make(chan error, 1)
	go func() { read <- p.read(in, 1<<20, func(message) {}) }()
	if _, err := unread.Read(make([]byte, 1)); err != nil { // the line has begun
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits any more")
	waits := make(chan error, 1)
	go func() {
		_, err := p.ask(ctx, "query", "x")
		waits <- err
	}()
	cancel(gone)
	if err := <-waits; !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := out.SetWriteDeadline(time.Now()); err != nil { // the hour is over
		t.Fatal(err)
	}
	for _, ended := range []chan error{blocked, read} {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the program read nothing within") {
			t.Error(err)
		}
	}
	if _, err := p.ask(t.Context(), "query", "x"); err == nil || !strings.Contains(err.Error(), "read nothing") {
		t.Error(err)
	}
}

// A program that does not read what it is sent stalls nothing else: a call ends with its context though its own line is being
// written, and what the program says is read on, also where we have something to say about it.
func TestWritingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	defer out.Close()
	from, says := io.Pipe()
	p := newPeer(out)
	p.patience = time.Hour
	read := make(chan error, 1)
	go func() { read <- p.read(from, 1<<20, func(message) {}) }()
	answered := make(chan error, 1)
	go func() {
		_, err := p.ask(t.Context(), "query", strings.Repeat("x", 1<<20))
		answered <- err
	}()
	if _, err := unread.Read(make([]byte, 1)); err != nil { // the line has begun, and does not go on
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits any more")
	waits := make(chan error, 1)
	go func() {
		_, err := p.ask(ctx, "query", strings.Repeat("x", 1<<20))
		waits <- err
	}()
	cancel(gone)
	if err := <-waits; !errors.Is(err, gone) {
		t.Error(err)
	}
	for _, line := range []string{"no message", `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if _, err := io.WriteString(says, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := out.SetWriteDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	_ = says.Close()
	<-read
}

// What is said to a program that does not read is bounded.
func TestUnreadLinesAreBounded(t *testing.T) {
	t.Parallel()
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	defer out.Close()
	p := newPeer(out)
	p.patience = time.Hour
	for range maxUnread>>20 + 1 { // the first may be at the system
		p.notify("news", strings.Repeat("x", 1<<20))
	}
	if err := p.send(message{Method: "more"}, nil); err == nil || !strings.Contains(err.Error(), "does not read") {
		t.Error(err)
	}
	_ = out.SetWriteDeadline(time.Now())
}
