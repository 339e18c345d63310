package wire

// Kind is the kind of a JSON value, told by its first byte.
type Kind uint8

// The kinds of values. The zero value is no value: the end of the input, a
// closing bracket, or a byte that begins nothing.
const (
	KindInvalid Kind = iota
	KindObject
	KindArray
	KindString
	KindNumber
	KindBool
	KindNull
)

var kinds = [256]Kind{
	'{': KindObject,
	'[': KindArray,
	'"': KindString,
	'-': KindNumber,
	'0': KindNumber, '1': KindNumber, '2': KindNumber, '3': KindNumber, '4': KindNumber,
	'5': KindNumber, '6': KindNumber, '7': KindNumber, '8': KindNumber, '9': KindNumber,
	't': KindBool, 'f': KindBool,
	'n': KindNull,
}

// state says which call may come next. More relies on the order of the first two.
type state uint8

const (
	stateValue  state = iota // a value
	stateKey                 // Key
	stateFirst               // More, right after an opening bracket
	stateNext                // More, after a value
	stateDone                // End
	stateFailed              // none
)

// Scanner walks one JSON document under the rules of PROTOCOL P2.2, driven by
// what the caller expects to find. It allocates nothing but its error.
//
// The first refusal is final: [Scanner.More] is false from then on and every other
// call returns the same error, [Scanner.End] too. A caller may therefore check
// each call, or End alone, as long as it uses nothing before End has returned
// nil.
//
// The input must not change while the Scanner or a slice that it returned is in
// use. A copy of a Scanner goes on by itself from where the original stood. The
// zero value is a Scanner over no bytes and refuses. A Scanner is not safe for
// concurrent use.
type Scanner struct {
	buf     []byte
	pos     int
	err     error
	objects uint16 // bit d is set while level d is an object
	depth   uint8
	state   state
}

// NewScanner returns a Scanner over one whole message.
func NewScanner(b []byte) Scanner { return Scanner{buf: b} }

// Kind tells the kind of the value that comes next and consumes nothing. It is
// KindInvalid where no value can stand.
func (s *Scanner) Kind() Kind {
	if s.state != stateValue {
		return KindInvalid
	}
	return kinds[s.peek()]
}

// ObjectStart enters an object. Call [Scanner.More] next.
func (s *Scanner) ObjectStart() error {
	if c := s.peek(); c != '{' || s.state != stateValue {
		return s.mismatch()
	}
	return s.push(1)
}

// ArrayStart enters an array. Call [Scanner.More] next.
func (s *Scanner) ArrayStart() error {
	if c := s.peek(); c != '[' || s.state != stateValue {
		return s.mismatch()
	}
	return s.push(0)
}

// More steps to the next member or element of the innermost object or array and
// reports whether there is one. If there is none it leaves that object or array.
// It is false after a refusal, too, which the next call then returns.
func (s *Scanner) More() bool {
	c := s.peek()
	object := s.objects >> (s.depth & 15) & 1
	switch s.state {
	case stateNext:
		if c == ',' {
			s.pos++
			s.state = state(object)
			return true
		}
	case stateFirst:
		if c != '}' && c != ']' {
			s.state = state(object)
			return true
		}
	default:
		s.misuse()
		return false
	}
	if object == 1 && c != '}' || object == 0 && c != ']' {
		s.fail(s.pos, ErrSyntax)
		return false
	}
	s.pos++
	s.depth--
	s.endValue()
	return false
}

// Key reads the key of a member, with the colon after it. Compare it byte for
// byte. The key is a part of the input, or is appended to scratch[:0] where it
// has escapes; it is never longer than its spelling in the input.
func (s *Scanner) Key(scratch []byte) ([]byte, error) {
	if b, i := s.buf, s.pos; s.state == stateKey && i < len(b) && b[i] == '"' {
		end := plain(b, i+1)
		if end+1 < len(b) && b[end] == '"' && b[end+1] == ':' {
			s.pos = end + 2
			s.state = stateValue
			return b[i+1 : end : end], nil
		}
	}
	ref, err := s.key()
	if err != nil {
		return nil, err
	}
	return ref.text(s.buf, scratch), nil
}

// key reads a key with its colon and returns where it is.
func (s *Scanner) key() (span, error) {
	if s.state != stateKey {
		return span{}, s.misuse()
	}
	if s.peek() != '"' {
		return span{}, s.fail(s.pos, ErrSyntax)
	}
	ref, err := s.quoted()
	if err != nil {
		return span{}, err
	}
	if s.peek() != ':' {
		return span{}, s.fail(s.pos, ErrSyntax)
	}
	s.pos++
	s.state = stateValue
	return ref, nil
}

// String reads a string. The text is a part of the input, or is appended to
// scratch[:0] where it has escapes; it is never longer than its spelling in the
// input.
func (s *Scanner) String(scratch []byte) ([]byte, error) {
	if b, i := s.buf, s.pos; s.state == stateValue && i < len(b) && b[i] == '"' {
		end := plain(b, i+1)
		if end < len(b) && b[end] == '"' {
			s.pos = end + 1
			s.endValue()
			return b[i+1 : end : end], nil
		}
	}
	ref, err := s.text()
	if err != nil {
		return nil, err
	}
	return ref.text(s.buf, scratch), nil
}

// text reads a string and returns where it is.
func (s *Scanner) text() (span, error) {
	if c := s.peek(); c != '"' || s.state != stateValue {
		return span{}, s.mismatch()
	}
	ref, err := s.quoted()
	if err != nil {
		return span{}, err
	}
	s.endValue()
	return ref, nil
}

// Bool reads true or false.
func (s *Scanner) Bool() (bool, error) {
	if c := s.peek(); c != 't' && c != 'f' || s.state != stateValue {
		return false, s.mismatch()
	}
	rest := s.buf[s.pos:]
	if len(rest) >= 4 && string(rest[:4]) == "true" {
		s.pos += 4
		s.endValue()
		return true, nil
	}
	if len(rest) >= 5 && string(rest[:5]) == "false" {
		s.pos += 5
		s.endValue()
		return false, nil
	}
	return false, s.fail(s.pos, ErrSyntax)
}

// Int64 reads an integer in its one spelling: no fraction, exponent, leading
// zero or -0.
func (s *Scanner) Int64() (int64, error) {
	c := s.peek()
	if kinds[c] != KindNumber || s.state != stateValue {
		return 0, s.mismatch()
	}
	b, i := s.buf, s.pos
	limit := uint64(1<<63 - 1)
	negative := c == '-'
	if negative {
		i++
		limit++
	}
	first := i
	var n uint64
	for ; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		if i-first >= 19 {
			return 0, s.fail(s.pos, ErrNumber)
		}
		n = n*10 + uint64(d)
	}
	if i == first {
		return 0, s.fail(i, ErrSyntax)
	}
	if n > limit || b[first] == '0' && (negative || i > first+1) {
		return 0, s.fail(s.pos, ErrNumber)
	}
	if i < len(b) {
		if c := b[i]; c == '.' || c|0x20 == 'e' {
			return 0, s.fail(s.pos, ErrNumber)
		}
	}
	s.pos = i
	s.endValue()
	if negative {
		return -int64(n), nil
	}
	return int64(n), nil
}

// End reports whether the document was one whole value with nothing but white
// space after it. It returns the first refusal if there was one.
func (s *Scanner) End() error {
	if s.state != stateDone {
		return s.misuse()
	}
	if s.peek(); s.pos < len(s.buf) {
		return s.fail(s.pos, ErrTrailing)
	}
	return nil
}

// peek skips white space and returns the byte after it, or 0 at the end.
func (s *Scanner) peek() byte {
	if s.pos < len(s.buf) && s.buf[s.pos] > ' ' {
		return s.buf[s.pos]
	}
	return s.peekSpace()
}

func (s *Scanner) peekSpace() byte {
	for ; s.pos < len(s.buf); s.pos++ {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// push enters an object (1) or array (0), whose opening bracket is next.
func (s *Scanner) push(object uint16) error {
	if s.depth >= MaxDepth {
		return s.fail(s.pos, ErrDepth)
	}
	s.pos++
	s.depth++
	bit := uint16(1) << (s.depth & 15)
	s.objects = s.objects&^bit | bit*object
	s.state = stateFirst
	return nil
}

// endValue sets the state after a value.
func (s *Scanner) endValue() {
	s.state = stateNext
	if s.depth == 0 {
		s.state = stateDone
	}
}

// mismatch refuses because the next byte does not begin the value asked for.
func (s *Scanner) mismatch() error {
	if s.state != stateValue {
		return s.misuse()
	}
	if kinds[s.peek()] == KindInvalid {
		return s.fail(s.pos, ErrSyntax)
	}
	return s.fail(s.pos, ErrKind)
}

// misuse refuses a call that came out of order, or repeats the first refusal.
func (s *Scanner) misuse() error {
	if s.state == stateFailed {
		return s.err
	}
	return s.fail(s.pos, ErrUsage)
}

// fail ends the scan. At the end of the input a syntax error is a truncation.
//
//go:noinline
func (s *Scanner) fail(offset int, why error) error {
	if why == ErrSyntax && offset >= len(s.buf) {
		why = ErrTruncated
	}
	s.err = &Error{Offset: offset, Reason: why}
	s.state = stateFailed
	return s.err
}
