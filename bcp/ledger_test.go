package bcp

import (
	"bytes"
	"math"
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
		bits := rapid.Int64Range(0, math.MaxInt64)
		amount := func(name string) Bits { return Bits(bits.Draw(t, name)) }
		same(t, &LedgerLine{
			Seq: rapid.Uint64().Draw(t, "seq"), Kind: DecisionKind(rapid.Uint8().Draw(t, "kind")),
			Time:       time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "seconds"), rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "nanoseconds")),
			Controller: AgentName(rapid.StringN(0, 300, 300).Draw(t, "controller")), Reader: AgentName(rapid.String().Draw(t, "reader")),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Query: QueryID(rapid.String().Draw(t, "query")), Subscription: SubscriptionID(rapid.String().Draw(t, "subscription")),
			Category: Category(rapid.Uint8().Draw(t, "category")), Nominal: amount("nominal"), Capacity: amount("capacity"),
			Timing: rapid.Bool().Draw(t, "timing"), Exposure: Taint(rapid.Uint8().Draw(t, "exposure")),
			Balance: Balance{amount("settled"), amount("reserved"), amount("pushed"), amount("capacity"), amount("reserved capacity"), rapid.Int().Draw(t, "queries")},
		})
	})
}
