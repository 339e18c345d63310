package text

import (
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// Letters are the letters and digits of a text as they are compared with those of another one, to find what one quotes of the other.
type Letters struct {
	Text []byte // of all words, one after the other
	Ends []int  // where each word ends in Text
}

// Word is the word of a place.
func (l Letters) Word(i int) []byte {
	if i == 0 {
		return l.Text[:l.Ends[0]]
	}
	return l.Text[l.Ends[i-1]:l.Ends[i]]
}

// ReadLetters reads the words of a text. It looks through what only dresses them: case, punctuation, invisible code points, compatibility
// forms, accents and points, letters that look like those of another script, digits that stand for letters (1gn0re), and i and l.
// Ideographs and the like are a word each. What is no valid UTF-8 is no letter. Running time is linear; nothing of the text is kept.
func ReadLetters(text []byte) Letters {
	l := Letters{Text: make([]byte, 0, len(text)), Ends: make([]int, 0, len(text)/5+1)}
	alone := false // the last letter is a word of its own
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		e := lookUp(r)
		if class(e&entryClass) != classExpand {
			alone = l.add(r, e, alone)
			continue
		}
		for _, to := range expand(e) {
			if to != capitalMark {
				alone = l.add(to, lookUp(to), alone)
			}
		}
	}
	l.end()
	return l
}

// add reads a code point that is not of classExpand, and says whether the last letter is a word of its own.
func (l *Letters) add(r rune, e uint32, alone bool) bool {
	c := class(e & entryClass)
	if c == classMapped {
		r = mappedTo(e)
		e = lookUp(r)
		c = class(e & entryClass)
	}
	switch {
	case c == classStrip, c == classStretch:
	case c == classMark:
		if script := entryScriptNumber(e); script != 0 && !(unicode.Is(unicode.Mn, r) && (script == scriptArabic || script == scriptHebrew)) {
			l.Text = utf8.AppendRune(l.Text, r)
		}
	case c == classDigit:
		if alone {
			l.end()
		}
		l.Text, alone = append(l.Text, byte(r)), false
	case c == classLetter:
		r = withoutAccents(r)
		own := uint8(e >> entryAttach & 3)
		if alone || own == attachNone {
			l.end()
		}
		if look := letterLook(r, lookUp(r), 0); look != 0 {
			r, _ = look.in(bits.TrailingZeros64(look.scripts()))
			r = withoutAccents(r)
		}
		if r < utf8.RuneSelf && r >= 'A' && r <= 'Z' {
			r += 'a' - 'A' // of a dotted capital
		}
		l.Text, alone = utf8.AppendRune(l.Text, r), own == attachNone
	default:
		l.end()
	}
	return alone
}

// end ends a word, if it has begun.
func (l *Letters) end() {
	begun := 0
	if n := len(l.Ends); n > 0 {
		begun = l.Ends[n-1]
	}
	if begun == len(l.Text) {
		return
	}
	for i, b := range l.Text[begun:] {
		if b >= '0' && b <= '9' {
			b = letterOfDigit[b-'0']
		}
		if b == 'i' {
			b = 'l'
		}
		l.Text[begun+i] = b
	}
	l.Ends = append(l.Ends, len(l.Text))
}

// withoutAccents takes a letter's accents off.
func withoutAccents(r rune) rune {
	for parts := slot(partsTable[:], uint64(r)); parts != 0; parts = slot(partsTable[:], uint64(r)) {
		r = rune(parts >> 21)
	}
	return r
}
