package bcp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// fullDecision has every field set.
func fullDecision() Decision {
	d := frozenDecision()
	fillZero(reflect.ValueOf(&d).Elem())
	d.Erased = false
	return d
}

// fillZero sets what a struct leaves zero.
func fillZero(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			fillZero(f)
		case f.Kind() == reflect.Pointer:
			if f.IsNil() {
				f.Set(reflect.New(f.Type().Elem()))
			}
			fillZero(f.Elem())
		case !f.IsZero():
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(1)
		case f.CanUint():
			f.SetUint(1)
		case f.Kind() == reflect.Array:
			f.Index(0).SetUint(1)
		case f.Type() == reflect.TypeFor[jsontext.Value]():
			f.SetBytes([]byte(`{"x":1}`))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		}
	}
}

// frozenDecision is the decision of testdata/decision.hex.
func frozenDecision() Decision {
	return Decision{
		Seq: 7, Prev: Digest{1}, Time: 1_800_000_000_000_000_001, Kind: KindPush, Context: Digest{2},
		Agent: "mail", Role: RoleReader, Controller: "planner", Reader: "mail",
		Session: "s1", SessionBegins: true, SessionByDelivery: true, SessionRenews: true, SessionEnds: true, Epoch: 3,
		Query: "q1", Subscription: "alarm", Delivery: "d1", Item: "i1", Category: 2, Attempt: 1,
		Repeat:  true,
		Verdict: Hold, Code: ValidationFailed, Reason: ReasonWords, Field: "q", Check: CheckAnswer, Price: 14, Lack: 15, Unfunded: true, Outcome: Held, Anomalies: []string{"url"}, Flagged: true, Taint: TaintMedium,
		Nominal: 22 * Bit, Capacity: 831820233453, Timing: true,
		Balance:    Balance{Settled: 1, Reserved: 2, Pushed: 3, SettledCapacity: 4, ReservedCapacity: 5, Cat2Queries: 6},
		Escalation: true, Justification: "because", JustificationBits: 19, Deadline: 8, Release: 9, Slot: 19, SlotBegan: 18, Remaining: 20,
		Private: fullPrivate(), Sealed: []byte{1}, SealedRaw: []byte{2}, RawCommitment: Digest{5}, PayloadCommitment: Digest{6},
		Event: "approve", Target: "mail", Note: "so", Notice: "n5", Exposure: TaintMedium, Prepaid: true, Scheduled: 12, Changes: []string{"+ a"},
		Key: "U", SignedUntil: 13, Unsealed: true, Before: 14,
		Count: 11, Family: "push", Versions: "v", Files: []File{{Path: "mesh.yaml", SHA256: [32]byte{7}}},
		Truncation: &Truncation{Sequence: 300, Base: Digest{10}, Backup: Digest{11}, File: "a.tar.gz"},
		Credential: &CredentialChange{Number: 16, Time: 17, Role: RoleReader, Until: 18, Limits: []string{"source 10.0.0.0/8"}},
		Egress: &EgressChange{Act: EgressReserve, By: ByLink, Entry: "*.example.net", Why: guard.HostDenied, Bits: 21, Bytes: 22, Until: 23, UsedBits: 24, UsedBytes: 25,
			Reserved: 26, Alert: true},
	}
}

// fullPrivate has every field set that is sealed.
func fullPrivate() Private {
	return Private{Client: "p1", ClientDigest: Digest{3}, Spec: []byte("{}"), QueryField: "q", Payload: []byte(`{"q":"ada"}`), Salt: [16]byte{4}, RawBytes: 10,
		Released: Digest{8}, Signature: []byte{9}}
}

// covers BCP-94, BCP-170, BCP-171, BCP-172, P4.5, P11.1
func TestDecisionRoundTrip(t *testing.T) {
	t.Parallel()
	full := fullDecision()
	for _, v := range []any{full, full.Balance, full.Files[0], *full.Truncation, *full.Credential, *full.Egress, *full.Usage} {
		for i := range reflect.TypeOf(v).NumField() {
			if reflect.ValueOf(v).Field(i).IsZero() {
				t.Errorf("the test leaves %s of %T zero", reflect.TypeOf(v).Field(i).Name, v)
			}
		}
	}
	for _, d := range []Decision{full, {}, {Seq: 1, Balance: Balance{Settled: -1}}} {
		record := must(EncodeDecision(&d))
		got := must(DecodeDecision(record))
		d.Private = Private{}
		diff := cmp.Diff(d, got, cmpopts.EquateEmpty())
		failIf(t, diff != "", "decoded (-want +got):\n%s", diff)
		again, err := EncodeDecision(&got)
		failIf(t, err != nil || !bytes.Equal(record, again), "%x encodes again as %x, %v", record, again, err)
		for i := range record {
			_, err := DecodeDecision(record[:i])
			failIf(t, err == nil, "the first %d of %d bytes decode", i, len(record))
		}
		_, err = DecodeDecision(append(record, 0xc0))
		failIf(t, err == nil, "a record with a byte behind it decodes")
		clear(record)
		diff = cmp.Diff(d, got, cmpopts.EquateEmpty())
		failIf(t, diff != "", "what is kept is no copy:\n%s", diff)
	}
}

// The kinds, and the keys of a record, are frozen: journals hold them.
//
// covers P4.5, P11.1
func TestRecordIsFrozen(t *testing.T) {
	t.Parallel()
	var kinds []string
	for i, k := range DecisionKinds() {
		failIf(t, int(k) != i+1, "kind %s is %d", k, k)
		word, err := k.MarshalText()
		failIf(t, err != nil || string(word) != k.String(), "kind %d is written %q, %v", k, word, err)
		kinds = append(kinds, k.String())
	}
	if got := strings.Join(kinds, " "); got != "start session ask answer push acknowledge expire connect disconnect violation refusals alert approval process reload taint prompt erase truncate credential batch propose egress run plan step call outcome declare usage endorse hand" {
		t.Errorf("kinds are %s", got)
	}
	seen := map[string]bool{}
	for i := range reflect.TypeFor[Decision]().NumField() {
		key, _, _ := strings.Cut(reflect.TypeFor[Decision]().Field(i).Tag.Get("msgpack"), ",")
		if key == "" || seen[key] {
			t.Errorf("%s has the key %q", reflect.TypeFor[Decision]().Field(i).Name, key)
		}
		seen[key] = true
	}
	frozen := frozenDecision()
	record := must(EncodeDecision(&frozen))
	text := must(os.ReadFile("testdata/decision.hex"))
	want := must(hex.DecodeString(strings.TrimSpace(string(text))))
	failIf(t, !bytes.Equal(record, want),
		"older journals would not verify: the decision is written as\n%x, want\n%x", record, want)
	got, err := DecodeDecision(want)
	frozen.Private = Private{}
	diff := cmp.Diff(frozen, got)
	failIf(t, err != nil || diff != "", "older journals would be read otherwise, %v (-want +got):\n%s", err, diff)
}

// What the audit shows is a commitment to the payload, and neither it nor the
// salt nor a digest that would tell a boolean.
//
// covers P2.5, P11.4, P11.5
func TestPublic(t *testing.T) {
	t.Parallel()
	d := fullDecision()
	d.Payload = []byte(`{"ok":"canary"}`)
	noError(t, d.Seal(sealingKey))
	public := d.Public()
	failIf(t, public.Says() || public.Salt != [16]byte{} || public.Sealed != nil || public.SealedRaw != nil,
		"public is %+v", public)
	failIf(t, public.PayloadCommitment != d.Commit(d.Payload) || public.PayloadCommitment == RecordDigest(d.Payload),
		"the commitment is not salted")
	other := d
	other.Salt[0]++
	failIf(t, other.Commit(d.Payload) == d.Commit(d.Payload), "two salts give one commitment")
	b, err := json.Marshal(public)
	failIf(t, err != nil || bytes.Contains(b, []byte("canary")), "%s, %v", b, err)
	failIf(t, string(d.Payload) != `{"ok":"canary"}` || d.Salt == [16]byte{}, "Public changed its decision")
	d.Payload, d.PayloadCommitment = nil, Digest{}
	err = d.Seal(sealingKey)
	failIf(t, err != nil || d.PayloadCommitment != (Digest{}), "there is a commitment to nothing, %v", err)
}

// covers P11.1
func TestDigestText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d, got Digest
		copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		text := must(d.MarshalText())
		if err := got.UnmarshalText(text); err != nil || got != d {
			t.Fatalf("%s is read as %x, %v", text, got, err)
		}
	})
	var d Digest
	for _, bad := range []string{"0", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64)} {
		failIf(t, d.UnmarshalText([]byte(bad)) == nil, "%q is a digest", bad)
	}
	text, err := d.MarshalText()
	failIf(t, err != nil || len(text) != 0, "no digest is written %q, %v", text, err)
}

// lengthBombs announce 4 Gi of lists, maps, bytes, text.
var lengthBombs = []string{
	"\xdf\xff\xff\xff\xff", "\x81\xa2an\xdd\xff\xff\xff\xff", "\x81\xa2fi\xdd\xff\xff\xff\xff", "\x81\xa2fi\xdc\xff\xff",
	"\x81\xa2sp\xc6\xff\xff\xff\xff", "\x81\xa1h\xc6\xff\xff\xff\xff", "\x81\xa1a\xdb\xff\xff\xff\xff", "\x81\xa2zz\xdd\xff\xff\xff\xff",
	"\x81\xa2zz\x91\x91\x91\x91\x91\x91\x01", "\x81\xa1t\xcb\x00\x00\x00\x00\x00\x00\x00\x00", "\x81\xa1t\xc7\x01\x05\x00", "\x81\xa1t\xc1", "",
}

// covers P4.5, A-LEN
func TestDecodeBelievesNoLength(t *testing.T) {
	t.Parallel()
	for _, bomb := range lengthBombs {
		_, err := DecodeDecision([]byte(bomb))
		failIf(t, !errors.Is(err, errRecord), "%x: %v", bomb, err)
	}
}

// Only the types that the writer writes are read, and only in the sizes that
// the members have; order, widths and members of later versions do not matter.
//
// covers P4.5, A-LEN
func TestDecodeTakesWhatIsWritten(t *testing.T) {
	t.Parallel()
	digest := func(n int) string { return "\xc4" + string(rune(n)) + strings.Repeat("d", n) }
	file := "\x82\xa4Path\xa1p\xa6SHA256" + digest(32)
	for record, want := range map[string]*Decision{
		"\x80":                               {},
		"\x82\xa1t\x02\xa1n\x01":             {Seq: 1, Time: 2},
		"\xde\x00\x02\xa1t\x02\xd9\x01n\x01": {Seq: 1, Time: 2},
		"\xdf\x00\x00\x00\x01\xa1n\xcf\xff\xff\xff\xff\xff\xff\xff\xff": {Seq: math.MaxUint64},
		"\x82\xa2zz\x91\x81\xa1a\x01\xa1n\xcd\x00\x01":                  {Seq: 1},
		"\x81\xa1n\xd3\x00\x00\x00\x00\x00\x00\x00\x01":                 {Seq: 1},
		"\x81\xa1t\xcf\x7f\xff\xff\xff\xff\xff\xff\xff":                 {Time: math.MaxInt64},
		"\x81\xa1t\xcf\x80\x00\x00\x00\x00\x00\x00\x00":                 nil,
		"\x81\xa1t\xd3\x80\x00\x00\x00\x00\x00\x00\x00":                 {Time: math.MinInt64},
		"\x81\xa1n\xff":            nil,
		"\x81\xa1k\xcc\xff":        {Kind: 255},
		"\x81\xa1k\xcd\x01\x00":    nil,
		"\x81\xa1k\xff":            nil,
		"\x81\xa2sb\xc2":           {},
		"\x81\xa2sb\xc3":           {SessionBegins: true},
		"\x81\xa2sb\x01":           nil,
		"\x81\xa2sb\xc0":           nil,
		"\x81\xa1n\xc0":            nil,
		"\x81\xa1a\xc0":            nil,
		"\x81\xa1a\xc4\x01a":       nil,
		"\x81\xa1a\xa1a":           {Agent: "a"},
		"\x81\xc4\x01n\x01":        nil,
		"\x81\xa2sl\xa1a":          nil,
		"\x81\xa2sl\xc4\x01a":      {Sealed: []byte("a")},
		"\x81\xa2sl\xc4\x02a":      nil,
		"\x81\xa1h" + digest(31):   nil,
		"\x81\xa1h" + digest(32):   {Prev: Digest([]byte(strings.Repeat("d", 32)))},
		"\x81\xa1h" + digest(33):   nil,
		"\x81\xa2an\x92\xa1a\xa1b": {Anomalies: []string{"a", "b"}},
		"\x81\xa2an\x93\xa1a\xa1b": nil,
		"\x81\xa2an\x81\xa1a\xa1b": nil,
		"\x81\xa1b\x90":            nil,
		"\x81\xa1b\x81\xa1s\x05":   {Balance: Balance{Settled: 5}},
		"\x81\xa2fi\x91" + file:    {Files: []File{{"p", [32]byte([]byte(strings.Repeat("d", 32)))}}},
		"\x82\xa2fi\x90\xa2fi\x90": {},
		"\x81\xa2fi\x91\xc0":       nil,
		"\x82\xa2fi\x91" + file + "\xa2fi\x91\x81\xa4Path\xa1q": nil,
		"\x90":          nil,
		"\xc0":          nil,
		"\x81\xa1n":     nil,
		"\x82\xa1n\x01": nil,
		"\x80\x80":      nil,
	} {
		d, err := DecodeDecision([]byte(record))
		if want == nil {
			failIf(t, !errors.Is(err, errRecord) || !reflect.DeepEqual(d, Decision{}), "%x: %+v, %v", record, d, err)
		} else if err != nil || !reflect.DeepEqual(d, *want) {
			t.Errorf("%x: %v\n%s", record, err, cmp.Diff(*want, d))
		}
		err = likeLibrary([]byte(record), &d, err)
		failIf(t, err != nil, "%v", err)
	}
}

// likeLibrary compares what became of b with what the library makes of it: what
// is read, the library reads alike, and what is not, it would not write.
func likeLibrary[T any](b []byte, got *T, err error) error {
	var want T
	if _, ok := wire.SkipMsgpack(b, maxRecordDepth); !ok && err != nil {
		return nil
	}
	errWant := msgpack.Unmarshal(b, &want)
	if err == nil {
		if errWant != nil || !reflect.DeepEqual(*got, want) && !cmp.Equal(*got, want, cmpopts.EquateEmpty()) {
			return fmt.Errorf("%x is read as %+v, by the library as %+v, %w", b, *got, want, errWant)
		}
		return nil
	}
	if written, errWrite := libraryRecord(&want); errWant == nil && errWrite == nil && bytes.Equal(written, b) {
		return fmt.Errorf("%x is not read, and is %+v: %w", b, want, err)
	}
	return nil
}

func libraryRecord(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// decodePrivate reads what stands in b alone.
func decodePrivate(b []byte) (p Private, err error) {
	c := recordCoder{b: b}
	c.readMembers(reflect.ValueOf(&p).Elem(), privateMembers)
	if c.bad || len(c.b) > 0 {
		return Private{}, errRecord
	}
	return p, nil
}

// Damage is an error, never a panic, and what decodes encodes. The library is
// the oracle.
//
// covers P4.5, A-CRASH, A-LEN
func FuzzDecodeDecision(f *testing.F) {
	for _, d := range []Decision{{}, fullDecision()} {
		record := must(EncodeDecision(&d))
		f.Add(record)
	}
	private := must(libraryRecord(fullPrivate()))
	f.Add(private)
	for _, bomb := range lengthBombs {
		f.Add([]byte(bomb))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		p, err := decodePrivate(record)
		noError(t, likeLibrary(record, &p, err))
		d, err := DecodeDecision(record)
		noError(t, likeLibrary(record, &d, err))
		if err != nil {
			return
		}
		again := must(EncodeDecision(&d))
		if got, err := DecodeDecision(again); err != nil || cmp.Diff(d, got, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("%x decodes as %+v and then as %+v, %v", record, d, got, err)
		}
		public := d.Public()
		_, _ = public.Message()
		_, _ = public.Channel()
	})
}

// The records are what the library makes of the type, byte for byte, whatever
// their members are, and are read as the library reads them.
func TestRecordsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	check := func(t rapid.TB, d *Decision) {
		want := must(libraryRecord(d))
		got, err := EncodeDecision(d)
		stopIf(t, err != nil || !bytes.Equal(got, want), "%+v is %x, %v, want %x", d, got, err, want)
		read, err := DecodeDecision(got)
		noError(t, likeLibrary(got, &read, err))
	}
	full := fullDecision()
	for _, d := range []*Decision{{}, &full} {
		check(t, d)
	}
	sizes := []int{0, 1, 15, 16, 31, 32, 127, 128, 255, 256, 65535, 65536}
	rapid.Check(t, func(t *rapid.T) {
		var d Decision
		fill(t, reflect.ValueOf(&d).Elem(), sizes)
		d.Private = Private{}
		check(t, &d)
		var p Private
		fill(t, reflect.ValueOf(&p).Elem(), sizes)
		want, err := libraryRecord(&p)
		var c recordCoder
		c.writeMembers(reflect.ValueOf(&p).Elem(), privateMembers)
		stopIf(t, err != nil || !bytes.Equal(c.b, want), "%+v is %x, %v, want %x", p, c.b, err, want)
		read, err := decodePrivate(c.b)
		noError(t, likeLibrary(c.b, &read, err))
	})
}

// fill sets about half of the members, at the limits of their encodings.
func fill(t *rapid.T, v reflect.Value, sizes []int) {
	if !rapid.Bool().Draw(t, "set") {
		return
	}
	size := rapid.SampledFrom(sizes).Draw(t, "size")
	if v.Type() == reflect.TypeFor[jsontext.Value]() {
		v.SetBytes([]byte(`{"x":"` + strings.Repeat("a", size) + `"}`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), sizes)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), sizes)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{1, -1, -32, -33, -128, -129, -32768, -32769, math.MinInt32, math.MinInt32 - 1, math.MinInt64, math.MaxInt64, 1 << 32}).Draw(t, "int"))
		if rapid.Bool().Draw(t, "positive") {
			v.SetInt(int64(size))
		}
	case reflect.Uint8:
		v.SetUint(uint64(size) & 0xff)
	case reflect.Uint64:
		v.SetUint(uint64(size) << rapid.SampledFrom([]int{0, 16, 40}).Draw(t, "shift"))
	case reflect.String:
		v.SetString(strings.Repeat("a", size))
	case reflect.Array:
		v.Index(0).SetUint(uint64(size) & 0xff)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			size %= 300
		}
		v.Set(reflect.MakeSlice(v.Type(), size, size))
		if size > 0 && size < 40 {
			fill(t, v.Index(size-1), sizes)
		}
	default:
		t.Fatalf("no values for %s", v.Type())
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

// The library writes and reads enumerations and digests as records have them.
func init() {
	write := func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeUint(v.Uint()) }
	read := func(d *msgpack.Decoder, v reflect.Value) error {
		n, err := d.DecodeUint8()
		v.SetUint(uint64(n))
		return err
	}
	for _, enumeration := range []any{Role(0), Outcome(0), Taint(0), Check(0), DecisionKind(0)} {
		msgpack.Register(enumeration, write, read)
	}
	msgpack.Register(Digest{}, func(e *msgpack.Encoder, v reflect.Value) error {
		d := v.Interface().(Digest)
		return e.EncodeBytes(d[:])
	}, func(d *msgpack.Decoder, v reflect.Value) error {
		b, err := d.DecodeBytes()
		if err == nil && len(b) != v.Len() {
			err = errDigest
		}
		reflect.Copy(v, reflect.ValueOf(b))
		return err
	})
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
