package server

import "bytes"

// meter says what it costs the server to read what one client sends. It is for
// one goroutine.
type meter struct {
	sealed bool    // by TLS, of which a read gets one record at most
	frames *frames // where it is WebSocket
}

// read charges for what comes next. It is not ok where that is nothing that a
// client sends: nothing behind it may be read.
func (m *meter) read(b []byte) (cost int, ok bool) {
	var n count
	if m.frames != nil {
		if n, ok = m.frames.read(b); !ok {
			return 0, false
		}
	} else {
		n.lines = bytes.Count(b, newline)
	}
	if m.sealed && len(b) > 0 {
		n.frames = max(n.frames, 1)
	}
	return max(len(b), lineBytes*max(n.lines, n.frames)), true
}

var newline = []byte("\n")

// count is what was read.
type count struct{ lines, frames int }
