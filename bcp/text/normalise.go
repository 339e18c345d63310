package text

import (
	"unicode"
	"unicode/utf8"
)

// Options say how a text is normalised. The zero value refuses every text: it has no alphabet.
type Options struct {
	// Alphabet limits the delivered characters.
	Alphabet Alphabet
	// Join says which separators are kept.
	Join Join
	// PreserveCase keeps an initial capital of a word and nothing else; it costs one bit a word.
	PreserveCase bool
	// Looks say what becomes of words that look the same in several scripts.
	Looks Looks
	// PersonName refuses digits and every mark but apostrophe, hyphen, full stop and comma (BCP-97).
	PersonName bool
	// MaxWords is the greatest number of words; 0 refuses every text.
	MaxWords int
	// MaxChars is the greatest number of delivered code points; 0 for no limit but MaxWords.
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
	// Prose says that the text as received is nothing but ASCII letters and numbers, with a blank or line break after each, and
	// perhaps a full stop or comma before that: words are shorter than 16 characters and numbers than 7, and none has both
	// letters and digits. No key or password can be in such a text (package guard), and no code, markup or address.
	Prose bool
	// Anomalies are the codes raised by the rules.
	Anomalies Set
}

// Normalise appends the canonical spelling of src to dst (PROTOCOL P3.3, P3.4, P3.6). On an error the Result is
// zero and nothing may be delivered; bytes after len(dst) may have changed. It does not allocate for ASCII text when dst has room, unless it
// keeps capitals. src is not kept. Running time is linear in len(src).
func Normalise(dst, src []byte, o Options) (Result, error) {
	limit := o.Alphabet.limit()
	if limit == 0 || o.Join > Summary || o.Looks > LooksKept {
		return Result{}, ErrAlphabet
	}
	own, home := o.Alphabet.script()
	s := scanner{out: dst, begun: len(dst), limit: limit, own: own, home: home, join: o.Join, name: o.PersonName, capitals: o.PreserveCase,
		maxWords: o.MaxWords, maxChars: o.MaxChars}
	if s.maxChars <= 0 {
		s.maxChars = int(^uint(0) >> 1)
	}
	rules := o.Rules
	if rules == nil {
		rules = DefaultRules()
	}
	if err := s.scan(src); err != nil {
		return Result{}, err
	}
	if len(s.out) == s.begun {
		return Result{}, ErrEmpty
	}
	if (s.foreign || own != noScript) && o.Looks != LooksKept {
		if err := s.resolve(o.Looks); err != nil {
			return Result{}, err
		}
	}
	if s.chars > s.maxChars {
		return Result{}, ErrTooLong
	}
	kept := len(s.capitalAt)
	if kept > 0 {
		kept = s.raise()
	}
	out := Result{Text: s.out, Words: max(s.segments, s.splits), Chars: s.chars, Capitals: kept, Prose: isProse(src)}
	if out.Anomalies = rules.screen(src, s.out[s.begun:], out.Prose); o.PersonName {
		out.Anomalies = out.Anomalies.InName()
	}
	return out, nil
}

// raise turns the marked initial letters of the output into capitals where the capital is one code point that folds back
// to the letter and looks like no other, and no mark follows: the capital must say nothing but its one bit. Capitals are in the alphabet of their letters.
func (s *scanner) raise() int {
	kept, from := 0, 0
	var raised []byte
	for _, at := range s.capitalAt {
		letter, size := utf8.DecodeRune(s.out[at:])
		up, rest := unicode.ToUpper(letter), s.out[at+size:]
		if e := lookUp(up); class(e&entryClass) != classMapped || mappedTo(e) != letter || up >= utf8.RuneSelf && !plainCapital(up, rest) {
			continue
		}
		if next, n := utf8.DecodeRune(rest); n > 1 && class(lookUp(next)&entryClass) == classMark {
			continue
		}
		raised = utf8.AppendRune(append(raised, s.out[from:at]...), up)
		kept, from = kept+1, at+size
	}
	s.out = append(raised, s.out[from:]...)
	return kept
}
