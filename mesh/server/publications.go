package server

import (
	"bytes"
	"strconv"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxControlLine bounds a line of the protocol: the server accepts half of it.
const maxControlLine = 8 << 10

// reservedReply begins the reply subjects that the server refuses to clients.
const reservedReply = "_R_."

// publications parses what a client sends, and checks the reply subject of each
// message. The server checks the subject of a message but not its reply subject,
// and delivers the answer to that within the client's account: an agent could have
// the gateway's answers delivered to another agent of its role. Anything that the
// server could parse differently is refused, so that the two always agree where a
// line begins. The zero value waits for a line.
type publications struct {
	begun []byte // a line whose beginning the server already has
	left  int    // of a payload, with the end of its line
}

// read checks the next data. A reply subject outside the sender's inbox is replaced,
// in place, by one that the server refuses as reserved. The rest is a line without
// its end: it is passed in again with more data, or is forwarded and given to
// [publications.begin]. If ok is false, nothing may be forwarded.
func (p *publications) read(b []byte) (rest []byte, ok bool) {
	for len(b) > 0 {
		if p.left > 0 {
			n := min(p.left, len(b))
			p.left, b = p.left-n, b[n:]
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			return b, len(p.begun)+len(b) <= maxControlLine
		}
		line := b[:end]
		if len(p.begun) > 0 {
			line = append(p.begun, line...)
		}
		foreign, ok := p.judge(line)
		if !ok || foreign && len(p.begun) > 0 { // too late to change it
			return nil, false
		}
		p.begun, b = p.begun[:0], b[end+1:]
	}
	return nil, true
}

// begin stores the rest of a line that is forwarded.
func (p *publications) begin(rest []byte) { p.begun = append(p.begun, rest...) }

// judge looks at a line without its end.
func (p *publications) judge(line []byte) (foreign, ok bool) {
	if len(line) > maxControlLine {
		return false, false
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	sizes := 0
	switch {
	case len(line) > 3 && bytes.EqualFold(line[:3], []byte("PUB")):
		line, sizes = line[3:], 1
	case len(line) > 4 && bytes.EqualFold(line[:4], []byte("HPUB")):
		line, sizes = line[4:], 2
	default:
		return false, true // nothing else has a payload
	}
	if line[0] != ' ' && line[0] != '\t' || bytes.IndexByte(line, '\r') >= 0 {
		return false, false
	}
	parts := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(parts) != 1+sizes && len(parts) != 2+sizes {
		return false, false
	}
	size, err := strconv.ParseUint(string(parts[len(parts)-1]), 10, 31)
	if err != nil {
		return false, false
	}
	p.left = int(size) + len("\r\n")
	if len(parts) == 2+sizes && len(parts[1]) > len(reservedReply) && !subjects.OwnReply(string(parts[0]), string(parts[1])) {
		copy(parts[1], reservedReply)
		return true, true
	}
	return false, true
}
