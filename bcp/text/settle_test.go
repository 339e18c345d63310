package text

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxPasses caps the search for a fixpoint. Every code point, alone or with a mark, settles within three.
const maxPasses = 4

// settle brings a text to the fixpoint of stripping, NFKC of the whole text and case folding: the rule of P3.4 as it
// reads, which the scanner follows without looking at the whole text.
func settle(src []byte) ([]byte, error) {
	buf, err := strip(src)
	if err != nil {
		return nil, err
	}
	stretched := strings.NewReplacer("\u0640", "", "\u07fa", "")
	buf = norm.NFKC.Bytes([]byte(stretched.Replace(norm.NFKC.String(string(buf)))))
	for range maxPasses {
		folded, changed := foldCase(buf)
		if !changed {
			return folded, nil
		}
		buf = norm.NFKC.Bytes(folded)
	}
	return nil, errUnstable
}

var errUnstable = errors.New("normalisation does not settle")

// strip removes the invisible code points, replaces the accents that stand for apostrophes, and refuses what has no place in a text.
func strip(src []byte) ([]byte, error) {
	var dst []byte
	marks, extra := 0, 0
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if e := lookUp(r); class(e&entryClass) == classExpand {
			if extra += utf8.RuneCountInString(strings.ReplaceAll(expand(e), string(rune(capitalMark)), "")) - 1; extra > extraFree+len(src)/extraShare {
				return nil, ErrSpelling
			}
		}
		if r == utf8.RuneError && size == 1 {
			return nil, ErrCodePoint
		}
		switch c := class(lookUp(r) & entryClass); {
		case c == classRefuse:
			return nil, ErrCodePoint
		case c == classStrip:
		case unicode.Is(unicode.M, r), r == 0xff9e, r == 0xff9f:
			if marks++; marks > maxRawMarks {
				return nil, ErrMarks
			}
			dst = append(dst, src[i:i+size]...)
		default:
			marks = 0
			switch r {
			case 0x200b:
				dst = append(dst, ' ')
			case 0xb4, 0x1ffd:
				dst = append(dst, '\'')
			default:
				dst = append(dst, src[i:i+size]...)
			}
		}
		i += size
	}
	return dst, nil
}

// foldCase strips and folds each code point of a text in NFKC and says whether another pass is needed. The iota that
// an iota subscript becomes stands behind the other marks of its letter, as in capitals.
func foldCase(src []byte) ([]byte, bool) {
	var dst []byte
	changed, last, iota := false, rune(0), false
	for i := 0; i < len(src); {
		r, size := rune(src[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(src[i:])
		}
		e := lookUp(r)
		c := class(e & entryClass)
		if iota && (c != classMark || e&entryAccent == 0) {
			dst, iota, last = append(dst, subscript...), false, 0
		}
		switch c {
		case classStrip:
			changed = true
		case classMapped, classExpand:
			changed = true
			if c == classMapped {
				last = mappedTo(e)
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

// foldOf is the case folding of the letters that fold to more than one code point.
func foldOf(r rune) (string, bool) {
	if norm.NFKC.String(string(r)) != string(r) {
		return "", false
	}
	to := strings.NewReplacer(string(rune(capitalMark)), "", "I\u0307", "i", "\u0345", subscript).Replace(expand(lookUp(r)))
	if d := []rune(to); len(d) == 2 && slot(composeTable[:], pairKey(d[0], d[1])) != 0 { // spelled as another letter
		to = string(rune(slot(composeTable[:], pairKey(d[0], d[1]))))
	}
	return to, true
}
