package server

import "bytes"

// meter calculates the server's cost of reading what one client sends. It is
// for one goroutine.
type meter struct {
	sealed bool    // with TLS, a read gets at most one record
	frames *frames // for WebSocket
	said   publications
	begun  []byte // a line without its end; not of WebSocket
	spare  []byte // its previous buffer
}

// read charges for the next data, and returns the part that goes on to the
// server: without an incomplete line, which is sent with its end, and with reply
// subjects as changed by [publications.read]. ok is false if a client must not
// send that: then nothing after it may be read.
func (m *meter) read(b []byte) (cost int, on []byte, ok bool) {
	var n count
	if m.frames != nil {
		if n, ok = m.frames.read(b, &m.said); !ok {
			return 0, nil, false
		}
		on = b
	} else {
		n.lines = bytes.Count(b, newline)
		on = b
		if len(m.begun) > 0 {
			m.begun = append(m.begun, b...)
			on = m.begun
		}
		rest, ok := m.said.read(on)
		if !ok {
			return 0, nil, false
		}
		on = on[:len(on)-len(rest)]
		m.begun, m.spare = append(m.spare[:0], rest...), m.begun
		if len(rest) == 0 {
			m.begun, m.spare = nil, nil // an idle agent keeps no buffers
		}
	}
	if m.sealed && len(b) > 0 {
		n.frames = max(n.frames, 1)
	}
	return max(len(b), lineBytes*max(n.lines, n.frames)), on, true
}

var newline = []byte("\n")

// count is what was read.
type count struct{ lines, frames int }
