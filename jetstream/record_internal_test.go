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
		want := must(msgpack.Marshal(struct {
			Version   int      `msgpack:"v"`
			Decisions [][]byte `msgpack:"d"`
		}{recordVersion, decisions}))(t)
		const before = "before"
		got := appendRecord([]byte(before), decisions)
		stopIf(t, string(got[:len(before)]) != before || !bytes.Equal(got[len(before):], want),
			"%d decisions are written otherwise", len(decisions))
		read, err := decodeRecord(want)
		stopIf(t, err != nil || !slices.EqualFunc(read, decisions, bytes.Equal),
			"%d decisions are read as %d: %v", len(decisions), len(read), err)
		// They are parts of the record, and none reaches into the next.
		_ = append(read[0], "more"...)
		stopIf(t, !bytes.Equal(got[len(before):], want), "what is appended to a decision changes the record")
	})
}
