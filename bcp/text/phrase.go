package text

import (
	"encoding/binary"
	"unicode/utf8"
)

// phrases finds word sequences in normalised text: an Aho-Corasick automaton over hashes of words. Whatever stands
// between two words is ignored, so punctuation and line breaks do not hide a phrase.
type phrases struct {
	firsts [64]uint64 // a filter of the first words, by their hashes: nearly all words end here
	keys   []uint64   // open addressing by state and word; 0 is free
	next   []int32
	fail   []int32
	found  []Set
	edges  map[edge]int32 // while building
}

type edge struct {
	state int32
	word  uint64
}

func newPhrases() *phrases {
	return &phrases{fail: []int32{0}, found: []Set{0}, edges: map[edge]int32{}}
}

// begins says whether a phrase may begin with a word.
func (p *phrases) begins(word uint64) bool { return p.firsts[word>>58]>>(word>>52&63)&1 != 0 }

// add gives a code to the phrase of a state.
func (p *phrases) add(phrase int32, code Set) { p.found[phrase] |= code }

// enter returns the state of a phrase.
func (p *phrases) enter(words []uint64) int32 {
	state := int32(0)
	for _, w := range words {
		to, ok := p.edges[edge{state, w}]
		if !ok {
			to = int32(len(p.fail))
			p.edges[edge{state, w}] = to
			p.fail = append(p.fail, 0)
			p.found = append(p.found, 0)
		}
		state = to
	}
	return state
}

// build computes the failure links and the table.
func (p *phrases) build() {
	from := make([]edge, len(p.fail))
	for e, to := range p.edges {
		from[to] = e
	}
	// A state is numbered after its parent, but its failure link may be a later one: go by depth.
	depth := make([]int, len(p.fail))
	deepest := 0
	for s := 1; s < len(p.fail); s++ {
		depth[s] = depth[from[s].state] + 1
		deepest = max(deepest, depth[s])
	}
	for d := 2; d <= deepest; d++ {
		for s := 1; s < len(p.fail); s++ {
			if depth[s] != d {
				continue
			}
			f := p.fail[from[s].state]
			for {
				if to, ok := p.edges[edge{f, from[s].word}]; ok {
					p.fail[s] = to
					break
				}
				if f == 0 {
					break
				}
				f = p.fail[f]
			}
			p.found[s] |= p.found[p.fail[s]]
		}
	}
	size := 16
	for size < 4*len(p.fail) {
		size *= 2
	}
	p.keys, p.next = make([]uint64, size), make([]int32, size)
	for s := 1; s < len(p.fail); s++ {
		key := edgeKey(from[s].state, from[s].word)
		at := key & uint64(size-1)
		for p.keys[at] != 0 {
			at = (at + 1) & uint64(size-1)
		}
		p.keys[at], p.next[at] = key, int32(s)
		if first := from[s]; first.state == 0 {
			p.firsts[first.word>>58] |= 1 << (first.word >> 52 & 63)
		}
	}
	p.edges = nil
}

func edgeKey(state int32, word uint64) uint64 {
	k := (word ^ uint64(state)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return (k ^ k>>29) | 1<<63
}

func (p *phrases) step(state int32, word uint64) int32 {
	for {
		if state == 0 && !p.begins(word) {
			return 0
		}
		if to := p.edge(edgeKey(state, word)); to != 0 || state == 0 {
			return to
		}
		state = p.fail[state]
	}
}

// edge looks a key up: the state that it leads to, or 0.
func (p *phrases) edge(key uint64) int32 {
	mask := uint64(len(p.keys) - 1)
	for at := key & mask; p.keys[at] != 0; at = (at + 1) & mask {
		if p.keys[at] == key {
			return p.next[at]
		}
	}
	return 0
}

// minSpelled is the least number of single letters in a row that are also read as one word.
const minSpelled = 4

// match finds the codes of all phrases in a normalised text.
func (p *phrases) match(text []byte) Set {
	w := walk{phrases: p}
	w.text(text)
	return w.end()
}

// walk meets the words of a text one after the other, and knows the phrases found so far and what the words weigh.
type walk struct {
	phrases *phrases
	sum     weighed
	found   Set
	state   int32
	letters int // single letters in a row, of which spelled has the first
	spelled [MaxWordChars]byte
}

// text meets all words of a normalised text, or of a part of one that has whole words.
func (w *walk) text(text []byte) {
	for t := (tokens{text: text}); t.next(); {
		w.word(t.word, t.stem, t.letter)
		if t.other != 0 {
			w.found |= w.phrases.found[w.phrases.step(0, t.other)]
		}
	}
}

// word meets a word by its hash and that of its stem; letter is it, if it is a single letter.
func (w *walk) word(hash, stem uint64, letter byte) {
	w.sum.add(hash, stem)
	if letter != 0 {
		if w.letters < len(w.spelled) {
			w.spelled[w.letters] = letter
		}
		w.letters++
	} else if w.letters > 0 {
		w.spell()
	}
	if w.state != 0 || w.phrases.begins(hash) {
		w.state = w.phrases.step(w.state, hash)
		w.found |= w.phrases.found[w.state]
	}
}

// end returns the codes of all phrases found, and of what the words weigh.
func (w *walk) end() Set {
	w.spell()
	return w.found | w.sum.code()
}

// spell reads the single letters met last as one word.
func (w *walk) spell() {
	if w.letters >= minSpelled {
		letters := w.spelled[:min(w.letters, len(w.spelled))]
		hash := hashWord(letters, letters)
		w.found |= w.phrases.found[w.phrases.step(0, hash)]
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
	if n := letterRun(text[i:]); n > 0 && text[i] >= 'a' {
		if i += n; i == len(text) || tokenKinds[text[i]] == tokenBreak { // nearly all are small letters only
			if n == 1 {
				t.letter = text[begun]
			}
			t.at, t.word, t.stem = i, hashWord(text[begun:i], text[begun:]), stemOf(text[begun:i])
			return true
		}
	}
	kinds := uint8(0)
	if i > begun {
		kinds = tokenLower
	}
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

// plain hashes an ASCII word that is not all lower-case letters.
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
	t.word, t.stem = hashWord(buf[:n], buf[:]), stemOf(buf[:n])
	if kinds == tokenDigit {
		t.stem = stemNumber
	}
	if ones {
		t.other = hashWord(other[:n], other[:])
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
	t.word, t.stem = hashWord(buf[:n], buf[:]), stemOf(buf[:n])
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
// an agent makes collide only raises a code against itself. spare is the text that the word begins, so that eight bytes can
// be read at once; no word holds a zero byte.
func hashWord(word, spare []byte) uint64 {
	h := uint64(0)
	for len(word) > 8 {
		h = hashMore(h, binary.LittleEndian.Uint64(word))
		word, spare = word[8:], spare[8:]
	}
	return hashMore(h, firstBytes(eight(spare), len(word)))
}

// hashMore goes on with the hash of a word by up to eight bytes of it.
func hashMore(h, bytes uint64) uint64 {
	h = (h ^ bytes) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// firstBytes are the first n of eight bytes, with zeros after them.
func firstBytes(eight uint64, n int) uint64 { return eight & (^uint64(0) >> (64 - 8*n)) }
