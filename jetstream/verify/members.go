package verify

// members are the parts of a decision that this package reads: a MessagePack
// map with short texts as keys. The rest is skipped.
type members struct {
	number             uint64 // n
	previous           Hash   // h, zero if absent
	time               int64  // t, Unix time in nanoseconds
	kind               uint64 // k
	controller, reader []byte // co, re
}

// readMembers reads a decision. It accepts a map that ends where the bytes do,
// and trusts no length beyond them.
func readMembers(b []byte) (m members, ok bool) {
	s := scan{b: b}
	var seen [3]bool
	for entries := s.mapLength(); entries > 0 && !s.bad; entries-- {
		switch string(s.text()) {
		case "n":
			m.number, seen[0] = s.number(), true
		case "h":
			if h := s.binary(); len(h) == len(m.previous) {
				m.previous = Hash(h)
			} else {
				s.bad = true
			}
		case "t":
			m.time, seen[1] = int64(s.number()), true
		case "k":
			m.kind, seen[2] = s.number(), true
		case "co":
			m.controller = s.text()
		case "re":
			m.reader = s.text()
		default:
			s.skip()
		}
	}
	return m, !s.bad && s.at == len(b) && seen == [3]bool{true, true, true} && m.number <= maxNumber && m.time >= 0
}

// scan reads MessagePack. What it returns after bad was set means nothing.
type scan struct {
	b   []byte
	at  int
	bad bool
}

// take returns the next n bytes.
func (s *scan) take(n int) []byte {
	if n < 0 || n > len(s.b)-s.at {
		s.bad, s.at = true, len(s.b)
		return nil
	}
	s.at += n
	return s.b[s.at-n : s.at]
}

func (s *scan) code() byte {
	if s.at >= len(s.b) {
		s.bad = true
		return 0xc1 // an unused code
	}
	s.at++
	return s.b[s.at-1]
}

// unsigned reads a number of n bytes, the highest first.
func (s *scan) unsigned(n int) uint64 {
	v := uint64(0)
	for _, c := range s.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (s *scan) mapLength() int {
	switch c := s.code(); {
	case c&0xf0 == 0x80:
		return int(c & 0x0f)
	case c == 0xde:
		return int(s.unsigned(2))
	}
	s.bad = true
	return 0
}

// number reads a non-negative number.
func (s *scan) number() uint64 {
	c := s.code()
	switch {
	case c <= 0x7f:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return s.unsigned(1 << (c - 0xcc))
	}
	s.bad = true
	return 0
}

func (s *scan) text() []byte {
	c := s.code()
	switch {
	case c&0xe0 == 0xa0:
		return s.take(int(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return s.take(int(s.unsigned(1 << (c - 0xd9))))
	}
	s.bad = true
	return nil
}

func (s *scan) binary() []byte {
	if c := s.code(); c >= 0xc4 && c <= 0xc6 {
		return s.take(int(s.unsigned(1 << (c - 0xc4))))
	}
	s.bad = true
	return nil
}

// skip skips one whole value.
func (s *scan) skip() {
	for values := 1; values > 0 && !s.bad; values-- {
		switch c := s.code(); {
		case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small numbers, nil, booleans
		case c <= 0x8f:
			values += 2 * int(c&0x0f)
		case c <= 0x9f:
			values += int(c & 0x0f)
		case c <= 0xbf:
			s.take(int(c & 0x1f))
		case c >= 0xc4 && c <= 0xc6: // binary
			s.take(int(s.unsigned(1 << (c - 0xc4))))
		case c >= 0xcc && c <= 0xcf: // unsigned
			s.take(1 << (c - 0xcc))
		case c >= 0xd0 && c <= 0xd3: // signed
			s.take(1 << (c - 0xd0))
		case c >= 0xd9 && c <= 0xdb: // text
			s.take(int(s.unsigned(1 << (c - 0xd9))))
		case c == 0xdc, c == 0xdd: // list
			values += int(s.unsigned(2 << (c - 0xdc)))
		case c == 0xde, c == 0xdf: // map
			values += 2 * int(s.unsigned(2<<(c-0xde)))
		default: // floats and extensions have no place in a decision
			s.bad = true
		}
	}
}
