package server

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxControlLine bounds a line of the protocol: the server accepts half of it.
const maxControlLine = 8 << 10

// reservedReply begins the reply subjects that the server refuses to clients.
const reservedReply = "_R_."

// speech parses what a client sends, for two things that the server does not check. It
// takes every client for one of its own process, so the creds that a client shows are
// looked at here for whether they may come by its gate. And it checks the subject of a
// message but not its reply subject, and delivers the answer to that within the client's
// account: an agent could have the gateway's answers delivered to another agent of its
// role. Anything that the server could parse differently is refused, so that the two
// always agree where a line begins. The zero value waits for a line, and lets no creds
// in.
type speech struct {
	admits func(issuer string) bool // whether its users may come by this gate
	left   int                      // of a payload, with the end of its line
}

// read checks the next data. A reply subject outside the sender's inbox is replaced,
// in place, by one that the server refuses as reserved, and creds that may not come
// by none. The rest is a line without its end: it is passed in again with more data.
// If ok is false, nothing may be forwarded.
func (s *speech) read(b []byte) (rest []byte, ok bool) {
	for len(b) > 0 {
		if s.left > 0 {
			n := min(s.left, len(b))
			s.left, b = s.left-n, b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return b, len(b) <= maxControlLine
		}
		if end > maxControlLine || !s.judge(bytes.TrimSuffix(b[:end], []byte("\r"))) {
			return nil, false
		}
		b = b[end+1:]
	}
	return nil, true
}

// judge looks at a line without its end. Each word that the server takes from clients
// ends at a blank, or with its line if nothing follows it: behind a blank the server
// would take the next line for what follows.
func (s *speech) judge(line []byte) (ok bool) {
	word, follows := line, []byte(nil)
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		word, follows = line[:i], line[i:]
	}
	parts := bytes.FieldsFunc(follows, func(r rune) bool { return r == ' ' || r == '\t' })
	if bytes.IndexByte(line, '\r') >= 0 {
		return false
	}
	switch string(bytes.ToUpper(word)) {
	case "PING", "PONG":
		return len(parts) == 0
	case "SUB", "UNSUB":
		return len(parts) > 0
	case "PUB":
		return s.publish(parts, 1)
	case "HPUB":
		return s.publish(parts, 2)
	case "CONNECT":
		return s.connect(follows)
	}
	return false
}

// publish looks at a message's subject, its reply subject if there is one, and sizes.
func (s *speech) publish(parts [][]byte, sizes int) (ok bool) {
	if len(parts) != 1+sizes && len(parts) != 2+sizes {
		return false
	}
	size, err := strconv.ParseUint(string(parts[len(parts)-1]), 10, 31)
	if err != nil {
		return false
	}
	s.left = int(size) + len("\r\n")
	if len(parts) == 2+sizes && len(parts[1]) > len(reservedReply) && !subjects.OwnReply(string(parts[0]), string(parts[1])) {
		copy(parts[1], reservedReply)
	}
	return true
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
