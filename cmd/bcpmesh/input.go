package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// maxLine bounds one line of input.
const maxLine = 16 << 20

// interruptible returns a reader of r that gives up when ctx ends, although a
// read of a terminal or a pipe cannot be ended. Its goroutine ends with r, or
// with the process.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	i := &interruptibleReader{done: ctx.Done(), cause: ctx.Err, chunks: make(chan chunk)}
	go func() {
		for {
			b := make([]byte, 64<<10)
			n, err := r.Read(b)
			select {
			case i.chunks <- chunk{b[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return i
}

type chunk struct {
	b   []byte
	err error
}

type interruptibleReader struct {
	done   <-chan struct{}
	cause  func() error // why done
	chunks chan chunk
	rest   chunk
}

// Read returns what was read, or the error of the context.
func (i *interruptibleReader) Read(b []byte) (int, error) {
	for len(i.rest.b) == 0 {
		if i.rest.err != nil {
			return 0, i.rest.err
		}
		select {
		case i.rest = <-i.chunks:
		case <-i.done:
			return 0, i.cause()
		}
	}
	n := copy(b, i.rest.b)
	i.rest.b = i.rest.b[n:]
	return n, nil
}

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
