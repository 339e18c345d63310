package cli

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func TestNumberFlag(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		least int
		text  string
		ok    bool
	}{
		{0, "0", true}, {1, "0", false}, {1, "1", true}, {0, "2147483647", true}, {0, "2147483648", false},
		{0, "-1", false}, {0, "", false}, {0, "1.5", false}, {0, " 1", false}, {0, "0x10", false},
	} {
		f := NumberFlag{Least: c.least}
		if err := f.Set(c.text); (err == nil) != c.ok {
			t.Errorf("%q from %d: %v", c.text, c.least, err)
		}
	}
}

func TestBitsOf(t *testing.T) {
	t.Parallel()
	for bits, want := range map[bcp.Bits]string{
		0: "0 bits", 1: "0.1 bits", bcp.Bit: "1 bit", bcp.Bit + 1: "1.1 bits", 2 * bcp.Bit: "2 bits", 6906890596: "7 bits", 671 * bcp.Bit: "671 bits",
	} {
		if got := Bits(bits); got != want {
			t.Errorf("%d nano-bits are %s, want %s", bits, got, want)
		}
	}
}
