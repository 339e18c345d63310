package server

import (
	"bytes"
	"encoding/binary"
)

// maxRequest bounds a client's request for WebSocket.
const maxRequest = 8 << 10

// The first two bytes of a frame (RFC 6455, 5.2).
const (
	frameReserved = 0x70
	frameMasked   = 0x80
	frameLength   = 0x7f
	frameLength16 = 126
	frameLength64 = 127
	frameControl  = 0x08
)

// unmasked begins a line with which a client asks to omit the masks. No
// standard client does, and its data could be read in two ways.
var unmasked = []byte("nats-no-masking")

// frames parses what a client sends over WebSocket: one request, and then frames
// with masked lines. It refuses what the server would parse differently, so that
// no line is uncounted: compression, frames without a mask, another request. The
// zero value waits for the request.
type frames struct {
	request []byte // as far as it has arrived
	over    bool   // the request is

	head []byte // the part of a frame's head that has arrived
	room [14]byte
	left uint64 // of the frame's payload
	data bool   // and it is the client's, not of a ping or the end
	key  [4]byte
	at   int // place in the key
}

// read counts the next data, split in any way, and makes said check the messages in
// it.
func (f *frames) read(b []byte, said *publications) (n count, ok bool) {
	for len(b) > 0 {
		switch {
		case !f.over:
			end := bytes.IndexByte(b, '\n') + 1
			line := b
			if end > 0 {
				line = b[:end]
				n.lines++
			}
			if f.request = append(f.request, line...); len(f.request) > maxRequest {
				return n, false
			}
			b = b[len(line):]
			if end > 0 && f.endsRequest() && !f.accept() {
				return n, false
			}
		case f.left > 0:
			part := b[:min(uint64(len(b)), f.left)]
			f.mask(part)
			n.lines += bytes.Count(part, newline)
			if f.data {
				rest, ok := said.read(part)
				if !ok {
					return n, false
				}
				said.begin(rest)
			}
			f.mask(part)
			f.at = (f.at + len(part)) % len(f.key)
			f.left -= uint64(len(part))
			b = b[len(part):]
		default:
			var ended bool
			if b, ended, ok = f.readHead(b); !ok {
				return n, false
			}
			if ended {
				n.frames++
			}
		}
	}
	return n, true
}

// endsRequest reports whether the last line is empty, as net/http sees it.
func (f *frames) endsRequest() bool {
	return bytes.HasSuffix(f.request, []byte("\n\n")) || bytes.HasSuffix(f.request, []byte("\n\r\n")) || len(f.request) <= len("\r\n")
}

// accept ends the request.
func (f *frames) accept() bool {
	masked := !bytes.Contains(bytes.ToLower(f.request), unmasked)
	f.request, f.over = nil, true
	f.head = f.room[:0]
	return masked
}

// readHead reads on in a frame's head, and reports whether it has ended.
func (f *frames) readHead(b []byte) (rest []byte, ended, ok bool) {
	for len(b) > 0 {
		f.head = append(f.head, b[0])
		b = b[1:]
		if len(f.head) < 2 {
			continue
		}
		if f.head[0]&frameReserved != 0 || f.head[1]&frameMasked == 0 {
			return b, false, false
		}
		length, extended := uint64(f.head[1]&frameLength), 0
		switch length {
		case frameLength16:
			extended = 2
		case frameLength64:
			extended = 8
		}
		size := 2 + extended + len(f.key)
		if len(f.head) < size {
			continue
		}
		switch extended {
		case 2:
			length = uint64(binary.BigEndian.Uint16(f.head[2:]))
		case 8:
			length = binary.BigEndian.Uint64(f.head[2:])
		}
		copy(f.key[:], f.head[size-len(f.key):])
		f.left, f.at, f.data, f.head = length, 0, f.head[0]&frameControl == 0, f.room[:0]
		return b, true, length>>63 == 0
	}
	return b, false, true
}

// mask takes the mask off a part of a payload, or puts it on.
func (f *frames) mask(part []byte) {
	for i := range part {
		part[i] ^= f.key[(f.at+i)%len(f.key)]
	}
}
