package stdio

import (
	"context"
	"errors"
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
