package server

import (
	"bytes"
	"encoding/json"

	"github.com/nats-io/jwt/v2"
)

// maxControlLine bounds the first line of a client: the server accepts half of it.
const maxControlLine = 8 << 10

// speech reads what one client sends, for one goroutine: what it costs the server to read
// it, and the first line, which has to be CONNECT. The server takes every client for one of
// its own process, so the creds that a client shows are looked at here for whether they may
// come from outside. Everything else is the server's. Creds that are shown later are looked
// at when the server has accepted them ([entrance.known]). The zero value lets no creds in.
type speech struct {
	sealed bool                     // with TLS, a read gets at most one record
	admits func(issuer string) bool // whether its users may come from outside
	begun  bool                     // the first line was read
	first  []byte                   // what has come of it
}

// read charges for the next data, and returns the part that goes on to the server: the first
// line is sent with its end, and creds in it that may not come by are replaced, in place, by
// none. ok is false if a client must not send that: then nothing after it may be read.
func (s *speech) read(b []byte) (cost int, on []byte, ok bool) {
	lines := bytes.Count(b, newline)
	if s.sealed && len(b) > 0 {
		lines = max(1, lines)
	}
	cost = max(len(b), lineBytes*lines)
	if s.begun {
		return cost, b, true
	}
	s.first = append(s.first, b...)
	end := bytes.IndexByte(s.first, '\n')
	if end < 0 {
		return cost, nil, len(s.first) <= maxControlLine
	}
	on, s.first, s.begun = s.first, nil, true
	line := bytes.TrimSuffix(on[:end], []byte("\r"))
	i := bytes.IndexAny(line, " \t")
	if end > maxControlLine || i < 0 || !bytes.EqualFold(line[:i], []byte("CONNECT")) || bytes.IndexByte(line, '\r') >= 0 || !s.connect(line[i:]) {
		return cost, nil, false
	}
	return cost, on, true
}

var newline = []byte("\n")

// connect looks at the creds that a client shows, with the server's own readers: what
// it says of them is true if the server finds that they are signed.
func (s *speech) connect(options []byte) (ok bool) {
	var shown struct {
		JWT string `json:"jwt"`
	}
	if json.Unmarshal(options, &shown) != nil {
		return false
	}
	user, err := jwt.DecodeUserClaims(shown.JWT)
	if err == nil && (s.admits == nil || !s.admits(user.Issuer)) {
		copy(options, " {}")
		for i := len(" {}"); i < len(options); i++ {
			options[i] = ' '
		}
	}
	return true
}
