package server

import "bytes"

// meter calculates the server's cost of reading what one client sends. It is
// for one goroutine.
type meter struct {
	sealed bool    // with TLS, a read gets at most one record
	frames *frames // for WebSocket
	said   speech
	begun  []byte // a line without its end
	spare  []byte // its previous buffer
}

// read charges for the next data, and returns the part that goes on to the
// server: out of its frames, without an incomplete first line, which is sent with its
// end, and as changed by [speech.read]. ok is false if a client must not send that: then
// nothing after it may be read.
func (m *meter) read(b []byte) (cost int, on []byte, ok bool) {
	cost, count := len(b), 0
	if m.sealed && len(b) > 0 {
		count = 1
	}
	if m.frames != nil {
		data, n, ok := m.frames.read(b)
		if !ok {
			return 0, nil, false
		}
		b, count = data, max(count, n)
	}
	cost = max(cost, lineBytes*max(count, bytes.Count(b, newline)))
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
	return cost, on, true
}

var newline = []byte("\n")
