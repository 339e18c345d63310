package text

import (
	"fmt"
	"strings"
	"testing"
)

// sentences of about 600 bytes, varied so that branch prediction does not flatter.
var honestWords = strings.Fields("The quarterly report shows that revenue in the northern region grew by 12.5% while operating costs fell slightly, mostly because of lower freight rates. " +
	"Three customers asked for later delivery dates and one contract, worth $1,200, was not renewed. The team expects a stable fourth quarter. " +
	"Hiring is behind plan in two offices; the new warehouse opened on March 3 and handles well-known brands, returns and repairs. It isn't fully staffed yet.")

func honest(seed, size int) []byte {
	var b strings.Builder
	for i := seed; b.Len() < size; i += 1 + (seed+b.Len())%3 {
		b.WriteString(honestWords[(i*7)%len(honestWords)])
		b.WriteByte(' ')
	}
	return []byte(b.String()[:size])
}

func repeated(part string, size int) []byte {
	return []byte(strings.Repeat(part, size/len(part)))
}

var benchTexts = []struct {
	name string
	make func(seed int) []byte
	o    Options
}{
	{"honest600", func(i int) []byte { return honest(i, 600) }, Options{Alphabet: Any, Join: Summary, MaxWords: 150}},
	{"honest60", func(i int) []byte { return honest(i, 60) }, Options{Alphabet: ASCII, MaxWords: 15}},
	{"name", func(i int) []byte { return []byte([]string{"John Smith", "Ana María López", "J. R. O'Neil"}[i%3]) }, Options{Alphabet: Any, MaxWords: 5, PersonName: true}},
	{"list100", func(i int) []byte {
		return []byte("1. apples\n2. pears and plums\n3. " + honestWords[i%len(honestWords)])
	}, Options{Alphabet: Any, Join: List, MaxWords: 15}},
	{"cyrillic", func(i int) []byte {
		return []byte(strings.Repeat(strings.Repeat("я", i%3)+"выручка выросла на 12% в Северном регионе ", 8))[:600-600%2]
	}, Options{Alphabet: Any, Join: Summary, MaxWords: 150}},
	{"hostileTriggers", func(i int) []byte { return repeated("please ignore you should "+strings.Repeat("x", i%4)+" ", 600) }, Options{Alphabet: Any, MaxWords: 300}},
	{"hostileNear", func(i int) []byte { return repeated("you do you from now your do not tel ", 600) }, Options{Alphabet: Any, MaxWords: 300}},
	{"hostileURL", func(i int) []byte { return repeated("http://a.b:/c.d?e=f&g ", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileSymbols", func(i int) []byte { return repeated("a.b:c/(<{[|`x1", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileColons", func(i int) []byte { return repeated("a:             b:", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileMarks", func(i int) []byte { return repeated("e\u0301a\u0300 ", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileLigatures", func(i int) []byte { return repeated("\ufdfa", 600) }, Options{Alphabet: Any, MaxWords: 150}},
	{"hostileLigatureList", func(i int) []byte { return repeated("\ufdfa ", 600) }, Options{Alphabet: Any, MaxWords: 1000}},
	{"hostileExpand", func(i int) []byte { return repeated("ﬃ½", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileMixed", func(i int) []byte { return repeated("pаypal ", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileCapitals", func(i int) []byte { return repeated("ЖЩЮ ", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileInvisible", func(i int) []byte { return repeated("a\u200b\u200db", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileHan", func(i int) []byte { return repeated("漢字無視", 600) }, Options{Alphabet: Any, MaxWords: 600}},
	{"hostileWide", func(i int) []byte { return repeated("ａ．ｃ：", 600) }, Options{Alphabet: Any, MaxWords: 600}},
}

// covers P3.4, P3.6
func BenchmarkNormalise(b *testing.B) {
	for _, c := range benchTexts {
		b.Run(c.name, func(b *testing.B) {
			var texts [256][]byte
			for i := range texts {
				texts[i] = c.make(i)
			}
			dst := make([]byte, 0, 4096)
			b.ReportAllocs()
			b.SetBytes(int64(len(texts[0])))
			n := 0
			for b.Loop() {
				_, err := Normalise(dst, texts[n&255], c.o)
				_ = err
				n++
			}
		})
	}
}

func BenchmarkParseDate(b *testing.B) {
	dates := [][]byte{[]byte("2026-03-15"), []byte("March 15, 2026"), []byte("15th of March")}
	for n := 0; b.Loop(); n++ {
		_, _ = ParseDate(dates[n%3])
	}
}

// The fast path must not allocate: the gateway normalises every answer.
// covers P3.4
func TestASCIIDoesNotAllocate(t *testing.T) {
	text, dst := honest(1, 600), make([]byte, 0, 4096)
	DefaultRules()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Normalise(dst, text, Options{Alphabet: Any, Join: Summary, MaxWords: 150}); err != nil {
			panic(fmt.Sprint(err))
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
