package text

import (
	"testing"
	"unicode"
)

// neighbours are code points of every kind that may change what stands before them.
var neighbours = []rune{'a', 'i', 'I', ' ', '1', '.', '-', '\'', 0x1, 0x200b, 0x200d, 0x300, 0x301, 0x307, 0x308, 0x323, 0x327, 0x328, 0x321, 0x338, 0x342, 0x345, 0x344, 0x34f,
	0x93c, 0x94d, 0x9be, 0x5b0, 0x5bc, 0x3099, 0x309a, 0x1100, 0x1112, 0x1113, 0x1161, 0x1175, 0x1176, 0x11a7, 0x11a8, 0x11c2, 0x11c3, 0xac00, 0xac01,
	0x130, 0x131, 0x1fb3, 0x1fe6, 0x3b1, 0x3b9, 0x958, 0x640, 0x1d158, 0x1d15e, 0x1d165, 0x1d16e, 0xfdfa, 0x2a8, 0xbd, 0x212b, 0x4e00, 0x304b, 0xff76, 0xff9e, 0xff29, 0x2160, 0x2165, 0x3319, 0xfe0f, 0x20dd}

// What the scanner does with a code point by itself is what the reference does with the whole text, for every special code
// point beside some of every kind of neighbour.
//
// covers P3.4, A-NFC
func TestEveryCodePointBesideOthers(t *testing.T) {
	t.Parallel()
	o := kept(roomy(Any, None))
	agree := func(text string) {
		r, err := Normalise(nil, []byte(text), o)
		failIf(t, err == nil && string(r.Text) != refNormal(text), "%+q is %+q, reference %+q", text, r.Text, refNormal(text))
	}
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		e := lookUp(r)
		if class(e&entryClass) != classExpand && (e&entryRough == 0 || class(e&entryClass) != classLetter) && (r < 0x1100 || r >= 0x1200) {
			continue
		}
		for i := int(r) % 8; i < len(neighbours); i += 8 { // other neighbours for each
			agree("x" + string(r) + string(neighbours[i]))
			agree(string(neighbours[i]) + string(r))
			agree(string(r) + string(r) + string(neighbours[i]) + "\u0301y")
		}
	}
}
