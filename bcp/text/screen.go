package text

import (
	"sync"
	"unicode/utf8"
)

// Screen finds the anomalies of a text from the bytes as received and as normalised (PROTOCOL P3.6): stripping must not hide a
// URL, nor punctuation an instruction. For every text that Normalise accepts it finds what Normalise reports. It is also the check for
// e-mail answers and for what an approver typed. Nil rules stand for DefaultRules. Running time is linear.
func (r *Rules) Screen(received, normalised []byte) Set {
	if r == nil {
		r = DefaultRules()
	}
	return r.screen(received, normalised, isProse(received))
}

// everything is what unusable rules find, so that nothing passes them unseen.
const everything = Instruction | URL | Code | Encoded | RoleMarker | ToolCall | Invisible

// rooms are for received text as patterns and shapes read it.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// screen is Screen. In prose there is nothing but words.
func (r *Rules) screen(received, normalised []byte, prose bool) Set {
	if r.phrases == nil {
		return everything
	}
	w := walk{phrases: r.phrases, sum: r.weighing()}
	found := w.text(normalised)
	if prose {
		return found
	}
	if hasInvisible(received) {
		found |= Invisible
	}
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	folded := foldView((*room)[:0], received)
	*room = folded
	found |= r.patterns.match(folded)
	for i := range r.shapes {
		if s := &r.shapes[i]; found&s.code == 0 && s.find(s, received, folded) {
			found |= s.code
		}
	}
	return found
}

func hasInvisible(text []byte) bool {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == 0x200b || class(lookUp(r)&entryClass) == classStrip {
			return true
		}
		i += size
	}
	return false
}

// The longest word and number of prose: a longer word may be encoded data, and a number of prose is a year, and one or two
// digits more.
const proseLetters, proseDigits = 15, 6

// isProse is [Result.Prose].
func isProse(text []byte) bool {
	letters, digits := 0, 0 // of the word that ends here
	for i, b := range text {
		switch {
		case letterByte(b):
			letters++
		case b-'0' < 10:
			digits++
		case b == '.', b == ',':
			if letters+digits == 0 || i+1 < len(text) && text[i+1] != ' ' && text[i+1] != '\n' {
				return false
			}
			letters, digits = 0, 0
		case b == ' ', b == '\n':
			if letters+digits == 0 && i > 0 && text[i-1] != '.' && text[i-1] != ',' {
				return false
			}
			letters, digits = 0, 0
		default:
			return false
		}
		if letters > proseLetters || digits > proseDigits || letters > 0 && digits > 0 {
			return false
		}
	}
	return true
}
