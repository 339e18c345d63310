package wire

import (
	"errors"
	"strings"
	"testing"
)

// allocations counts those of one call, which may not run in parallel to others.
func allocations(f func()) float64 { return testing.AllocsPerRun(5, f) }

// A hostile message costs the decoder, the error, and for many keys a table that ends to grow
// at MaxKeys a level. It never costs what it claims or how long it is.
//
// covers P2.2, A-LEN, A-HASH, A-WSJ, A-CRASH
func TestHostileInputAllocatesLittle(t *testing.T) {
	const size = 1 << 20
	manyStrings := "[" + strings.Repeat(`"a",`, 1e5) + `"a"]`
	for name, c := range map[string]struct {
		in    string
		why   error
		limit float64
	}{
		"a million brackets": {strings.Repeat("[", size), ErrDepth, 10},
		"a million braces":   {strings.Repeat(`{"a":`, size), ErrDepth, 40},
		"a million spaces":   {strings.Repeat(" ", size), ErrTruncated, 10},
		"spaces around":      {strings.Repeat(" ", size) + "{}" + strings.Repeat("\n", size), nil, 10},
		"one long string":    {`"` + strings.Repeat("a", size) + `"`, nil, 10},
		"one long bad key":   {`{"` + strings.Repeat("a", size) + "\xff\":1}", ErrUTF8, 10},
		"escapes":            {`"` + strings.Repeat(`\u0041`, size/8) + `"`, nil, 10},
		"many digits":        {strings.Repeat("9", size), ErrNumber, 10},
		"many zeros":         {strings.Repeat("0", size), ErrTrailing, 10},
		"100,000 keys":       {manyKeys(1e5), ErrTooManyKeys, 2 * MaxKeys},
		"100,000 elements":   {manyStrings, nil, 10},
		"100,000 objects":    {"[" + strings.Repeat(`{"a":1},`, 1e5) + "1]", nil, 10},
		"most keys, eight levels": {
			strings.Repeat(strings.TrimSuffix(manyKeys(MaxKeys), "1}"), MaxDepth) + "1" + strings.Repeat("}", MaxDepth), nil, 2 * MaxKeys * MaxDepth,
		},
	} {
		doc := []byte(c.in)
		var err error
		n := allocations(func() { err = Check(doc) })
		failIf(t, n > c.limit || !errors.Is(err, c.why), "%s: %v allocations, %v", name, n, err)
	}
}

// covers P2.2, A-LEN, A-HASH
func TestHostileMsgpackAllocatesLittle(t *testing.T) {
	var dst [256]byte
	for name, c := range map[string]struct {
		in  string
		why error
	}{
		"str32 bomb":         {"\xdb\xff\xff\xff\xff", ErrTruncated},
		"bin32 bomb":         {"\xc6\xff\xff\xff\xff", ErrKind},
		"ext32 bomb":         {"\xc9\xff\xff\xff\xff\x00", ErrKind},
		"array32 bomb":       {"\xdd\xff\xff\xff\xff", ErrTruncated},
		"map32 bomb":         {"\xdf\xff\xff\xff\xff", ErrTruncated},
		"bombs in bombs":     {strings.Repeat("\xdd\x00\x0f\xff\xff", 1<<20), ErrDepth},
		"a million brackets": {strings.Repeat("\x91", 1<<20), ErrDepth},
		"60,000 keys":        {packedKeys(6e4), ErrTooManyKeys},
		"trailing":           {"\x01" + strings.Repeat("\x01", 1<<20), ErrTrailing},
	} {
		src := []byte(c.in)
		var err error
		n := allocations(func() { _, err = JSONFromMsgpack(dst[:0], src) })
		failIf(t, n > 1 || !errors.Is(err, c.why), "%s: %v allocations, %v", name, n, err)
	}
}
