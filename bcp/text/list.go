package text

// Progress of a number that may turn out to count a list item.
const (
	numberNone   = iota
	numberDigits // the item begins with digits
	numberMark   // a full stop or bracket comes directly after them
	numberSpace  // white space follows
)

// listState is what List needs to drop the number of an item.
type listState struct {
	item     int // items finished
	number   int // value of the leading digits
	progress uint8
	begun    int // where the item began in out
	segments int
	splits   int
	chars    int
}

// countDigit reads the number that an item may begin with.
func (s *scanner) countDigit(b byte) {
	if s.list.progress != numberDigits {
		return
	}
	if s.list.number > 999 {
		s.list.progress = numberNone
		return
	}
	s.list.number = s.list.number*10 + int(b-'0')
}

// dropNumber takes the number of an item back as if it had never been read.
func (s *scanner) dropNumber() {
	if s.list.begun > s.begun {
		s.list.item--
		s.sep = sepItem
	} else {
		s.sep = sepNone
	}
	s.out = s.out[:s.list.begun]
	s.segments, s.splits, s.chars = s.list.segments, s.list.splits, s.list.chars
	s.list.progress = numberNone
	s.last = lastNone
}

// number follows the marks after the leading digits of an item.
func (s *scanner) number(c class, r rune) {
	switch s.list.progress {
	case numberDigits, numberMark:
		switch {
		case c == classStop, r == ')':
			s.list.progress = numberMark
		case c == classSpace && s.list.progress == numberMark:
			s.list.progress = numberSpace
		default:
			s.list.progress = numberNone
		}
	case numberSpace:
		if c == classLine || c == classComma || c == classSemi {
			s.list.progress = numberNone
		}
	}
}
