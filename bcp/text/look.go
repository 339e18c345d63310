package text

import (
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Looks says what becomes of words that look the same in several scripts, such as pay in Latin and in Cyrillic letters.
type Looks uint8

// What becomes of them.
const (
	// LooksByText writes a word whose letters are the same glyphs in several scripts in the one that most other words are written in,
	// and refuses a word whose letters only resemble Latin ones where no other word is surely of its script. See the package.
	LooksByText Looks = 0
	// LooksAlone writes a word whose letters are the same glyphs in Latin letters, whatever is next to it, and refuses none:
	// words of a vocabulary are compared so.
	LooksAlone Looks = 1
	// LooksKept leaves such words as they are: for texts of operators.
	LooksKept Looks = 2
)

// Keys of lookTable beside those of letters, which are pairKey of the letter and 0 or a mark. Their values are looks.
const (
	keyMember = 1 << 62 // and the class << 8 and the place of a script: pairKey of that script's letter, and its mark or 0
	// and a capital: the class of small letters like it << 48, the scripts that have a letter or capital like it << 1, and 1 where its
	// own has another one
	keyCapital = 1 << 61
)

// A look is what lookTable says of a letter that looks like one of another script; 0 of all others.
type look uint64

// letterLook is the look of a letter whose entry is e, with the mark after it or 0.
func letterLook(letter rune, e uint32, mark rune) look {
	if mark == 0 && e&entryLook == 0 {
		return 0
	}
	return look(slot(lookTable[:], pairKey(letter, mark)))
}

// scripts are all that have a letter that looks like it, as bits by their places, its own among them.
func (l look) scripts() uint64 { return lookMasks[uint16(l)] }

// glyphs are those of them whose letter is the same glyph.
func (l look) glyphs() uint64 { return uint64(l >> 24) }

// rare is a bit for each letter that few of the languages of its script write, alwaysRare for letters of scripts that few people write
// and those with a mark that does not compose, 0 for the others.
func (l look) rare() uint64 {
	if n := uint8(l >> 16); n != 0 {
		return 1 << n
	}
	return 0
}

const alwaysRare = 1 << 63

// in is the letter of the script of a place that looks like it, and its mark or 0.
func (l look) in(place int) (letter, mark rune) {
	m := slot(lookTable[:], keyMember|uint64(uint16(l))<<8|uint64(place))
	return rune(m >> 21), rune(m & (1<<21 - 1))
}

// latinLook is the small letter of ASCII that a letter of another script, whose entry is e, looks like, or 0.
func latinLook(r rune, e uint32) byte {
	if l := letterLook(r, e, 0); l != 0 {
		if letter, mark := l.in(latinPlace); letter < utf8.RuneSelf && mark == 0 {
			return byte(letter)
		}
	}
	return 0
}

// latinPlace is the place of Latin among the scripts that have letters like those of another.
const latinPlace = 0

// lettersRun is a run of letters of one script without space or hyphen.
type lettersRun struct {
	from, to int
	place    int    // of its script
	target   int    // of the script that it is to be written in
	allowed  uint64 // the scripts in which it may stand
	looks    uint64 // the scripts that it looks like, its own among them; 0 where it has no letters, or its script none like others
	glyphs   uint64 // those of them whose letters are the same glyphs
	rare     uint64 // the rare letters in it
}

// evidence is what a text says about the scripts of its words. It is the same for every spelling of the text.
type evidence struct {
	runs [lookScripts]int // the number of runs by scripts
	rare uint64           // the rare letters in them
	home int              // the script that words are taken for where nothing says otherwise
}

// likely are Latin, the home and the scripts of the evidence.
func (ev *evidence) likely() uint64 {
	likely := uint64(1<<latinPlace | 1<<ev.home)
	for place, n := range ev.runs {
		if n > 0 {
			likely |= 1 << place
		}
	}
	return likely
}

// resolve decides about each run that looks like one of another script. It is needed in texts with letters of another script than
// Latin only.
func (s *scanner) resolve(looks Looks) error {
	ev := evidence{home: s.home}
	var few [8]lettersRun
	doubtful := few[:0]
	for at := s.begun; at < len(s.out); {
		if b := s.out[at]; b == ' ' || b == '-' {
			at++
			continue
		}
		run := lettersRun{}
		at = s.readRun(&run, at)
		switch {
		case run.looks == 0:
		case run.isCertain():
			ev.runs[run.place]++
			ev.rare |= run.rare &^ alwaysRare
		default:
			doubtful = append(doubtful, run)
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	if looks == LooksByText {
		s.addEvidence(doubtful, &ev)
	}
	changes := false
	for i := range doubtful {
		run := &doubtful[i]
		if looks == LooksAlone {
			run.target = bits.TrailingZeros64(run.glyphs)
		} else if run.target = ev.chooseScript(run.glyphs); run.allowed&(1<<run.target) == 0 {
			return ErrLookAlike
		}
		changes = changes || run.target != run.place
	}
	if !changes {
		return nil
	}
	return s.rewrite(doubtful)
}

// addEvidence adds to the evidence what doubtful runs say, and decides in which scripts each may stand. One that looks like neither Latin nor
// the home is of the script that other words are surely of, or else of the first in which its letters are not rare. Others are evidence
// where one script alone is likely. Scripts are taken off runs in which they would have rare letters that the text has nowhere else.
func (s *scanner) addEvidence(runs []lettersRun, ev *evidence) {
	homes, sure := uint64(1<<latinPlace|1<<ev.home), ev.likely()
	for i := range runs {
		run := &runs[i]
		if run.looks&homes != 0 {
			continue
		}
		candidates := run.looks & sure
		if candidates == 0 {
			if candidates = run.looks &^ s.rareIn(run, ev.rare); candidates == 0 {
				candidates = run.looks
			}
		}
		place := ev.chooseScript(candidates)
		ev.runs[place]++
		ev.rare |= s.spelledIn(run, place) &^ alwaysRare
		run.allowed = 1<<place | sure
	}
	for i := range runs {
		run := &runs[i]
		if gone := run.glyphs & s.rareIn(run, ev.rare) &^ homes; gone != run.glyphs {
			run.glyphs &^= gone
			run.looks &^= gone
		}
	}
	likely := ev.likely()
	for i := range runs {
		if looks := runs[i].looks & likely; runs[i].looks&homes != 0 && looks&(looks-1) == 0 {
			ev.runs[bits.TrailingZeros64(looks)]++
		}
	}
	likely = ev.likely() &^ (1 << latinPlace)
	for i := range runs {
		switch run := &runs[i]; {
		case run.allowed != 0:
		case run.looks == run.glyphs: // whatever it is written in, it is the same
			run.allowed = run.glyphs
		default:
			run.allowed = likely | 1<<ev.home
			if ev.runs[latinPlace] > 0 {
				run.allowed |= 1 << latinPlace
			}
		}
	}
}

// rareIn are the scripts of a run in which it would have rare letters that are not known.
func (s *scanner) rareIn(run *lettersRun, known uint64) (scripts uint64) {
	for rest := run.looks; rest != 0; rest &= rest - 1 {
		if place := bits.TrailingZeros64(rest); s.spelledIn(run, place)&^known != 0 {
			scripts |= 1 << place
		}
	}
	return scripts
}

// chooseScript is the script of a run among some: the one that most words are of, or else the home, or else the first.
func (ev *evidence) chooseScript(scripts uint64) int {
	best, most := bits.TrailingZeros64(scripts), 0
	for ; scripts != 0; scripts &= scripts - 1 {
		place := bits.TrailingZeros64(scripts)
		n := 2 * ev.runs[place]
		if place == ev.home {
			n++
		}
		if n > most {
			best, most = place, n
		}
	}
	return best
}

// spelledIn are the rare letters that a run would have in the script of a place.
func (s *scanner) spelledIn(run *lettersRun, place int) (rare uint64) {
	for at := run.from; at < run.to; {
		r, size := utf8.DecodeRune(s.out[at:])
		mark, marked := genericMark(s.out[at+size:])
		if l := letterLook(r, lookUp(r), mark); l != 0 {
			letter, accent := l.in(place)
			rare |= letterLook(letter, lookUp(letter), accent).rare()
		}
		at += size + marked
	}
	return rare
}

// readRun reads the letters of one script that stand together without space or hyphen, and returns where they end.
func (s *scanner) readRun(run *lettersRun, at int) int {
	run.from, run.to, run.looks, run.glyphs = at, at, 1<<lookScripts-1, 1<<lookScripts-1
	script, sure := uint8(0), false
	text := s.out
	for at < len(text) && text[at] != ' ' && text[at] != '-' {
		r, size := utf8.DecodeRune(text[at:])
		e := lookUp(r)
		switch own := entryScriptNumber(e); {
		case class(e&entryClass) == classMark: // of its own script, or the second one after a letter
			sure = true
		case class(e&entryClass) != classLetter || own == 0:
		case script != 0 && script != own:
			run.end(script, sure)
			return at
		default:
			script = own
			mark := rune(0)
			if next := at + size; next < len(text) && (text[next]|1 == 0xcd || text[next] == 0xe1) {
				var marked int
				mark, marked = genericMark(text[next:])
				size += marked
			}
			if e&entryLook == 0 && mark == 0 {
				sure = true
			} else if l := letterLook(r, e, mark); l != 0 {
				run.looks &= l.scripts()
				run.glyphs &= l.glyphs()
				run.rare |= l.rare()
			} else {
				sure = true
			}
		}
		at += size
		run.to = at
	}
	run.end(script, sure)
	return at
}

// end completes a run of letters of a script; sure says that it looks like no other.
func (run *lettersRun) end(script uint8, sure bool) {
	switch run.place = int(lookPlaces[script]) - 1; {
	case run.place < 0:
		run.looks, run.place = 0, 0
	case sure:
		run.looks = 1 << run.place
	}
}

// isCertain says whether a run looks like no other script.
func (run *lettersRun) isCertain() bool { return run.looks == 1<<run.place }

// genericMark is the mark of no script that a text begins with, and its length; 0 for none.
func genericMark(text []byte) (rune, int) {
	if len(text) > 0 && (text[0]|1 == 0xcd || text[0] == 0xe1) { // U+0300 to U+037F and U+1000 to U+1FFF
		r, size := utf8.DecodeRune(text)
		if e := lookUp(r); class(e&entryClass) == classMark && entryScriptNumber(e) == 0 {
			return r, size
		}
	}
	return 0, 0
}

// rewrite writes runs in their target scripts.
func (s *scanner) rewrite(runs []lettersRun) error {
	text := s.out
	s.out = append(make([]byte, 0, cap(text)), text[:s.begun]...)
	at, capitals := s.begun, s.capitalAt
	keep := func(to int) {
		for len(capitals) > 0 && capitals[0] < to {
			capitals[0] += len(s.out) - at
			capitals = capitals[1:]
		}
		s.out = append(s.out, text[at:to]...)
		at = to
	}
	for _, run := range runs {
		if run.target == run.place {
			continue
		}
		keep(run.from)
		length := 0
		for at < run.to {
			r, size := utf8.DecodeRune(text[at:])
			mark, marked := genericMark(text[at+size:])
			length++
			e := lookUp(r)
			l := letterLook(r, e, mark)
			if l == 0 || class(e&entryClass) != classLetter {
				keep(at + size)
				continue
			}
			letter, accent := l.in(run.target)
			if len(capitals) > 0 && capitals[0] == at {
				capitals[0] = len(s.out)
				capitals = capitals[1:]
			}
			s.out = utf8.AppendRune(s.out, letter)
			at += size + marked
			if marked > 0 {
				s.chars--
			}
			if accent != 0 {
				s.out = utf8.AppendRune(s.out, accent)
				s.chars++
				length++
			}
		}
		if length > MaxWordChars {
			return ErrWordTooLong
		}
	}
	keep(len(text))
	return nil
}

// plainCapital says whether a capital that is not ASCII can be taken for nothing else: it looks like no other capital of its script,
// and its whole word like none of another.
func plainCapital(capital rune, rest []byte) bool {
	alike := slot(lookTable[:], keyCapital|uint64(capital)) & (1<<48 - 1)
	if alike == 0 {
		return true
	}
	word := scanner{out: rest}
	var run lettersRun
	word.readRun(&run, 0)
	return alike&1 == 0 && run.looks&(alike>>1) == 0 && (run.looks != 0 || alike>>1 == 0)
}

// Look spells a text as it looks: letters that look like those of another script as those of the first script that has them, Latin
// before all others, compatibility forms as what they stand for, invisible code points not at all. Two texts of one look are taken for
// each other. Case stays, but a capital looks like the capital of another script, not like its own small letter. It is for
// comparing names that people chose, and nothing to deliver.
func Look(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKC.String(text) {
		if l := look(slot(lookTable[:], keyCapital|uint64(r)) >> 48); l != 0 {
			letter, _ := l.in(bits.TrailingZeros64(l.scripts()))
			b.WriteRune(unicode.ToUpper(letter))
			continue
		}
		if unicode.IsUpper(r) {
			b.WriteRune(r)
			continue
		}
		e := lookUp(r)
		spelled := string(r)
		switch class(e & entryClass) {
		case classStrip, classStretch:
			continue
		case classMapped:
			spelled = string(mappedTo(e))
		case classExpand:
			spelled = strings.ReplaceAll(expand(e), string(rune(capitalMark)), "")
		}
		for _, s := range spelled {
			if l := letterLook(s, lookUp(s), 0); l != 0 {
				s, _ = l.in(bits.TrailingZeros64(l.scripts()))
			}
			b.WriteRune(s)
		}
	}
	return norm.NFC.String(b.String())
}
