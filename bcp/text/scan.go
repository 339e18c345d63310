package text

import "unicode/utf8"

// Separators in order of strength; the strongest between two words is written.
const (
	sepNone = iota
	sepSpace
	sepStop
	sepItem
)

// What the last code point written was, while nothing but a held mark comes after it.
const (
	lastNone = iota
	lastLetter
	lastDigit
	lastMoney
)

// scanner writes the canonical form of a text code point by code point. A mark that needs a neighbour on both sides
// is held until the next code point is known.
type scanner struct {
	out       []byte
	begun     int // len(out) at the start
	limit     rune
	own       uint8 // the script whose letters may stand beside those below limit, or noScript
	home      int   // the place of the script that words are taken for where nothing says otherwise
	join      Join
	name      bool
	capitals  bool
	maxWords  int
	maxChars  int
	extra     int  // how many more code points those may add that stand for several
	held      rune // 0 for none
	heldClass class
	last      uint8
	sep       uint8
	ended     bool // the pending separator holds a sentence end that waits for white space
	attach    uint8
	script    uint8
	marks     int
	loose     int // marks after neither a letter nor a digit
	segments  int // words by UAX #29
	splits    int // words by the split
	piece     int // characters of the current word
	chars     int
	foreign   bool // there are letters of another script than Latin
	rise      bool // the next letter was upper case
	capitalAt []int
	list      listState
}

// A text may grow by extraFree code points and one more for every extraShare bytes: several times what ordinary spelling
// in any language needs, and far from what makes it expensive.
const (
	extraFree  = 40
	extraShare = 32
)

// scan reads the whole text.
func (s *scanner) scan(src []byte) error {
	s.extra = extraFree + len(src)/extraShare
	for i := 0; i < len(src); {
		if at := i; letterByte(src[at]) { // a run of letters is the same word from its first letter on
			for i++; i < len(src) && letterByte(src[i]); i++ {
			}
			s.rise = s.rise || s.capitals && src[at] <= 'Z'
			if err := s.begin(classLetter, attachAlpha, scriptLatin); err != nil {
				return err
			}
			if err := s.addCharacters(i - at); err != nil {
				return err
			}
			for _, letter := range src[at:i] {
				s.out = append(s.out, letter|0x20)
			}
			continue
		}
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return ErrCodePoint
		}
		i += size
		e := lookUp(r)
		switch c := class(e & entryClass); {
		case c == classMark && e&entryAccent != 0:
			n, err := s.accents(r, "", src, i)
			if err != nil {
				return err
			}
			i += n
		case c == classExpand:
			if s.extra -= int(e >> entryExtra); s.extra < 0 {
				return ErrSpelling
			}
			n, err := s.expand(expand(e), src, i)
			if err != nil {
				return err
			}
			i += n
		default:
			if err := s.wide(r, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func letterByte(b byte) bool { return b|0x20-'a' < 26 }

// wide takes one code point, whose entry is e, that is neither of classExpand nor a mark that can change places.
func (s *scanner) wide(r rune, e uint32) error {
	c := class(e & entryClass)
	if c == classMapped {
		s.rise = s.rise || s.capitals && e&entryCapital != 0
		r = mappedTo(e)
		e = lookUp(r)
		c = class(e & entryClass)
	} else if e&entryRough != 0 && c <= classMark {
		if s.fuse(r) {
			return nil
		}
		if r > jamoTail && r < jamoTail+jamoTails { // it looks like a leading one
			return ErrCodePoint
		}
	}
	switch c {
	case classLetter, classDigit:
		if r >= s.limit && entryScriptNumber(e) != s.own {
			return ErrAlphabet
		}
		if err := s.begin(c, uint8(e>>entryAttach&3), entryScriptNumber(e)); err != nil {
			return err
		}
		if c == classDigit && s.join == List {
			s.countDigit(byte(r))
		}
		if err := s.addCharacters(1); err != nil {
			return err
		}
		s.out = utf8.AppendRune(s.out, r)
	case classMark:
		return s.accentuate(r, entryScriptNumber(e))
	case classStrip, classStretch:
	case classRefuse:
		return ErrCodePoint
	default:
		return s.mark(c, r)
	}
	return nil
}

// expand takes what is read in place of the code point before src[at:]. It returns how much of src it read besides.
func (s *scanner) expand(text string, src []byte, at int) (int, error) {
	for i, r := range text {
		e := lookUp(r)
		switch {
		case r == capitalMark:
			s.rise = s.capitals
		case accentOrder(r, e) != 0:
			return s.accents(r, text[i+utf8.RuneLen(r):], src, at)
		default:
			if err := s.wide(r, e); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// behindLetter says whether a letter, perhaps with marks, stands directly before.
func (s *scanner) behindLetter() bool {
	return s.last == lastLetter && s.sep == sepNone && s.held == 0
}

// maxLoose refuses texts with many marks that belong to nothing: they cost much and mean nothing in any language.
const maxLoose = 16

// acceptsMark says whether the letter before, or its last mark, may have a mark after it: one of its own script that is not there
// already, or a generic one that some language writes there.
func (s *scanner) acceptsMark(mark rune, script uint8) bool {
	before, _ := utf8.DecodeLastRune(s.out)
	if script == 0 {
		return slot(clusterTable[:], pairKey(before, mark)) != 0
	}
	return before != mark
}

// accentuate writes a combining mark after a letter that may bear it; anywhere else it separates.
func (s *scanner) accentuate(r rune, script uint8) error {
	if s.marks++; s.marks > MaxMarks {
		return ErrMarks
	}
	if !s.behindLetter() || !s.acceptsMark(r, script) {
		if s.last != lastDigit || s.sep != sepNone || s.held != 0 {
			if s.loose++; s.loose > maxLoose {
				return ErrMarks
			}
		}
		marks := s.marks
		err := s.mark(classOther, r)
		s.marks = marks
		return err
	}
	if r >= s.limit && script != s.own && (script != 0 || s.own == noScript) {
		return ErrAlphabet
	}
	if err := s.spell(script); err != nil {
		return err
	}
	if err := s.addCharacters(1); err != nil {
		return err
	}
	s.out = utf8.AppendRune(s.out, r)
	return nil
}

// addCharacters counts n more characters of the current word.
func (s *scanner) addCharacters(n int) error {
	s.piece += n
	s.chars += n
	switch {
	case s.piece > MaxWordChars:
		return ErrWordTooLong
	case s.chars > s.maxChars && s.list.progress != numberDigits: // the number of an item may yet go
		return ErrTooLong
	}
	return nil
}

// begin prepares for a letter or digit: it settles what is held, writes the separator, and counts.
func (s *scanner) begin(c class, attach uint8, script uint8) error {
	kind := uint8(lastLetter)
	if c == classDigit {
		if s.name {
			return ErrName
		}
		kind = lastDigit
	}
	joint := rune(0) // what is between this and the previous letter or digit
	money := rune(0) // currency sign to write before this digit
	if s.held != 0 {
		switch {
		case s.heldClass == classMoney && c == classDigit:
			money = s.held
		case (s.heldClass == classStop || s.heldClass == classComma || s.heldClass == classBetween) && c == classDigit,
			s.heldClass == classQuote, s.heldClass == classHyphen, s.heldClass == classInner:
			joint = s.held
		default:
			s.release()
		}
		s.held = 0
	}
	fresh := s.last == lastNone || s.sep != sepNone
	if s.list.progress != numberNone && s.join == List {
		if s.list.progress == numberSpace && s.list.number == s.list.item+1 {
			s.dropNumber()
			fresh = true
		}
		if fresh || c != classDigit || joint != 0 || money != 0 {
			s.list.progress = numberNone
		}
	}
	if fresh {
		s.separate(c == classDigit && money == 0)
	}
	if joint != 0 {
		if joint >= s.limit {
			return ErrAlphabet
		}
		if joint == '-' {
			s.chars++ // belongs to no word; grow checks the total
		} else if err := s.addCharacters(1); err != nil {
			return err
		}
		s.out = utf8.AppendRune(s.out, joint)
	}
	direct := !fresh && joint == 0 && money == 0 && s.last != lastMoney
	joins := joined(s.attach, attach)
	divided := direct && !joins
	switch {
	case fresh, joint == '-':
		s.piece, s.script = 0, 0
	case divided:
		s.piece = 0
		if ideographic(script) || ideographic(s.script) {
			s.script = 0
		}
	}
	if !(direct && joins || joint == '\'' && attach == s.attach && (attach == attachAlpha || attach == attachNumeric) ||
		(joint == '.' || joint == ',') && attach == attachNumeric && s.attach == attachNumeric) {
		s.segments++
	}
	if !(direct || joint == '\'' || joint == '.' || joint == ',' || joint == ':' || joint == '/') {
		s.splits++
	}
	if s.segments > s.maxWords || s.splits > s.maxWords {
		return ErrTooManyWords
	}
	if s.rise {
		s.rise = false
		if c == classLetter && (fresh || joint == '-' || divided) {
			s.capitalAt = append(s.capitalAt, len(s.out))
		}
	}
	if money != 0 {
		if money >= s.limit && s.own == noScript {
			return ErrAlphabet
		}
		if err := s.addCharacters(1); err != nil {
			return err
		}
		s.out = utf8.AppendRune(s.out, money)
	}
	if err := s.spell(script); err != nil {
		return err
	}
	s.attach, s.last, s.marks = attach, kind, 0
	return nil
}

// joined says whether UAX #29 keeps two neighbouring letters or digits in one word.
func joined(a, b uint8) bool {
	return a != attachNone && (a == b || a != attachKana && b != attachKana && b != attachNone)
}

// separate writes the pending separator before a word, whose characters are counted next.
func (s *scanner) separate(number bool) {
	begun, segments, splits, chars, sep := len(s.out), s.segments, s.splits, s.chars, s.sep
	if len(s.out) > s.begun {
		switch {
		case s.sep == sepItem:
			s.list.item++
			s.out = append(s.out, ',', ' ')
			s.chars += 2
		case s.sep == sepStop:
			s.out = append(s.out, '.', ' ')
			s.chars += 2
		default:
			s.out = append(s.out, ' ')
			s.chars++
		}
	} else {
		sep = sepItem // the first item begins the text
	}
	s.sep, s.ended = sepNone, false
	if s.join == List && number && sep == sepItem {
		s.list.begun, s.list.segments, s.list.splits, s.list.chars = begun, segments, splits, chars
		s.list.progress, s.list.number = numberDigits, 0
	}
}

// release turns the held mark into a separator.
func (s *scanner) release() {
	c := s.heldClass
	s.held = 0
	s.split(c)
}

// split notes a separator.
func (s *scanner) split(c class) {
	if s.sep == sepNone {
		s.sep = sepSpace
	}
	switch c {
	case classStop, classEnd:
		s.ended = s.join == Summary
	case classFull:
		if s.join == Summary {
			s.sep = sepStop
		}
	case classSpace, classLine:
		if s.ended {
			s.sep = sepStop
		}
		if c == classLine && s.join == List {
			s.sep = sepItem
		}
	case classComma, classSemi:
		if s.join == List {
			s.sep = sepItem
		}
	}
}

// mark takes white space and punctuation.
func (s *scanner) mark(c class, r rune) error {
	s.marks, s.rise = 0, false
	if s.name {
		switch c {
		case classSpace, classLine, classQuote, classHyphen, classStop, classComma:
		default:
			return ErrName
		}
	}
	if s.join == List && s.list.progress != numberNone {
		s.number(c, r)
	}
	if s.held != 0 {
		s.release()
	}
	if s.sep == sepNone {
		switch c {
		case classQuote:
			if s.last == lastLetter || s.last == lastDigit {
				s.held, s.heldClass = '\'', c
				return nil
			}
		case classHyphen, classInner:
			if s.last == lastLetter || s.last == lastDigit {
				s.held, s.heldClass = r, c
				return nil
			}
		case classStop, classComma, classBetween:
			if s.last == lastDigit {
				s.held, s.heldClass = r, c
				return nil
			}
		case classMoney:
			if s.last == lastDigit {
				if r >= s.limit && s.own == noScript {
					return ErrAlphabet
				}
				if err := s.addCharacters(1); err != nil {
					return err
				}
				s.out = utf8.AppendRune(s.out, r)
				s.last = lastMoney
				return nil
			}
		}
	}
	if c == classMoney {
		s.held, s.heldClass = r, c
		return nil
	}
	s.split(c)
	return nil
}
