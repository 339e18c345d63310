package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// unreadPipe is a peer whose program does not read what it is sent, and may say something.
func unreadPipe(t *testing.T) (p *peer, unread, out, in, says *os.File) {
	t.Helper()
	unread, out, err := os.Pipe()
	noError(t, err)
	in, says, err = os.Pipe()
	noError(t, err)
	t.Cleanup(func() {
		for _, f := range []*os.File{unread, out, in, says} {
			_ = f.Close()
		}
	})
	p = newPeer(out)
	p.patience = time.Hour
	return p, unread, out, in, says
}

// A program that does not read what it is sent stalls nothing else: a call ends with its context though a line is being
// written, what the program says is read on, also where we have something to say about it, and it is given up after a while.
func TestWritingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	p, unread, out, in, says := unreadPipe(t)
	read := make(chan error, 1)
	go func() { read <- p.read(in, 1<<20, func(message) {}) }()
	asks := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := p.ask(ctx, "query", strings.Repeat("x", 1<<20))
			ended <- err
		}()
		return ended
	}
	answered := asks(t.Context())
	if _, err := unread.Read(make([]byte, 1)); err != nil { // the line has begun, and does not go on
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits any more")
	waits := asks(ctx)
	cancel(gone)
	if err := <-waits; !errors.Is(err, gone) {
		t.Error(err)
	}
	for _, line := range []string{"no message", `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if _, err := io.WriteString(says, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	noError(t, <-answered)
	blocked := asks(t.Context())
	noError(t, out.SetWriteDeadline(time.Now())) // the hour is over
	for _, ended := range []<-chan error{blocked, read, asks(t.Context())} {
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the program read nothing within") {
			t.Error(err)
		}
	}
}

// What is said to a program that does not read is bounded.
func TestUnreadLinesAreBounded(t *testing.T) {
	t.Parallel()
	p, _, out, _, _ := unreadPipe(t)
	for range maxUnread>>20 + 1 { // the first may be at the system
		p.notify("news", strings.Repeat("x", 1<<20))
	}
	if err := p.send(message{Method: "more"}, nil); err == nil || !strings.Contains(err.Error(), "does not read") {
		t.Error(err)
	}
	_ = out.SetWriteDeadline(time.Now())
}

var noError = bcptest.NoError
