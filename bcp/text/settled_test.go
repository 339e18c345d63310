package text

import (
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// settledFirst normalises the whole text by settle before the scanner sees it.
func settledFirst(src []byte, o Options) (Result, error) {
	settled, err := settle(src)
	if err != nil {
		return Result{}, err
	}
	s := scanner{limit: o.Alphabet.limit(), own: noScript, join: o.Join, name: o.PersonName, maxWords: o.MaxWords, maxChars: int(^uint(0) >> 1)}
	if err := s.scan(settled); err != nil {
		return Result{}, err
	}
	if len(s.out) == 0 {
		return Result{}, ErrEmpty
	}
	return Result{Text: s.out, Words: max(s.segments, s.splits), Chars: s.chars}, nil
}

func agree(t interface{ Fatalf(string, ...any) }, text string, o Options) {
	o.Looks = LooksKept
	want, wantErr := settledFirst([]byte(text), o)
	got, err := Normalise(nil, []byte(text), o)
	if (err == nil) != (wantErr == nil) || string(got.Text) != string(want.Text) || got.Words != want.Words || got.Chars != want.Chars {
		t.Fatalf("%+q is %+q, %d words, %d characters (%v); settled first %+q, %d words, %d characters (%v)", text, got.Text, got.Words, got.Chars, err,
			want.Text, want.Words, want.Chars, wantErr)
	}
}

// neighbours are code points of every kind that may change what stands before them.
func neighbours() []rune {
	all := []rune{'a', 'i', 'I', ' ', '1', '.', '-', '\'', 0x1, 0x200b, 0x200d, 0x300, 0x301, 0x307, 0x308, 0x323, 0x327, 0x328, 0x321, 0x338, 0x342, 0x345, 0x344, 0x34f,
		0x93c, 0x94d, 0x9be, 0x5b0, 0x5bc, 0x3099, 0x309a, 0x1100, 0x1112, 0x1113, 0x1161, 0x1175, 0x1176, 0x11a7, 0x11a8, 0x11c2, 0x11c3, 0xac00, 0xac01,
		0x130, 0x131, 0x1fb3, 0x1fe6, 0x3b1, 0x3b9, 0x958, 0x1d158, 0x1d15e, 0x1d165, 0x1d16e, 0xfdfa, 0x2a8, 0xbd, 0x212b, 0x4e00, 0x304b, 0xff76, 0xff9e, 0xff29, 0x2160, 0x2165, 0x3319, 0xfe0f, 0x20dd}
	return all
}

// What the scanner does with a code point by itself is what settle does with the whole text, for every code point
// between every pair of neighbours of some kind.
//
// covers P3.4, A-NFC
func TestEveryCodePointBesideOthers(t *testing.T) {
	t.Parallel()
	o := Options{Alphabet: Any, MaxWords: 1000}
	near := neighbours()
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		e := lookUp(r)
		special := class(e&entryClass) == classExpand || e&entryRough != 0 && class(e&entryClass) == classLetter || r >= 0x1100 && r < 0x1200
		if !special {
			continue
		}
		for _, after := range near {
			agree(t, "x"+string(r)+string(after), o)
			agree(t, string(after)+string(r), o)
			agree(t, string(r)+string(r)+string(after)+"\u0301y", o)
		}
	}
}

// covers P3.4, A-NFC
func TestScannerAgreesWithSettle(t *testing.T) {
	t.Parallel()
	var special []rune
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		e := lookUp(r)
		if class(e&entryClass) == classExpand || e&entryRough != 0 {
			special = append(special, r)
		}
	}
	near := neighbours()
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(special), rapid.SampledFrom(near), rapid.SampledFrom(near)), 1, 8).Draw(t, "text")
		o := Options{Alphabet: rapid.SampledFrom([]Alphabet{Any, Any, Latin, ASCII}).Draw(t, "alphabet"), MaxWords: rapid.IntRange(1, 40).Draw(t, "words"),
			Join: Join(rapid.IntRange(0, 2).Draw(t, "join"))}
		agree(t, string(runes), o)
	})
}
