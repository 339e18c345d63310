package mailbox

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// mbox splits an mbox file while reading it: one message and one buffer are in
// memory at a time. A message begins at a line "From " that comes first or after
// an empty line and looks like a postmark; lines that were quoted with ">" for
// that reason (">From ", ">>From ": mboxrd, and mboxo as far as it is
// recognisable) lose one ">".
type mbox struct {
	r *bufio.Reader
	f io.Closer
	// inside says that the postmark of the next message has been read.
	inside bool
}

// postmarkDate is the time of day and the year at the end of every postmark, in
// either order: "Mon Mar 2 08:05:10 2026", "08:05:10 +0000 2026".
var postmarkDate = regexp.MustCompile(`[0-9]{1,2}:[0-9]{2}.* [0-9]{4}\b`)

func isPostmark(line []byte) bool {
	return bytes.HasPrefix(line, []byte("From ")) && postmarkDate.Match(line)
}

func (b *mbox) next(maxBytes int) ([]byte, int64, bool, error) {
	if !b.inside {
		if err := b.skipToFirst(); err != nil {
			return nil, 0, false, err
		}
	}
	b.inside = false
	msg := messageBuffer{max: maxBytes}
	// The line before the postmark belongs to the format, not to the message, so
	// the end of an empty line is held back until the next line is known.
	var held []byte
	afterEmpty := false
	for {
		line, err := b.r.ReadSlice('\n')
		whole := err == nil || errors.Is(err, io.EOF)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			msg.add(held)
			return msg.kept, msg.size, false, nil
		}
		if len(line) == 0 {
			// As at a postmark, one empty line at the end is the format's.
			return msg.kept, msg.size, true, nil
		}
		if afterEmpty && isPostmark(line[:min(len(line), maxPostmarkBytes)]) {
			b.inside = true
			return msg.kept, msg.size, true, b.skipLine(whole)
		}
		msg.add(held)
		held = nil
		afterEmpty = whole && len(bytes.TrimRight(line, "\r\n")) == 0
		if afterEmpty {
			held = append(held, line...)
			continue
		}
		msg.add(unquote(line))
		if !whole {
			if err := b.copyLine(&msg); err != nil {
				return msg.kept, msg.size, false, nil
			}
		}
	}
}

// skipToFirst passes over empty lines and the first postmark.
func (b *mbox) skipToFirst() error {
	for {
		line, err := b.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(line) == 0 {
			return err
		}
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			continue
		}
		return b.skipLine(!errors.Is(err, bufio.ErrBufferFull))
	}
}

// skipLine drops the rest of a line that filled the buffer.
func (b *mbox) skipLine(whole bool) error {
	for !whole {
		_, err := b.r.ReadSlice('\n')
		whole = !errors.Is(err, bufio.ErrBufferFull)
		if err != nil && whole && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// copyLine adds the rest of a line that filled the buffer.
func (b *mbox) copyLine(msg *messageBuffer) error {
	for {
		piece, err := b.r.ReadSlice('\n')
		msg.add(piece)
		if err == nil || errors.Is(err, io.EOF) {
			return nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (b *mbox) Close() error { return b.f.Close() }

// unquote takes one ">" from a line of the form ">From ", ">>From " and so on.
func unquote(line []byte) []byte {
	rest := bytes.TrimLeft(line, ">")
	if len(rest) < len(line) && bytes.HasPrefix(rest, []byte("From ")) {
		return line[1:]
	}
	return line
}

// messageBuffer keeps the first max bytes and counts all.
type messageBuffer struct {
	kept []byte
	size int64
	max  int
}

func (m *messageBuffer) add(b []byte) {
	m.size += int64(len(b))
	if room := m.max - len(m.kept); room > 0 {
		m.kept = append(m.kept, b[:min(room, len(b))]...)
	}
}
