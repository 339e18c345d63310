package jetstream

import (
	"bytes"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// What is written is what the library would write, and is read as it was.
//
// covers P11.1, BCP-145
func TestRecordIsTheLibrarys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 255, 256, 1000}), 1, 40).Draw(t, "sizes")
		switch rapid.IntRange(0, 8).Draw(t, "limit") {
		case 0:
			sizes = append(sizes, 1<<16-1, 1<<16)
		case 1:
			sizes = make([]int, MaxRecordDecisions)
		}
		var decisions [][]byte
		for i, size := range sizes {
			decisions = append(decisions, bytes.Repeat([]byte{byte(i)}, size))
		}
		want, err := msgpack.Marshal(struct {
			Version   int      `msgpack:"v"`
			Decisions [][]byte `msgpack:"d"`
		}{recordVersion, decisions})
		if err != nil {
			t.Fatal(err)
		}
		const before = "before"
		got := appendRecord([]byte(before), decisions)
		if string(got[:len(before)]) != before || !bytes.Equal(got[len(before):], want) {
			t.Fatalf("%d decisions are written otherwise", len(decisions))
		}
		read, err := decodeRecord(want)
		if err != nil || !slices.EqualFunc(read, decisions, bytes.Equal) {
			t.Fatalf("%d decisions are read as %d: %v", len(decisions), len(read), err)
		}
		// They are parts of the record, and none reaches into the next.
		_ = append(read[0], "more"...)
		if !bytes.Equal(got[len(before):], want) {
			t.Fatal("what is appended to a decision changes the record")
		}
	})
}
