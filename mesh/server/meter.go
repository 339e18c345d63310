package server

import "bytes"

// meter says what it costs the server to read what one client sends. It is for
// one goroutine.
type meter struct {
	sealed bool    // by TLS, of which a read gets one record at most
	frames *frames // where it is WebSocket
	said   publications
	begun  []byte // a line without its end; not of WebSocket
	spare  []byte // what it was kept in before
}

// read charges for what comes next, and returns what of it goes on to the server:
// without a line that has not ended, which goes on with its end, and with reply
// subjects as [publications.read] leaves them. It is not ok where that is nothing
// that a client sends: nothing behind it may be read.
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
			m.begun, m.spare = nil, nil // an agent that rests keeps nothing
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
