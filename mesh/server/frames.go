package server

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// maxRequest bounds a client's request for WebSocket.
const maxRequest = 8 << 10

// A frame's first two bytes (RFC 6455, 5.2).
const (
	frameLast     = 0x80
	frameReserved = 0x70
	frameOpcode   = 0x0f
	frameMasked   = 0x80
	frameLength   = 0x7f
	frameLength16 = 126
	frameLength64 = 127
)

// The kinds of frames.
const (
	frameBinary  = 2 // the last of data
	frameControl = 8 // the first of the others
	frameClose   = 8
	framePing    = 9
	framePong    = 10
	// maxControl bounds the payload of the others.
	maxControl = 125
)

const (
	upgraded = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
	refused4 = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	// acceptKey is what a server of WebSocket adds to a client's key (RFC 6455, 1.3).
	acceptKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

var errRequest = errors.New("not a request for WebSocket")

// upgrade reads a client's request for WebSocket, and nothing after it, and answers it.
func upgrade(client io.ReadWriter) error {
	in := bufio.NewReaderSize(io.LimitReader(client, maxRequest), minChunk)
	r, err := http.ReadRequest(in)
	if err != nil || in.Buffered() > 0 || !asksForWebSocket(r) {
		_, err = io.WriteString(client, refused4)
		return errors.Join(errRequest, err)
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + acceptKey))
	_, err = io.WriteString(client, upgraded+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	return err
}

func asksForWebSocket(r *http.Request) bool {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key"))
	return err == nil && len(key) == 16 && r.Method == http.MethodGet && r.ContentLength == 0 && r.URL.Path == "/" &&
		httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		r.Header.Get("Sec-Websocket-Version") == "13"
}

// frames takes what a client sends over WebSocket out of its frames. It refuses
// compression, which would hide lines, and frames without a mask. The zero value
// waits for a frame.
type frames struct {
	head []byte // the part of a frame's head that has arrived
	room [14]byte
	kind byte
	left uint64 // of the frame's payload
	key  [4]byte
	at   int    // place in the key
	said []byte // payload of a control frame so far
	// answers are frames for the client: to its pings, and to its end.
	answers []byte
	ended   bool
}

// read returns the data in the next bytes, split in any way, which it overwrites, and
// the number of frames. Nothing is read after the frame that ends the connection.
func (f *frames) read(b []byte) (data []byte, n int, ok bool) {
	data = b[:0]
	for {
		if f.left > 0 {
			part := b[:min(uint64(len(b)), f.left)]
			b = b[len(part):]
			for i := range part {
				part[i] ^= f.key[(f.at+i)%len(f.key)]
			}
			f.at = (f.at + len(part)) % len(f.key)
			f.left -= uint64(len(part))
			if f.kind < frameControl {
				data = append(data, part...) // before the rest, in the same room
			} else {
				f.said = append(f.said, part...)
			}
		}
		if f.left == 0 && f.kind >= frameControl {
			f.answer()
		}
		if len(b) == 0 || f.ended {
			return data, n, true
		}
		var begins bool
		if b, begins, ok = f.readHead(b); !ok {
			return nil, 0, false
		}
		if begins {
			n++
		}
	}
}

// answer answers a control frame.
func (f *frames) answer() {
	switch f.kind {
	case framePing:
		f.answers = appendFrame(f.answers, framePong, f.said)
	case frameClose:
		f.answers, f.ended = appendFrame(f.answers, frameClose, f.said[:min(2, len(f.said))]), true
	}
	f.kind, f.said = 0, nil
}

// appendFrame appends a frame of a server, which has no mask.
func appendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, frameLast|kind)
	switch n := len(payload); {
	case n < frameLength16:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, frameLength16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, frameLength64), uint64(n))
	}
	return append(b, payload...)
}

// readHead reads on in a frame's head, and reports whether the payload begins.
func (f *frames) readHead(b []byte) (rest []byte, begins, ok bool) {
	if len(f.head) == 0 {
		f.head = f.room[:0]
	}
	for len(b) > 0 {
		f.head = append(f.head, b[0])
		b = b[1:]
		if len(f.head) < 2 {
			continue
		}
		kind, length, extended := f.head[0]&frameOpcode, uint64(f.head[1]&frameLength), 0
		control := kind >= frameControl
		if f.head[0]&frameReserved != 0 || f.head[1]&frameMasked == 0 || kind > framePong || kind > frameBinary && !control ||
			control && (f.head[0]&frameLast == 0 || length > maxControl) {
			return b, false, false
		}
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
		f.kind, f.left, f.at = kind, length, 0
		copy(f.key[:], f.head[size-len(f.key):])
		f.head = nil
		return b, true, length>>63 == 0
	}
	return b, false, true
}
