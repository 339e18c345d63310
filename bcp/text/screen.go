package text

import (
	"bytes"
	"unicode/utf8"
)

// Screen finds the anomalies of a text from the bytes as received and as normalised (PROTOCOL P3.6): stripping must not hide a
// URL, nor punctuation an instruction. For every text that Normalise accepts it finds what Normalise reports. It is also the check for
// e-mail answers and for what an approver typed. Nil rules stand for DefaultRules. Running time is linear.
func (r *Rules) Screen(received, normalised []byte) Set {
	if r == nil {
		r = DefaultRules()
	}
	f := ^flags(0) &^ sawInvisible
	for i := 0; i < len(received); {
		r, size := utf8.DecodeRune(received[i:])
		if r == 0x200b || class(lookUp(r)&entryClass) == classStrip {
			f |= sawInvisible
		}
		i += size
	}
	w := r.walk()
	return r.screen(received, normalised, &w, f)
}

// everything is what unusable rules find, so that nothing passes them unseen.
const everything = Instruction | URL | Code | Encoded | RoleMarker | ToolCall | Invisible

// foldedRoom is the size up to which received text is read without allocating.
const foldedRoom = 1024

// screen runs the parts that can find something, as flags say. normalised is what the walk over phrases has not met.
func (r *Rules) screen(received, normalised []byte, w *walk, f flags) Set {
	if r.phrases == nil {
		return everything
	}
	w.text(normalised)
	found := w.end()
	if f&sawInvisible != 0 {
		found |= Invisible
	}
	f |= r.always
	if f&sawColon != 0 && f&sawSymbol == 0 && r.colon(received) {
		f |= sawSymbol
	}
	if f&(sawSymbol|sawDot|sawLong|sawDigits) == 0 {
		return found
	}
	var room [foldedRoom]byte
	folded := foldView(room[:0], received)
	if f&(sawSymbol|sawDot) != 0 {
		found |= r.text.match(folded, false)
		found |= r.compact.match(folded, true)
	}
	for i := range r.shapes {
		if s := &r.shapes[i]; found&s.code == 0 && s.find(received, folded, f) {
			found |= s.code
		}
	}
	return found
}

// colon looks at what comes before each colon: only what some pattern has there is worth a closer look.
func (r *Rules) colon(received []byte) bool {
	for i := 0; ; i++ {
		next := bytes.IndexByte(received[i:], ':')
		if next < 0 {
			return false
		}
		i += next
		var last [colonReach]byte
		n := len(last)
		for at := i - 1; at >= 0 && n > 0 && at >= i-colonLook; at-- {
			b := received[at]
			if c := asciiClass[b]; c == classSpace || c == classLine || c == classStrip {
				continue
			}
			if b >= 0x80 {
				return true
			}
			n--
			last[n] = b
			if b-'A' < 26 {
				last[n] |= 0x20
			}
		}
		if n > 0 && i > colonLook || portBehind(received, i) {
			return true
		}
		if k := colonKey(last); r.colons[k>>6]&(1<<(k&63)) != 0 {
			return true
		}
	}
}

// portBehind says whether a colon may stand between an address of four numbers and a port.
func portBehind(received []byte, colon int) bool {
	return colon+1 < len(received) && asciiClass[received[colon+1]] == classDigit &&
		bytes.IndexByte(received[max(0, colon-4):colon], '.') >= 0
}

// colonReach is the number of bytes before a colon that patterns are filtered by, colonLook how far back they are sought through white space.
const (
	colonReach = 3
	colonLook  = 16
)

// colonKey places three bytes in a filter of 4,096 bits.
func colonKey(b [colonReach]byte) uint32 {
	return (uint32(b[0])*0x9e3779b1 ^ uint32(b[1])*0x85ebca6b ^ uint32(b[2])*0xc2b2ae35) >> 20
}
