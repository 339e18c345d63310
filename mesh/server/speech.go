package server

import (
	"bytes"
	"encoding/json"

	"github.com/nats-io/jwt/v2"
)

// maxControlLine bounds the first line of a client: the server accepts half of it.
const maxControlLine = 8 << 10

// speech reads the first line that a client sends, which has to be CONNECT: the server
// takes every client for one of its own process, so the creds that a client shows are
// looked at here for whether they may come by its gate. Everything else is the server's.
// Creds that are shown later are looked at when the server has accepted them
// ([entrance.known]). The zero value lets no creds in.
type speech struct {
	admits func(issuer string) bool // whether its users may come by this gate
	begun  bool
}

// read checks the next data. Creds that may not come by are replaced, in place, by none.
// The rest is a line without its end: it is passed in again with more data. If ok is
// false, nothing may be forwarded.
func (s *speech) read(b []byte) (rest []byte, ok bool) {
	if s.begun {
		return nil, true
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return b, len(b) <= maxControlLine
	}
	line := bytes.TrimSuffix(b[:end], []byte("\r"))
	i := bytes.IndexAny(line, " \t")
	if end > maxControlLine || i < 0 || !bytes.EqualFold(line[:i], []byte("CONNECT")) || bytes.IndexByte(line, '\r') >= 0 {
		return nil, false
	}
	s.begun = true
	return nil, s.connect(line[i:])
}

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
