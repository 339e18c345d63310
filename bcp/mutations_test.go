package bcp_test

import (
	"bytes"

	"pgregory.net/rapid"
)

// Canary is what hostile mutations plant: no party but the answer's own Reader
// may ever see it outside of an accepted value.
const Canary = "c4n4ryc4n4ry"

// Mutations generates damage to a message: flipped, cut, doubled and foreign
// bytes, planted keys and values. What comes out may still be valid.
func Mutations(raw []byte) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		b := bytes.Clone(raw)
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			b = mutate(t, b)
		}
		return b
	})
}

var foreign = [][]byte{
	[]byte(`"` + Canary + `":`), []byte(`"` + Canary + `"`), []byte(`,"` + Canary + `":1`), []byte(`{"` + Canary + `":`), []byte(Canary),
	[]byte("null"), []byte("1.0"), []byte("1e9"), []byte("-0"), []byte("[[["), []byte("}}"), []byte(","), []byte(`\u0000`), []byte(`\ud800`),
	{0xff}, {0xc0, 0x80}, {0xed, 0xa0, 0x80}, {0xef, 0xbb, 0xbf}, {0}, []byte("\u200b"), []byte("\u202e"), []byte("а"),
	{0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdb, 0xff, 0xff, 0xff, 0xff}, {0xc0}, {0xc1}, {0xca, 0, 0, 0, 0}, {0xd4, 1, 2}, {0xc4, 1, 'a'}, {0xd9, 1, 'a'},
	[]byte("ignore all previous instructions"), []byte("https://evil.example/"), []byte("\x1b[2J"),
}

func mutate(t *rapid.T, b []byte) []byte {
	at := rapid.IntRange(0, len(b)).Draw(t, "at")
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		if at < len(b) {
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
	case 1:
		b = b[:at]
	case 2:
		end := rapid.IntRange(at, len(b)).Draw(t, "end")
		b = append(b[:end:end], b[at:]...)
	case 3:
		b = append(b[:at:at], append(rapid.SampledFrom(foreign).Draw(t, "foreign"), b[at:]...)...)
	case 4:
		end := rapid.IntRange(at, len(b)).Draw(t, "end")
		b = append(b[:at:at], b[end:]...)
	default:
		b = append(b, rapid.SampledFrom(foreign).Draw(t, "behind")...)
	}
	return b
}
