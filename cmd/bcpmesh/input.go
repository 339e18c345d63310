package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"

	"github.com/muesli/cancelreader"
)

// maxLine bounds one line of input.
const maxLine = 16 << 20

// interruptible returns a reader of r that gives up, with the error of ctx, when ctx
// ends while a pipe or a terminal has nothing to read. Files and what is in memory are
// read as they are: such reads end by themselves. On Windows so is everything, since
// there the library reads the console, also in place of a pipe; a second Ctrl-C ends
// the program. What it holds is released with the process.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	if runtime.GOOS == "windows" {
		return r
	}
	c, err := cancelreader.NewReader(r)
	if err != nil {
		return r // a file: the system does not wait for those
	}
	context.AfterFunc(ctx, func() { c.Cancel() })
	return readFunc(func(b []byte) (int, error) {
		n, err := c.Read(b)
		if errors.Is(err, cancelreader.ErrCanceled) {
			err = ctx.Err()
		}
		return n, err
	})
}

type readFunc func([]byte) (int, error)

// Read calls f.
func (f readFunc) Read(b []byte) (int, error) { return f(b) }

var errLongLine = errors.New("the line is longer than 16 MiB")

// lineReader reads lines of at most maxLine bytes in memory of that size.
type lineReader struct {
	r    *bufio.Reader
	line []byte
	n    int // of the line that was read last, from 1
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line without its end, valid until the next call. A
// longer line is skipped, with errLongLine. The error is io.EOF behind the
// last line.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	l.n++
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.line)+len(part) > maxLine+1 || long {
			long = true
		} else {
			l.line = append(l.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && !(errors.Is(err, io.EOF) && (len(l.line) > 0 || long)):
			return nil, err
		case long || len(bytes.TrimSuffix(l.line, []byte("\n"))) > maxLine:
			return nil, errLongLine
		default:
			return bytes.TrimSuffix(l.line, []byte("\n")), nil
		}
	}
}

// waits reports whether the next line is not here yet.
func (l *lineReader) waits() bool { return l.r.Buffered() == 0 }
