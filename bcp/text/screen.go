package text

import "unicode/utf8"

// Screen finds the anomalies of a text from the bytes as received and as normalised (PROTOCOL P3.6): stripping must not hide a
// URL, nor punctuation an instruction. For every text that Normalise accepts it finds what Normalise reports. It is also the check for
// e-mail answers and for what an approver typed. Nil rules stand for DefaultRules. Running time is linear.
func (r *Rules) Screen(received, normalised []byte) Set {
	if r == nil {
		r = DefaultRules()
	}
	if r.phrases == nil {
		return everything
	}
	w := r.walk()
	found := w.text(normalised)
	if hasInvisible(received) {
		found |= Invisible
	}
	var room [foldedRoom]byte
	folded := foldView(room[:0], received)
	found |= r.patterns.match(folded)
	for i := range r.shapes {
		if s := &r.shapes[i]; found&s.code == 0 && s.find(received, folded) {
			found |= s.code
		}
	}
	return found
}

// everything is what unusable rules find, so that nothing passes them unseen.
const everything = Instruction | URL | Code | Encoded | RoleMarker | ToolCall | Invisible

// foldedRoom is the size up to which received text is read without allocating.
const foldedRoom = 1024

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
