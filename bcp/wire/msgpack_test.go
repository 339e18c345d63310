package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func packedKeys(n int) string {
	b := make([]byte, 0, 8*n)
	switch {
	case n <= 15:
		b = append(b, 0x80|byte(n))
	default:
		b = append(b, 0xde, byte(n>>8), byte(n))
	}
	for i := range n {
		key := "k" + strconv.Itoa(i)
		b = append(append(b, 0xa0|byte(len(key))), key...)
		b = append(b, 1)
	}
	return string(b)
}

// packedStrictness has a case for every rule of P2.2 that MessagePack adds or
// spells in its own way: at the limit, and past it.
var packedStrictness = []struct {
	name string
	in   string
	want string // the JSON, where it is accepted
	why  error
}{
	{"false", "\xc2", `false`, nil},
	{"true", "\xc3", `true`, nil},
	{"map", "\x82\xa1a\x01\xa1b\x92\xc3\xa1x", `{"a":1,"b":[true,"x"]}`, nil},
	{"empty", "\x92\x80\x90", `[{},[]]`, nil},

	{"nothing", "", "", ErrTruncated},
	{"trailing value", "\x01\x02", "", ErrTrailing},
	{"trailing space", "\x90 ", "", ErrTrailing},
	{"nil", "\xc0", "", ErrKind},
	{"nil inside", "\x91\xc0", "", ErrKind},
	{"never used", "\xc1", "", ErrKind},
	{"JSON", `{"a":1}`, "", ErrTrailing},
	{"JSON array", `[1]`, "", ErrTrailing},

	{"float32", "\xca\x3f\x80\x00\x00", "", ErrNumber},
	{"float64", "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", "", ErrNumber},
	{"NaN", "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "", ErrNumber},

	{"bin8", "\xc4\x01a", "", ErrKind},
	{"bin16", "\xc5\x00\x01a", "", ErrKind},
	{"bin32", "\xc6\x00\x00\x00\x01a", "", ErrKind},
	{"bin32 bomb", "\xc6\xff\xff\xff\xff", "", ErrKind},
	{"fixext1", "\xd4\x01\x00", "", ErrKind},
	{"fixext16", "\xd8\x01" + strings.Repeat("\x00", 16), "", ErrKind},
	{"ext8", "\xc7\x01\x01\x00", "", ErrKind},
	{"ext32 bomb", "\xc9\xff\xff\xff\xff\x01", "", ErrKind},
	{"timestamp", "\xd6\xff\x00\x00\x00\x00", "", ErrKind},

	{"0", "\x00", `0`, nil},
	{"127", "\x7f", `127`, nil},
	{"127 as uint8", "\xcc\x7f", "", ErrNotMinimal},
	{"128", "\xcc\x80", `128`, nil},
	{"255", "\xcc\xff", `255`, nil},
	{"255 as uint16", "\xcd\x00\xff", "", ErrNotMinimal},
	{"256", "\xcd\x01\x00", `256`, nil},
	{"65535", "\xcd\xff\xff", `65535`, nil},
	{"65535 as uint32", "\xce\x00\x00\xff\xff", "", ErrNotMinimal},
	{"65536", "\xce\x00\x01\x00\x00", `65536`, nil},
	{"4294967295", "\xce\xff\xff\xff\xff", `4294967295`, nil},
	{"4294967295 as uint64", "\xcf\x00\x00\x00\x00\xff\xff\xff\xff", "", ErrNotMinimal},
	{"4294967296", "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", `4294967296`, nil},
	{"largest", "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", `9223372036854775807`, nil},
	{"past largest", "\xcf\x80\x00\x00\x00\x00\x00\x00\x00", "", ErrNumber},
	{"uint64 max", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "", ErrNumber},
	{"-1", "\xff", `-1`, nil},
	{"-32", "\xe0", `-32`, nil},
	{"-32 as int8", "\xd0\xe0", "", ErrNotMinimal},
	{"-33", "\xd0\xdf", `-33`, nil},
	{"-128", "\xd0\x80", `-128`, nil},
	{"-128 as int16", "\xd1\xff\x80", "", ErrNotMinimal},
	{"-129", "\xd1\xff\x7f", `-129`, nil},
	{"-32768", "\xd1\x80\x00", `-32768`, nil},
	{"-32768 as int32", "\xd2\xff\xff\x80\x00", "", ErrNotMinimal},
	{"-32769", "\xd2\xff\xff\x7f\xff", `-32769`, nil},
	{"-2147483648", "\xd2\x80\x00\x00\x00", `-2147483648`, nil},
	{"-2147483648 as int64", "\xd3\xff\xff\xff\xff\x80\x00\x00\x00", "", ErrNotMinimal},
	{"-2147483649", "\xd3\xff\xff\xff\xff\x7f\xff\xff\xff", `-2147483649`, nil},
	{"smallest", "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", `-9223372036854775808`, nil},
	{"1 as int8", "\xd0\x01", "", ErrNotMinimal},
	{"256 as int16", "\xd1\x01\x00", "", ErrNotMinimal},
	{"65536 as int32", "\xd2\x00\x01\x00\x00", "", ErrNotMinimal},
	{"4294967296 as int64", "\xd3\x00\x00\x00\x01\x00\x00\x00\x00", "", ErrNotMinimal},
	{"cut uint8", "\xcc", "", ErrTruncated},
	{"cut uint64", "\xcf\x00\x00\x00\x01\x00\x00\x00", "", ErrTruncated},
	{"cut int16", "\xd1\xff", "", ErrTruncated},

	{"empty string", "\xa0", `""`, nil},
	{"31 bytes", "\xbf" + strings.Repeat("a", 31), `"` + strings.Repeat("a", 31) + `"`, nil},
	{"31 bytes as str8", "\xd9\x1f" + strings.Repeat("a", 31), "", ErrNotMinimal},
	{"32 bytes", "\xd9\x20" + strings.Repeat("a", 32), `"` + strings.Repeat("a", 32) + `"`, nil},
	{"255 bytes", "\xd9\xff" + strings.Repeat("a", 255), `"` + strings.Repeat("a", 255) + `"`, nil},
	{"255 bytes as str16", "\xda\x00\xff" + strings.Repeat("a", 255), "", ErrNotMinimal},
	{"256 bytes", "\xda\x01\x00" + strings.Repeat("a", 256), `"` + strings.Repeat("a", 256) + `"`, nil},
	{"65535 bytes as str32", "\xdb\x00\x00\xff\xff" + strings.Repeat("a", 65535), "", ErrNotMinimal},
	{"65536 bytes", "\xdb\x00\x01\x00\x00" + strings.Repeat("a", 65536), `"` + strings.Repeat("a", 65536) + `"`, nil},
	{"cut 0xa0", "\xa2a", "", ErrTruncated},
	{"cut str8", "\xd9\x20" + strings.Repeat("a", 31), "", ErrTruncated},
	{"str8 without length", "\xd9", "", ErrTruncated},
	{"str32 bomb", "\xdb\xff\xff\xff\xff", "", ErrTruncated},
	{"str32 bomb as key", "\x81\xdb\xff\xff\xff\xff", "", ErrTruncated},
	{"controls", "\xa5\x00\n\x1b\x7f\"", `"\u0000\n\u001b\u007f\""`, nil},
	{"backslash is a letter", "\xa6\\u0041", `"\\u0041"`, nil},
	{"stray 0xff", "\xa1\xff", "", ErrUTF8},
	{"overlong", "\xa2\xc0\xaf", "", ErrUTF8},
	{"surrogate", "\xa3\xed\xa0\x80", "", ErrUTF8},
	{"cut character", "\xa2\xe2\x82", "", ErrUTF8},
	{"bad UTF-8 in a key", "\x81\xa1\xff\x01", "", ErrUTF8},

	{"15 elements", "\x9f" + strings.Repeat("\x01", 15), "[" + strings.Repeat("1,", 14) + "1]", nil},
	{"15 elements as array16", "\xdc\x00\x0f" + strings.Repeat("\x01", 15), "", ErrNotMinimal},
	{"16 elements", "\xdc\x00\x10" + strings.Repeat("\x01", 16), "[" + strings.Repeat("1,", 15) + "1]", nil},
	{"65535 elements as array32", "\xdd\x00\x00\xff\xff" + strings.Repeat("\x01", 65535), "", ErrNotMinimal},
	{"65536 elements", "\xdd\x00\x01\x00\x00" + strings.Repeat("\x01", 65536), "[" + strings.Repeat("1,", 65535) + "1]", nil},
	{"array32 bomb", "\xdd\xff\xff\xff\xff", "", ErrTruncated},
	{"array16 bomb", "\xdc\xff\xff\x01\x01", "", ErrTruncated},
	{"one element short", "\x92\x01", "", ErrTruncated},
	{"array16 without length", "\xdc\x00", "", ErrTruncated},
	{"empty map16", "\xde\x00\x00", "", ErrNotMinimal},
	{"map16 of 15", "\xde\x00\x0f" + strings.Repeat("\xa0\x01", 15), "", ErrNotMinimal},
	{"map32 of 65535", "\xdf\x00\x00\xff\xff" + strings.Repeat("\xa0\x01", 65535), "", ErrNotMinimal},
	{"map32 bomb", "\xdf\xff\xff\xff\xff", "", ErrTruncated},
	{"map of half the bytes", "\x82\xa0\x01\xa1", "", ErrTruncated},
	{"map of half the bytes before a bad key", "\x83\xc0\x01\xa1\x01", "", ErrTruncated},
	{"map without its last pair", "\x82\xa3abc\x01", "", ErrTruncated},
	{"map without its value", "\x81\xa1a", "", ErrTruncated},
	{"most keys", packedKeys(MaxKeys), manyKeys(MaxKeys), nil},
	{"too many keys", packedKeys(MaxKeys + 1), "", ErrTooManyKeys},

	{"deepest", strings.Repeat("\x91", MaxDepth) + "\x01", nested(MaxDepth), nil},
	{"too deep", strings.Repeat("\x91", MaxDepth+1) + "\x01", "", ErrDepth},
	{"too deep in maps", strings.Repeat("\x81\xa0", MaxDepth) + "\x80", "", ErrDepth},

	{"repeated key", "\x82\xa1a\x01\xa1a\x01", "", ErrDuplicateKey},
	{"repeated key inside", "\x91\x81\xa1x\x83\xa1a\x01\xa1b\x02\xa1a\x01", "", ErrDuplicateKey},
	{"repeated key behind a map", "\x82\xa1a\x81\xa1b\x01\xa1a\x01", "", ErrDuplicateKey},
	{"key of another level", "\x82\xa1a\x81\xa1a\x01\xa1b\x81\xa1a\x01", `{"a":{"a":1},"b":{"a":1}}`, nil},
	{"key that looks like an escape", "\x82\xa6\\u0061\x01\xa1a\x01", `{"\\u0061":1,"a":1}`, nil},
	{"integer key", "\x81\x01\x01", "", ErrKind},
	{"bin key", "\x81\xc4\x01a\x01", "", ErrKind},
	{"NaN key", "\x81\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00\x01", "", ErrNumber},
	{"map key", "\x81\x80\x01", "", ErrKind},
	{"nil key", "\x81\xc0\x01", "", ErrKind},
	{"never used as key", "\x81\xc1\x01", "", ErrKind},
	{"non-minimal key", "\x81\xd9\x01a\x01", "", ErrNotMinimal},
}

// covers P2.2, A-LEN, A-MPKEY, A-BINSTR, A-UTF8, A-DUP, A-BIG, A-SNIFF
func TestJSONFromMsgpackIsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range packedStrictness {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dst := []byte("before")
			got, err := JSONFromMsgpack(dst, []byte(c.in))
			stopIf(t, !errors.Is(err, c.why), "got %v, want %v", err, c.why)
			stopIf(t, string(got) != "before"+c.want, "got %.80q, want %.80q behind what was there", got, c.want)
			var e *Error
			failIf(t, err != nil && (!errors.Is(err, ErrMalformed) || !errors.As(err, &e) || e.Offset < 0), "no place: %+v", err)
		})
	}
}

// covers P2.1, P2.2, P2.4
func TestMsgpackFromJSON(t *testing.T) {
	t.Parallel()
	for _, c := range packedStrictness {
		if c.why != nil {
			continue
		}
		got, err := MsgpackFromJSON([]byte("x"), []byte(c.want))
		failIf(t, err != nil || string(got) != "x"+c.in, "%s: got %.80x, %v, want %.80x", c.name, got, err, c.in)
	}
	for _, c := range strictness {
		got, err := MsgpackFromJSON([]byte("x"), []byte(c.in))
		switch {
		case err == nil:
			failIf(t, c.want != nil && !errors.Is(c.want, ErrNumber), "%s: accepted", c.name)
		case c.want == nil || !errors.Is(err, ErrMalformed):
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		case string(got) != "x":
			t.Errorf("%s: left %q behind", c.name, got)
		}
	}
}

// Numbers with a fraction go out, as the seed's bandwidth_bits, and never in.
//
// covers P2.2, P4.1
func TestFractionsGoOutOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		`671.0`: 671, `6.906890595608519`: 6.906890595608519, `-0.5`: -0.5, `0.0`: 0, `1e2`: 100, `2.5E-3`: 0.0025, `1e+1`: 10,
	} {
		doc := `{"bandwidth_bits":` + text + `,"n":1}`
		packed, err := MsgpackFromJSON(nil, []byte(doc))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got struct {
			Bits float64 `msgpack:"bandwidth_bits"`
			N    int     `msgpack:"n"`
		}
		if err := msgpack.Unmarshal(packed, &got); err != nil || math.Float64bits(got.Bits) != math.Float64bits(want) || got.N != 1 {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
		_, err = JSONFromMsgpack(nil, packed)
		failIf(t, !errors.Is(err, ErrNumber), "%s came in: %v", text, err)
		fails(t, Check([]byte(doc)), ErrNumber, "%s came in as JSON", text)
	}
	longest := "0." + strings.Repeat("1", maxFraction-2)
	_, err := MsgpackFromJSON(nil, []byte(longest))
	failIf(t, err != nil, "longest: %v", err)
	for _, text := range []string{longest + "1", `1.`, `.5`, `1e`, `1e+`, `01.5`, `-.5`, `1.5.5`, `1.5x`, `1e999`, `-`, `-0`, `1.e1`, `0x1p3`, `1_0.5`} {
		got, err := MsgpackFromJSON(nil, []byte(text))
		failIf(t, err == nil, "%s: packed as %x", text, got)
	}
}

// compareWithLibrary holds JSONFromMsgpack against the MessagePack library.
func compareWithLibrary(b []byte) error {
	doc, err := JSONFromMsgpack(nil, b)
	if err != nil {
		if doc != nil {
			return errors.New("refused, with a result")
		}
		return nil
	}
	if len(doc) > 6*len(b) {
		return fmt.Errorf("%d bytes became %d", len(b), len(doc))
	}
	if err := Check(doc); err != nil {
		return fmt.Errorf("%q: the one decoder refuses: %w", doc, err)
	}
	back, err := MsgpackFromJSON(nil, doc)
	if err != nil || !bytes.Equal(back, b) {
		return fmt.Errorf("came back as %x: %w", back, err)
	}
	d := msgpack.NewDecoder(bytes.NewReader(b))
	d.UseLooseInterfaceDecoding(true) // inside; the outermost value needs its own call
	want, err := d.DecodeInterfaceLoose()
	if err != nil {
		return fmt.Errorf("the library refuses: %w", err)
	}
	j := json.NewDecoder(bytes.NewReader(doc))
	j.UseNumber()
	var got any
	if err := j.Decode(&got); err != nil {
		return err
	}
	if diff := cmp.Diff(plainValue(want), plainValue(got)); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// plainValue writes the integers of both libraries in one way.
func plainValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = plainValue(v[key])
		}
		return v
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
		return v
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case uint64:
		return json.Number(strconv.FormatUint(v, 10))
	default:
		return v
	}
}

// covers P2.1, P2.2, P2.3, A-LEN, A-MPKEY, A-BINSTR, A-UTF8, A-CRASH
func FuzzMsgpack(f *testing.F) {
	for _, c := range packedStrictness {
		if len(c.in) < 2000 {
			f.Add([]byte(c.in))
		}
	}
	for _, longest := range [][]byte{{0xc2}, append([]byte{0xdc, 0xff, 0xff}, bytes.Repeat([]byte{0xc2}, 65535)...), append([]byte{0xa0 | 31}, make([]byte, 31)...), append([]byte{0xd9, 255}, bytes.Repeat([]byte{0x7f}, 255)...), {0x80 | 1, 0xa0, 0xc2}} {
		f.Add(longest)
	}
	for _, doc := range [][]byte{category1, category2, category3} {
		packed, err := MsgpackFromJSON(nil, doc)
		noError(f, err)
		f.Add(packed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := compareWithLibrary(b)
		stopIf(t, err != nil, "%x: %v", b, err)
		doc, err := MsgpackFromJSON(nil, b)
		stopIf(t, err == nil && len(doc) > 3*len(b), "%q: %d bytes became %d", b, len(b), len(doc))
	})
}

// drawValue draws a value of the protocol: no null, no float.
func drawValue(t *rapid.T, depth int) any {
	top := 4
	if depth > 0 {
		top = 6
	}
	switch rapid.IntRange(1, top).Draw(t, "kind") {
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2, 3:
		if rapid.Bool().Draw(t, "wide") {
			return rapid.Int64().Draw(t, "int")
		}
		return rapid.Int64Range(-200, 300).Draw(t, "int")
	case 4:
		return rapid.String().Draw(t, "text")
	case 5:
		list := []any{}
		for range rapid.IntRange(0, 20).Draw(t, "elements") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 20).Draw(t, "members") {
			object[rapid.String().Draw(t, "key")] = drawValue(t, depth-1)
		}
		return object
	}
}

func packedByLibrary(t *rapid.T, value any) []byte {
	var packed bytes.Buffer
	e := msgpack.NewEncoder(&packed)
	e.UseCompactInts(true)
	noError(t, e.Encode(value))
	return packed.Bytes()
}

// What another encoder writes compactly is accepted, so strictness shuts no
// honest agent out.
//
// covers P2.1, P2.2
func TestCompactLibraryOutputIsAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := drawValue(t, 3)
		packed := packedByLibrary(t, value)
		if _, err := JSONFromMsgpack(nil, packed); err != nil {
			t.Fatalf("%x: %v", packed, err)
		}
		noError(t, compareWithLibrary(packed))
		doc, err := json.Marshal(value)
		noError(t, err)
		doc = bytes.ReplaceAll(doc, []byte{0x7f}, []byte(`\u007f`))
		if err := Check(doc); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	})
}

// A change of one byte is refused or is another value: no two spellings of one.
//
// covers P2.2, P2.4, A-BINSTR
func TestMsgpackHasOneSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		packed := packedByLibrary(t, drawValue(t, 2))
		before, err := JSONFromMsgpack(nil, packed)
		noError(t, err)
		at := rapid.IntRange(0, len(packed)-1).Draw(t, "at")
		packed[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		after, err := JSONFromMsgpack(nil, packed)
		stopIf(t, err == nil && bytes.Equal(before, after), "two spellings of %s", before)
	})
}

var noError, failIf, fails, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.Fails, bcptest.StopIf
