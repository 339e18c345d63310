package jetstream

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
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

// fill sets every field of a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	}
}

// The audit shows of a record what a decision says is public, whatever it has: a field
// that is sealed and not known here fails it.
//
// covers P11.1, P11.4
func TestAppendPublic(t *testing.T) {
	t.Parallel()
	var full bcp.Decision
	fill(reflect.ValueOf(&full).Elem())
	full.Private = bcp.Private{}
	same := func(t *testing.T, d *bcp.Decision) {
		t.Helper()
		record, err := bcp.EncodeDecision(d)
		noError(t, err)
		public := d.Public()
		want, err := bcp.EncodeDecision(&public)
		noError(t, err)
		const before = "before"
		got, err := appendPublic([]byte(before), record)
		stopIf(t, err != nil || string(got) != before+string(want), "%+v is shown as\n%x and not\n%x, %v", d, got, want, err)
		for cut := range record {
			got, err := appendPublic([]byte(before), record[:cut])
			stopIf(t, err == nil || string(got) != before, "%d of %d bytes are shown as %x", cut, len(record), got)
		}
		got, err = appendPublic(nil, append(record, 0))
		stopIf(t, err == nil, "with one byte more it is shown as %x", got)
	}
	for n := range reflect.TypeFor[bcp.Decision]().NumField() + 1 { // some have a head of one byte, and some of three
		first, others := full, full
		for i := range reflect.TypeFor[bcp.Decision]().NumField() {
			of := &first
			if i < n {
				of = &others
			}
			reflect.ValueOf(of).Elem().Field(i).SetZero()
		}
		same(t, &first)
		same(t, &others)
	}
}
