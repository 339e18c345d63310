package wire

// MaxDecimalDigits is how many digits a number with a fraction may have: every
// implementation of JSON carries that many without loss.
const MaxDecimalDigits = 15

// Null reads null.
func (s *Scanner) Null() error {
	if c := s.peek(); c != 'n' || s.state != stateValue {
		return s.mismatch()
	}
	if rest := s.buf[s.pos:]; len(rest) < 4 || string(rest[:4]) != "null" {
		return s.fail(s.pos, ErrSyntax)
	}
	s.pos += 4
	s.endValue()
	return nil
}

// Number reads a number and returns its spelling, a part of the input. It is an
// integer, as [Scanner.Int64] reads one, or has a fraction: then it has at most
// [MaxDecimalDigits] digits, and fraction is true. There is no exponent, no
// leading zero and no negative zero.
func (s *Scanner) Number() (text []byte, fraction bool, err error) {
	c := s.peek()
	if kinds[c] != KindNumber || s.state != stateValue {
		return nil, false, s.mismatch()
	}
	b, start := s.buf, s.pos
	first := start
	if c == '-' {
		first++
	}
	point := digits(b, first)
	if point+1 >= len(b) || b[point] != '.' || b[point+1]-'0' > 9 {
		if _, err := s.Int64(); err != nil {
			return nil, false, err
		}
		return b[start:s.pos:s.pos], false, nil
	}
	end := digits(b, point+1)
	nonzero := false
	for _, c := range b[first:end] {
		nonzero = nonzero || c != '0' && c != '.'
	}
	switch {
	case point == first, b[first] == '0' && point > first+1, c == '-' && !nonzero, end-first-1 > MaxDecimalDigits, end < len(b) && b[end]|0x20 == 'e':
		return nil, false, s.fail(start, ErrNumber)
	}
	s.pos = end
	s.endValue()
	return b[start:end:end], true, nil
}

// digits returns the offset of the first byte at or after i that is no digit.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// Opaque passes over an object or an array and returns its bytes, a part of the
// input, unread: its end is found by its brackets alone. Who reads it judges it.
func (s *Scanner) Opaque() ([]byte, error) {
	if c := s.peek(); c != '{' && c != '[' || s.state != stateValue {
		return nil, s.mismatch()
	}
	open, text := 0, false
	for i := s.pos; i < len(s.buf); i++ {
		switch c := s.buf[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			open++
		case c == '}' || c == ']':
			open--
		}
		if open == 0 {
			b := s.buf[s.pos : i+1 : i+1]
			s.pos = i + 1
			s.endValue()
			return b, nil
		}
	}
	return nil, s.fail(len(s.buf), ErrTruncated)
}
