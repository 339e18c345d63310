package text

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Options say how a text is normalised. The zero value refuses every text: it has no alphabet.
type Options struct {
	// Alphabet limits the delivered characters.
	Alphabet Alphabet
	// Join says which separators are kept.
	Join Join
	// PreserveCase keeps an initial capital of a word and nothing else; it costs one bit a word.
	PreserveCase bool
	// PersonName refuses digits and every mark but apostrophe, hyphen, full stop and comma (BCP-97).
	PersonName bool
	// MaxWords is the greatest number of words; 0 refuses every text.
	MaxWords int
	// MaxChars is the greatest number of delivered code points; 0 for no limit beside MaxWords.
	MaxChars int
	// Rules find anomalies; nil stands for DefaultRules.
	Rules *Rules
}

// Result is a normalised text.
type Result struct {
	// Text is the dst given to Normalise with the canonical bytes appended; the caller owns it.
	Text []byte
	// Words counts by PROTOCOL P3.3; 1 or more.
	Words int
	// Chars counts the code points appended.
	Chars int
	// Capitals counts the initial capitals kept; 0 without PreserveCase.
	Capitals int
	// Anomalies are the codes raised by the rules.
	Anomalies Set
}

// Normalise appends the canonical spelling of src to dst (PROTOCOL P3.3, P3.4, P3.6). On an error the Result is
// zero and nothing may be delivered; bytes behind len(dst) may have changed. It does not allocate for ASCII text when dst has room, unless a
// rule looks at a text of more than 1,024 bytes. src is not kept. Running time is linear in len(src).
func Normalise(dst, src []byte, o Options) (Result, error) {
	limit := o.Alphabet.limit()
	if limit == 0 || o.Join > Summary {
		return Result{}, ErrAlphabet
	}
	s := scanner{out: dst, begun: len(dst), limit: limit, join: o.Join, name: o.PersonName, capitals: o.PreserveCase,
		maxWords: o.MaxWords, maxChars: o.MaxChars}
	if s.maxChars <= 0 {
		s.maxChars = int(^uint(0) >> 1)
	}
	received := src
	err := s.scan(src, false)
	if err == errRough {
		var settled []byte
		var raw flags
		if settled, raw, err = settle(src, o.PreserveCase, o.MaxWords); err != nil {
			return Result{}, err
		}
		s = scanner{out: dst, begun: len(dst), limit: limit, join: o.Join, name: o.PersonName, capitals: o.PreserveCase,
			maxWords: o.MaxWords, maxChars: s.maxChars, flags: raw}
		err = s.scan(settled, true)
	}
	if err != nil {
		return Result{}, err
	}
	if len(s.out) == s.begun {
		return Result{}, ErrEmpty
	}
	if s.chars > s.maxChars {
		return Result{}, ErrTooLong
	}
	kept := len(s.capitalAt)
	if kept > 0 {
		if kept, err = s.raise(); err != nil {
			return Result{}, err
		}
	}
	rules := o.Rules
	if rules == nil {
		rules = DefaultRules()
	}
	out := Result{Text: s.out, Words: max(s.segments, s.splits), Chars: s.chars, Capitals: kept}
	out.Anomalies = rules.screen(received, s.out[s.begun:], s.flags)
	return out, nil
}

// maxPasses caps the search for a fixpoint. Every code point, alone or with a mark, settles within three.
const maxPasses = 4

// settle brings a text to the fixpoint of stripping, NFKC and case folding. Text with code points outside of the table
// is refused. With capitals every upper-case letter is folded and marked by capitalMark before it. maxWords lets
// it refuse early what expands to more words than allowed. raw is what the bytes as received raise.
func settle(src []byte, capitals bool, maxWords int) (settled []byte, raw flags, err error) {
	buf := make([]byte, 0, len(src)+len(src)/2+16)
	buf, raw, err = strip(buf, src, maxWords)
	if err != nil {
		return nil, raw, err
	}
	var other []byte
	buf, other = compatible(buf, other)
	for range maxPasses {
		var changed bool
		other, changed = foldCase(other[:0], buf, capitals)
		buf, other = other, buf
		if !changed {
			return buf, raw, nil
		}
		buf, other = compatible(buf, other)
	}
	return nil, raw, ErrUnstable
}

// compatible returns a text in NFKC and room for the next, each in one of the two arguments.
func compatible(text, room []byte) ([]byte, []byte) {
	if norm.NFKC.IsNormal(text) {
		return text, room
	}
	return norm.NFKC.Append(room[:0], text...), text
}

// U+FDFA becomes 18 characters in four words.
const (
	wordyLigature = 0xfdfa
	wordyBreaks   = 3
)

// capitalMark stands before a letter that was upper case. It is private use, so no received text holds it.
const capitalMark = 0xf8ff

// strip removes the invisible code points, replaces the accents that stand for apostrophes, and refuses what has no place in a text.
func strip(dst, src []byte, maxWords int) (out []byte, raw flags, err error) {
	breaks, marks := 0, 0
	for i := 0; i < len(src); {
		r, size := rune(src[i]), 1
		if r < utf8.RuneSelf {
			raw |= flagsAt(src, i, raw)
		} else {
			if r, size = utf8.DecodeRune(src[i:]); r == utf8.RuneError && size == 1 {
				return nil, raw, ErrCodePoint
			}
		}
		e := entryOf(r)
		switch class(e & entryClass) {
		case classRefuse:
			return nil, raw, ErrCodePoint
		case classStrip:
			raw |= sawInvisible
		case classMark:
			if marks++; marks > maxRawMarks {
				return nil, raw, ErrMarks
			}
			dst = append(dst, src[i:i+size]...)
		default:
			if !joinsBack(e, src[i:]) {
				marks = 0
			} else if marks++; marks > maxRawMarks {
				return nil, raw, ErrMarks
			}
			switch r {
			case 0x200b:
				raw |= sawInvisible
				dst = append(dst, ' ')
			case 0xb4, 0x1ffd:
				dst = append(dst, '\'')
			case wordyLigature:
				if breaks += wordyBreaks; breaks > maxWords {
					return nil, raw, ErrTooManyWords
				}
				dst = append(dst, src[i:i+size]...)
			default:
				dst = append(dst, src[i:i+size]...)
			}
		}
		i += size
	}
	return dst, raw, nil
}

// joinsBack says whether a code point that is no mark is one to normalisation: some are several marks (U+0344), Jamo
// vowels and tails compose with what stands before them.
func joinsBack(e uint32, src []byte) bool {
	if c := class(e & entryClass); c == classExpand && e>>entryMapped != 0 || c != classExpand && (c != classLetter || e&entryRough == 0) {
		return false
	}
	p := norm.NFKC.Properties(src)
	if d := p.Decomposition(); len(d) > 0 {
		p = norm.NFKC.Properties(d)
	}
	return !p.BoundaryBefore() || p.LeadCCC() > 0
}

// maxRawMarks refuses long runs of marks before normalisation pays for them; some runs of more than MaxMarks compose to fewer.
const maxRawMarks = 8

// foldCase strips and folds each code point of a text in NFKC and says whether another pass is needed. The iota that
// an iota subscript becomes stands behind the other marks of its letter, as in capitals.
func foldCase(dst, src []byte, capitals bool) ([]byte, bool) {
	changed, last, iota := false, rune(0), false
	for i := 0; i < len(src); {
		r, size := rune(src[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(src[i:])
		}
		e := entryOf(r)
		c := class(e & entryClass)
		if iota && c != classMark {
			dst, iota, last = append(dst, subscript...), false, 0
		}
		switch c {
		case classStrip:
			changed = true
		case classMapped, classExpand:
			changed = true
			if capitals && (unicode.IsUpper(r) || unicode.IsTitle(r)) {
				dst = utf8.AppendRune(dst, capitalMark)
			}
			if c == classMapped {
				last = rune(e >> entryMapped)
				dst = utf8.AppendRune(dst, last)
				break
			}
			to, ok := foldOf(r)
			if !ok {
				dst, last = append(dst, src[i:i+size]...), r
				break
			}
			if len(to) > len(subscript) && to[len(to)-len(subscript):] == subscript {
				to, iota = to[:len(to)-len(subscript)], true
			}
			dst = append(dst, to...)
			last, _ = utf8.DecodeLastRuneInString(to)
		default:
			if r == 0x307 && last == 'i' {
				changed = true
				break
			}
			dst, last = append(dst, src[i:i+size]...), r
		}
		i += size
	}
	if iota {
		dst = append(dst, subscript...)
	}
	return dst, changed
}

// subscript is what an iota subscript folds to.
const subscript = "\u03b9"

// foldOf is the case folding of the few letters that fold to more than one code point.
func foldOf(r rune) (string, bool) {
	low, high := 0, len(foldTable)
	for low < high {
		if mid := int(uint(low+high) >> 1); foldTable[mid].from < r {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(foldTable) && foldTable[low].from == r {
		return foldTable[low].to, true
	}
	return "", false
}

// raise turns the marked initial letters of the output into capitals where the capital is one code point that folds back
// to the letter and no mark follows: the capital must say nothing but its one bit. Capitals are in the alphabet of their letters.
func (s *scanner) raise() (int, error) {
	low := append([]byte(nil), s.out[s.begun:]...)
	out, from, kept := s.out[:s.begun], 0, 0
	for _, at := range s.capitalAt {
		at -= s.begun
		r, size := utf8.DecodeRune(low[at:])
		next, _ := utf8.DecodeRune(low[at+size:])
		up := unicode.ToUpper(r)
		e := entryOf(up)
		if class(e&entryClass) != classMapped || rune(e>>entryMapped) != r ||
			at+size < len(low) && class(entryOf(next)&entryClass) == classMark {
			continue
		}
		out = utf8.AppendRune(append(out, low[from:at]...), up)
		from = at + size
		kept++
	}
	s.out = append(out, low[from:]...)
	return kept, nil
}
