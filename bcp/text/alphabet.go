package text

// Alphabet limits the characters of a delivered text. The zero value is invalid and refuses everything.
type Alphabet uint8

// The alphabets of PROTOCOL P1.3.
const (
	Any   Alphabet = 1 // every character that normalisation leaves
	ASCII Alphabet = 2 // below U+0080
	Latin Alphabet = 3 // below U+0180
	// Letters of one script and its marks, what is below U+0080, and currency signs. Words that look the same in that script and in
	// another one are taken for words of that script.
	Armenian Alphabet = 4
	Cyrillic Alphabet = 5
	Greek    Alphabet = 6
	Hebrew   Alphabet = 7
)

// alphabets has the wire word of each, the first code point outside of it but for letters of its script, and how many code points
// can stand inside a word. The zero alphabet has nothing.
var alphabets = [...]struct {
	word   string
	limit  rune
	script uint8
	size   int
}{
	Any:      {"any", 0x110000, noScript, 115982},
	ASCII:    {"ascii", limitASCII, noScript, 46},
	Latin:    {"latin", 0x180, noScript, 133},
	Armenian: {"armenian", limitASCII, scriptArmenian, 139},
	Cyrillic: {"cyrillic", limitASCII, scriptCyrillic, 217},
	Greek:    {"greek", limitASCII, scriptGreek, 215},
	Hebrew:   {"hebrew", limitASCII, scriptHebrew, 145},
}

const limitASCII = 0x80

// Alphabets are the wire words of all alphabets, in the order of the constants.
func Alphabets() (words []string) {
	for _, a := range alphabets[Any:] {
		words = append(words, a.word)
	}
	return words
}

// ParseAlphabet finds an alphabet by its wire word; ok is false for an unknown one.
func ParseAlphabet(word string) (a Alphabet, ok bool) {
	for i, known := range alphabets[Any:] {
		if known.word == word {
			return Any + Alphabet(i), true
		}
	}
	return 0, false
}

// noScript is no script of a letter.
const noScript = 0xff

// Join says which separators a text keeps beside single spaces.
type Join uint8

// The ways to join.
const (
	// None keeps spaces only.
	None Join = 0
	// List splits at line breaks, commas (not between digits) and semicolons, drops bullets and the numbers of items that count
	// their own position ("1. ", "2) "), and joins the items by a comma and a space.
	List Join = 1
	// Summary keeps a full stop and a space where one or more of . ! ? or their equivalents in other scripts stand directly or
	// after other punctuation after a word and white space follows; the ideographic full stop needs no white space.
	Summary Join = 2
)

// Limits of words.
const (
	// MaxWordChars is the greatest number of code points in one word.
	MaxWordChars = 24
	// MaxMarks is the greatest number of combining marks in a row. Longer runs make NFKC insert code points.
	MaxMarks = 4
)

// limit is the first code point outside of the alphabet; 0 for an invalid one.
func (a Alphabet) limit() rune {
	if int(a) >= len(alphabets) {
		return 0
	}
	return alphabets[a].limit
}

// script is the script whose letters the alphabet has beside those below its limit, or noScript, and the place of the one that
// words are taken for where nothing says otherwise. The alphabet is valid.
func (a Alphabet) script() (script uint8, home int) {
	if script = alphabets[a].script; script == noScript {
		return script, latinPlace
	}
	return script, int(lookPlaces[script]) - 1
}

// AlphabetSize is the number of distinct code points that can stand inside a word, hyphen included; 0 for an
// invalid alphabet. Capacity bounds are computed from it (PROTOCOL P4.1).
func AlphabetSize(a Alphabet) int {
	if int(a) >= len(alphabets) {
		return 0
	}
	return alphabets[a].size
}

// Joiners is the number of ways in which two neighbouring words can be joined: space, hyphen, the separator of
// the Join, and with Any nothing at all (ideographs). It is 0 for an invalid alphabet or join.
func Joiners(a Alphabet, j Join) int {
	if a.limit() == 0 || j > Summary {
		return 0
	}
	n := 2
	if j != None {
		n++
	}
	if a == Any {
		n++
	}
	return n
}
