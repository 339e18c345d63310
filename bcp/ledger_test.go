package bcp

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// A line is written as the library writes it with numbers in their shortest form, and
// read as what was written: by the library too, which is what a stock client has.
//
// covers P11.1, P12.5
func TestLedgerLineIsTheLibrarys(t *testing.T) {
	t.Parallel()
	same := func(t rapid.TB, line *LedgerLine) {
		var want bytes.Buffer
		e := msgpack.NewEncoder(&want)
		e.UseCompactInts(true)
		noError(t, e.Encode(line))
		got := EncodeLedgerLine(line)
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%+v is\n%x and not\n%x", line, got, want.Bytes())
		}
		read, err := DecodeLedgerLine(got)
		stopIf(t, err != nil || !read.Time.Equal(line.Time), "%+v is read as %+v, %v", line, read, err)
		read.Time = line.Time
		if diff := cmp.Diff(*line, read); diff != "" {
			t.Fatalf("-written +read:\n%s", diff)
		}
	}
	var full LedgerLine
	fillZero(reflect.ValueOf(&full).Elem().FieldByName("Balance"))
	for _, line := range []LedgerLine{{}, full} {
		same(t, &line)
	}
	rapid.Check(t, func(t *rapid.T) {
		line := LedgerLine{Time: time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "nanoseconds"))}
		for i := range reflect.TypeFor[LedgerLine]().NumField() {
			if member := reflect.ValueOf(&line).Elem().Field(i); member.Type() != reflect.TypeFor[time.Time]() {
				fill(t, member, []int{0, 1, 31, 32, 127, 128, 255, 256, 65535, 65536})
			}
		}
		same(t, &line)
	})
}
