package wires

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// maxStream bounds how much of a stream is read, including the JSON around each piece,
// in bytes.
const maxStream = 16 << 20

const (
	tooMuch = "the reply is longer than 1 MiB"
	cutOff  = "the reply was cut"
)

var (
	errTooMuch = errors.New(tooMuch)
	errCut     = errors.New(cutOff)
)

// readEvents reads server-sent events, as defined by WHATWG, and passes the data of each
// to event until event says that it was the last, or fails. A line and the data of an
// event are at most 1 MiB long. The error is one of event's, errTooMuch, or errCut: the
// stream ended or broke before the last event, whose blank line may be missing.
func readEvents(r io.Reader, event func(data []byte) (last bool, err error)) error {
	bounded := &io.LimitedReader{R: r, N: maxStream}
	lines := bufio.NewScanner(bounded)
	lines.Buffer(nil, maxReply)
	lines.Split(splitLines())
	var data []byte
	some := false // the event has data
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			if !some {
				continue
			}
			// A blank, or a comment as data, keeps a connection open.
			if data = bytes.TrimSpace(data); len(data) > 0 && data[0] != ':' {
				if last, err := event(data); last || err != nil {
					return err
				}
			}
			data, some = data[:0], false
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data"))
		if !ok || len(value) > 0 && value[0] != ':' {
			continue // a comment, or a field that no provider needs
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		if len(data)+len(value) >= maxReply {
			return errTooMuch
		}
		if some {
			data = append(data, '\n')
		}
		data, some = append(data, value...), true
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) || bounded.N <= 0 {
		return errTooMuch
	}
	whole := jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true)) || string(data) == "[DONE]"
	if lines.Err() == nil && whole { // but for the blank line behind it
		if last, err := event(data); last || err != nil {
			return err
		}
	}
	return errCut
}

// splitLines splits at LF, CR LF, and CR alone. It does not wait for what comes after a CR.
func splitLines() bufio.SplitFunc {
	skip := false // a LF at the beginning belongs to the line before
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		begin := 0
		if skip && len(data) > 0 {
			skip = false
			if data[0] == '\n' {
				begin = 1
			}
		}
		if end := bytes.IndexAny(data[begin:], "\r\n"); end >= 0 {
			skip = data[begin+end] == '\r'
			return begin + end + 1, data[begin : begin+end], nil
		}
		if atEOF && len(data) > begin {
			return len(data), data[begin:], nil
		}
		return begin, nil, nil
	}
}
