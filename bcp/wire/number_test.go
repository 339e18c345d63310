package wire_test

import (
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// One spelling of a number is one number: what a float would round, or what has
// two spellings, is refused.
// covers P2.2
func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in       string
		fraction bool
		ok       bool
	}{
		{"0", false, true}, {"-7", false, true}, {"9223372036854775807", false, true}, {"-9223372036854775808", false, true},
		{"0.5", true, true}, {"-0.5", true, true}, {"98.70", true, true}, {"123456789.123456", true, true}, {"0.00000000000001", true, true},
		{"10.0", true, true},
		{"-0", false, false}, {"-0.0", false, false}, {"01", false, false}, {"01.5", false, false}, {"1.", false, false}, {".5", false, false},
		{"1e5", false, false}, {"1.5e5", false, false}, {"1.5E5", false, false}, {"-", false, false}, {"-.5", false, false}, {"+1", false, false},
		{"9223372036854775808", false, false}, {"1234567890.123456", false, false}, {"1.2.3", false, false}, {"NaN", false, false},
		{"Infinity", false, false}, {"0x10", false, false}, {"true", false, false}, {`"1"`, false, false}, {"", false, false},
	} {
		s := wire.NewScanner([]byte(c.in))
		text, fraction, err := s.Number()
		if err == nil {
			err = s.End()
		}
		if (err == nil) != c.ok || c.ok && (fraction != c.fraction || string(text) != c.in) {
			t.Errorf("%q: got %q, fraction %t, %v", c.in, text, fraction, err)
		}
		if err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%q: %v is not malformed", c.in, err)
		}
	}
}

// covers P2.2
func TestNull(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]bool{"null": true, " null ": true, "nul": false, "nil": false, "nullx": false, "0": false, "": false} {
		s := wire.NewScanner([]byte(in))
		err := s.Null()
		if err == nil {
			err = s.End()
		}
		if (err == nil) != ok {
			t.Errorf("%q: %v", in, err)
		}
	}
	s := wire.NewScanner([]byte("[null,null]"))
	n := 0
	for err := s.ArrayStart(); err == nil && s.More(); n++ {
		err = s.Null()
	}
	if err := s.End(); err != nil || n != 2 {
		t.Errorf("a list of two nulls: %d, %v", n, err)
	}
}

// What is passed over unread ends at its last bracket, whatever its texts hold.
func TestOpaque(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1,"a":["}"]}`:     `{"a":1,"a":["}"]}`, // repeated keys are for who reads it
		` [1, {"b": "]}\"]"}] `: `[1, {"b": "]}\"]"}]`, `{}`: `{}`, `[[[[[[[[[[[[]]]]]]]]]]]]`: `[[[[[[[[[[[[]]]]]]]]]]]]`,
		`{"a":1`: "", `{"a":"}`: "", `1`: "", `"x"`: "", ``: "", `null`: "", `{} x`: "", `{"\`: "",
	} {
		s := wire.NewEnvelope([]byte(in))
		got, err := s.Opaque()
		if err == nil {
			err = s.End()
		}
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}
