package bcp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// fullDecision has every field set.
func fullDecision() Decision {
	return Decision{
		Seq: 7, Prev: Digest{1}, Time: 1_800_000_000_000_000_001, Kind: KindPush, Context: Digest{2},
		Agent: "mail", Role: RoleReader, Controller: "planner", Reader: "mail",
		Session: "s1", SessionBegins: true, SessionByDelivery: true, SessionRenews: true, SessionEnds: true, Epoch: 3,
		Query: "q1", Subscription: "alarm", Delivery: "d1", Item: "i1", Category: 2, Attempt: 1,
		Client: "p1", ClientDigest: Digest{3}, Repeat: true,
		Verdict: Hold, Code: ValidationFailed, Reason: ReasonWords, Field: "q", Outcome: Held, Anomalies: []string{"url"}, Flagged: true, Taint: TaintMedium,
		Nominal: 22 * Bit, Capacity: 831820233453, Timing: true,
		Balance:    Balance{Settled: 1, Reserved: 2, Pushed: 3, SettledCapacity: 4, ReservedCapacity: 5, Cat2Queries: 6},
		Escalation: true, Justification: "because", Deadline: 8, Release: 9, Spec: []byte("{}"), Payload: []byte(`{"q":"ada"}`), PayloadKey: "k",
		Salt: [16]byte{4}, RawCommitment: Digest{5}, RawBytes: 10, PayloadCommitment: Digest{6},
		Event: "approve", Target: "mail", Note: "so", Notice: "n5", Exposure: TaintMedium, Prepaid: true, Scheduled: 12, Changes: []string{"+ a"},
		Key: "U", Released: Digest{8}, SignedUntil: 13, Signature: []byte{9}, Unsealed: true,
		Count: 11, Subject: "bcp.x", Versions: "v", Files: []File{{Path: "mesh.yaml", SHA256: [32]byte{7}}},
	}
}

// covers BCP-94, BCP-170, BCP-171, BCP-172, P4.5, P11.1
func TestDecisionRoundTrip(t *testing.T) {
	t.Parallel()
	full := fullDecision()
	for i := range reflect.TypeFor[Decision]().NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("the test leaves %s zero", reflect.TypeFor[Decision]().Field(i).Name)
		}
	}
	for _, d := range []Decision{full, {}, {Seq: 1, Balance: Balance{Settled: -1}}} {
		record, err := EncodeDecision(&d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDecision(record)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("decoded (-want +got):\n%s", diff)
		}
		again, err := EncodeDecision(&got)
		if err != nil || !bytes.Equal(record, again) {
			t.Errorf("%x encodes again as %x, %v", record, again, err)
		}
		for i := range record {
			if _, err := DecodeDecision(record[:i]); err == nil {
				t.Errorf("the first %d of %d bytes decode", i, len(record))
			}
		}
		if _, err := DecodeDecision(append(record, 0xc0)); err == nil {
			t.Error("a record with a byte behind it decodes")
		}
	}
}

// The kinds, and the keys of a record, are frozen: journals hold them.
//
// covers P4.5, P11.1
func TestRecordIsFrozen(t *testing.T) {
	t.Parallel()
	var kinds []string
	for i, k := range DecisionKinds() {
		if int(k) != i+1 {
			t.Errorf("kind %s is %d", k, k)
		}
		word, err := k.MarshalText()
		if err != nil || string(word) != k.String() {
			t.Errorf("kind %d is written %q, %v", k, word, err)
		}
		kinds = append(kinds, k.String())
	}
	if got := strings.Join(kinds, " "); got != "start session ask answer push acknowledge expire connect disconnect violation refusals alert approval process reload taint prompt" {
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
	full := fullDecision()
	record, err := EncodeDecision(&full)
	if err != nil {
		t.Fatal(err)
	}
	const want = "b437e9b890245b39"
	if got := RecordDigest(record); hex.EncodeToString(got[:8]) != want {
		t.Errorf("the record of every field has digest %x; older journals would not verify:\n%x", got[:8], record)
	}
}

// What the audit shows is a commitment to the payload, and neither it nor the
// salt nor a digest that would tell a boolean.
//
// covers P2.5, P11.4, P11.5
func TestPublic(t *testing.T) {
	t.Parallel()
	d := fullDecision()
	d.Salt, d.Payload, d.ClientDigest = [16]byte{9}, []byte(`{"ok":"canary"}`), Digest{0xca}
	public := d.Public()
	if public.Spec != nil || public.Payload != nil || public.PayloadKey != "" || public.Salt != [16]byte{} || public.ClientDigest != (Digest{}) ||
		public.Released != (Digest{}) || public.Signature != nil {
		t.Errorf("public is %+v", public)
	}
	if public.PayloadCommitment != d.Commit(d.Payload) || public.PayloadCommitment == RecordDigest(d.Payload) {
		t.Error("the commitment is not salted")
	}
	other := d
	other.Salt[0]++
	if other.Commit(d.Payload) == d.Commit(d.Payload) {
		t.Error("two salts give one commitment")
	}
	b, err := json.Marshal(public)
	if err != nil || bytes.Contains(b, []byte("canary")) {
		t.Errorf("%s, %v", b, err)
	}
	if string(d.Payload) != `{"ok":"canary"}` || d.Salt == [16]byte{} {
		t.Error("Public changed its decision")
	}
	for _, d := range []Decision{{}, fullDecision()} {
		d.Payload, d.PayloadCommitment = nil, Digest{}
		if public := d.Public(); public.PayloadCommitment != (Digest{}) {
			t.Error("there is a commitment to nothing")
		}
	}
}

// covers P11.1
func TestDigestText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d, got Digest
		copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		text, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := got.UnmarshalText(text); err != nil || got != d {
			t.Fatalf("%s is read as %x, %v", text, got, err)
		}
	})
	var d Digest
	for _, bad := range []string{"0", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64)} {
		if d.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a digest", bad)
		}
	}
	if text, err := d.MarshalText(); err != nil || len(text) != 0 {
		t.Errorf("no digest is written %q, %v", text, err)
	}
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
		if _, err := DecodeDecision([]byte(bomb)); !errors.Is(err, errRecord) {
			t.Errorf("%x: %v", bomb, err)
		}
	}
}

// Damage is an error, never a panic, and what decodes encodes.
//
// covers P4.5, A-CRASH, A-LEN
func FuzzDecodeDecision(f *testing.F) {
	for _, d := range []Decision{{}, fullDecision()} {
		record, err := EncodeDecision(&d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(record)
	}
	for _, bomb := range lengthBombs {
		f.Add([]byte(bomb))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		d, err := DecodeDecision(record)
		if err != nil {
			return
		}
		again, err := EncodeDecision(&d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeDecision(again); err != nil || cmp.Diff(d, got, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("%x decodes as %+v and then as %+v, %v", record, d, got, err)
		}
		public := d.Public()
		_, _ = public.Message()
		_, _ = public.Channel()
	})
}

// The records are what the library makes of the type, byte for byte, whatever
// their members are.
func TestRecordsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	check := func(t interface{ Errorf(string, ...any) }, d *Decision) {
		var want bytes.Buffer
		enc := msgpack.NewEncoder(&want)
		enc.UseCompactInts(true)
		if err := enc.Encode(d); err != nil {
			t.Errorf("%v", err)
		}
		if got, err := EncodeDecision(d); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%+v is %x, %v, want %x", d, got, err, want.Bytes())
		}
	}
	full := fullDecision()
	for _, d := range []*Decision{{}, &full} {
		check(t, d)
	}
	sizes := []int{0, 1, 15, 16, 31, 32, 127, 128, 255, 256, 65535, 65536}
	rapid.Check(t, func(t *rapid.T) {
		var d Decision
		fill(t, reflect.ValueOf(&d).Elem(), sizes)
		check(t, &d)
	})
}

// fill sets about half of the members, at the limits of their encodings.
func fill(t *rapid.T, v reflect.Value, sizes []int) {
	if !rapid.Bool().Draw(t, "set") {
		return
	}
	size := rapid.SampledFrom(sizes).Draw(t, "size")
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), sizes)
		}
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

func BenchmarkEncodeDecision(b *testing.B) {
	d := Decision{Seq: 70_000, Prev: Digest{1}, Time: 1_800_000_000_000_000_001, Kind: KindPush, Context: Digest{2}, Agent: "mail", Role: RoleReader,
		Controller: "planner", Reader: "mail", Session: "s1", Subscription: "alarm", Delivery: "d1", Category: 1, Client: "p1", ClientDigest: Digest{3},
		Verdict: Accept, Taint: TaintMedium, Nominal: 22 * Bit, Capacity: 831820233453, Balance: Balance{Settled: 1, Pushed: 3}, Release: 9,
		Payload: []byte(`{"q":"ada"}`), Salt: [16]byte{4}, RawCommitment: Digest{5}, RawBytes: 150}
	for b.Loop() {
		if _, err := EncodeDecision(&d); err != nil {
			b.Fatal(err)
		}
	}
}
