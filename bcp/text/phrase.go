package text

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// phrases are word sequences, by the hash of their last word. Whatever stands between two words is ignored, so punctuation and
// line breaks do not hide a phrase.
type phrases map[uint64][]phrase

// phrase is a sequence of words without the last one, from the end on.
type phrase struct {
	before []uint64
	code   Set
}

// maxPhrase is the number of words of the longest phrase.
const maxPhrase = 8

// add gives a code to a phrase.
func (p phrases) add(words []uint64, code Set) {
	last := len(words) - 1
	before := slices.Clone(words[:last])
	slices.Reverse(before)
	p[words[last]] = append(p[words[last]], phrase{before, code})
}

// minSpelled is the least number of single letters in a row that are also read as one word.
const minSpelled = 4

// walk meets the words of a text one after the other, and knows the phrases found so far and what the words weigh.
type walk struct {
	phrases phrases
	sum     weighed
	found   Set
	words   [maxPhrase - 1]uint64 // the last ones, the newest first
	letters int                   // single letters in a row, of which spelled has the first
	spelled [MaxWordChars]byte
}

// text meets all words of a normalised text, and returns the codes of all phrases found, and of what the words weigh.
func (w *walk) text(text []byte) Set {
	for t := (tokens{text: text}); t.next(); {
		w.sum.add(t.word, t.stem)
		if t.letter != 0 {
			if w.letters < len(w.spelled) {
				w.spelled[w.letters] = t.letter
			}
			w.letters++
		} else {
			w.spell()
		}
		w.find(t.word, w.words[:])
		if t.other != 0 {
			w.find(t.other, nil)
		}
		copy(w.words[1:], w.words[:])
		w.words[0] = t.word
	}
	w.spell()
	return w.found | w.sum.code()
}

// find looks up the phrases that end with a word after others, the newest first.
func (w *walk) find(word uint64, others []uint64) {
	for _, p := range w.phrases[word] {
		if len(p.before) <= len(others) && slices.Equal(p.before, others[:len(p.before)]) {
			w.found |= p.code
		}
	}
}

// spell reads the single letters met last as one word.
func (w *walk) spell() {
	if w.letters >= minSpelled {
		letters := w.spelled[:min(w.letters, len(w.spelled))]
		hash := hashWord(letters)
		w.find(hash, nil)
		w.sum.add(hash, stemOf(letters))
	}
	w.letters = 0
}

// tokens walks over the words of a normalised text.
type tokens struct {
	text   []byte
	at     int
	word   uint64 // hash of the word, apostrophes left out, digits between letters read as letters
	stem   uint64 // hash of what it begins with: see stemOf
	other  uint64 // a second reading (1 as l), or 0
	letter byte   // the letter, if the word is a single ASCII letter
}

// What a byte is to tokens.
const (
	tokenBreak = 0 // ends a word
	tokenLower = 1
	tokenUpper = 2
	tokenDigit = 4
	tokenQuote = 8
	tokenWide  = 16
)

const maxToken = 4*MaxWordChars + MaxWordChars

// next reads one word.
func (t *tokens) next() bool {
	text, i := t.text, t.at
	for i < len(text) && tokenKinds[text[i]] == tokenBreak {
		i++
	}
	begun := i
	t.letter, t.other, t.stem = 0, 0, 0
	kinds := uint8(0)
	for i < len(text) {
		k := tokenKinds[text[i]]
		if k == tokenBreak || k == tokenWide {
			break
		}
		kinds |= k
		i++
	}
	if i < len(text) && tokenKinds[text[i]] == tokenWide {
		return t.wide(begun)
	}
	if i == begun {
		t.at = i
		return false
	}
	t.at = i
	t.plain(text[begun:i], kinds)
	return true
}

// plain hashes an ASCII word.
func (t *tokens) plain(word []byte, kinds uint8) {
	var buf, other [maxToken]byte
	n, ones := 0, false
	for _, b := range word {
		if b == '\'' {
			continue
		}
		if n == len(buf) {
			t.word, t.stem = 0, 0
			return
		}
		switch {
		case b >= 'A' && b <= 'Z':
			b |= 0x20
		case b >= '0' && b <= '9' && kinds&(tokenLower|tokenUpper) != 0:
			ones = ones || b == '1'
			b = letterOfDigit[b-'0']
		}
		buf[n], other[n] = b, b
		if b == 'i' && word[min(n, len(word)-1)] == '1' {
			other[n] = 'l'
		}
		n++
	}
	if n == 1 && kinds&tokenDigit == 0 {
		t.letter = buf[0]
	}
	t.word, t.stem = hashWord(buf[:n]), stemOf(buf[:n])
	if kinds == tokenDigit {
		t.stem = stemNumber
	}
	if ones {
		t.other = hashWord(other[:n])
	}
}

// letterOfDigit is how digits are read inside words.
const letterOfDigit = "oizeasgtbg"

// wide reads a word with letters outside of ASCII; UAX #29 borders end it, so an ideograph is a word. One that looks like ASCII is read so.
func (t *tokens) wide(begun int) bool {
	var buf [maxToken]byte
	n, attach, i := 0, uint8(attachNone), begun
	started, alike := false, true
	for i < len(t.text) {
		r, size := utf8.DecodeRune(t.text[i:])
		e := lookUp(r)
		if class(e&entryClass) == classMapped {
			r = mappedTo(e)
			e = lookUp(r)
		}
		c := class(e & entryClass)
		if c != classLetter && c != classDigit && !(started && (c == classMark || c == classQuote)) {
			if started {
				break
			}
			i += size
			continue
		}
		if c == classLetter || c == classDigit {
			a := uint8(e >> entryAttach & 3)
			if started && !joined(attach, a) {
				break
			}
			attach, started = a, true
		}
		if c != classQuote && n+utf8.UTFMax <= len(buf) {
			n += utf8.EncodeRune(buf[n:], r)
			alike = alike && e&entryLook != 0
		}
		i += size
	}
	t.at = i
	if started && alike {
		n = latinWord(&buf, n)
	}
	t.word, t.stem = hashWord(buf[:n]), stemOf(buf[:n])
	return started
}

// latinWord spells a word in ASCII if all its letters look like letters of ASCII, and returns its length.
func latinWord(word *[maxToken]byte, length int) int {
	var latin [maxToken]byte
	n := 0
	for _, r := range string(word[:length]) {
		if latin[n] = latinLook(r, lookUp(r)); latin[n] == 0 {
			return length
		}
		n++
	}
	*word = latin
	return n
}

// hashWord tells words of up to 8 bytes apart for certain and longer ones but for one chance in 2^64. A word that
// an agent makes collide only raises a code against itself. No word holds a zero byte.
func hashWord(word []byte) uint64 {
	h := uint64(0)
	for ; len(word) > 8; word = word[8:] {
		h = hashMore(h, eight(word))
	}
	return hashMore(h, eight(word))
}

// hashMore goes on with the hash of a word by up to eight bytes of it.
func hashMore(h, bytes uint64) uint64 {
	h = (h ^ bytes) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// eight returns the first eight bytes of a text, with zeros after its end.
func eight(text []byte) uint64 {
	var b [8]byte
	copy(b[:], text)
	return binary.LittleEndian.Uint64(b[:])
}
