package guard

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	many := make([]uint64, 50)
	for i := range many {
		many[i] = 100
	}
	for _, c := range []struct {
		starts uint64
		served []uint64
		want   NanoBits
	}{
		{0, nil, 1_000_000_000}, {1, nil, 1_000_000_000}, {2, nil, 2_000_000_000}, {3, nil, 2_584_962_501}, {0, []uint64{1}, 1_000_000_000}, {0, []uint64{3}, 3_584_962_501},
		{1, []uint64{1_000_000}, 39_863_138_582}, {5, many, 18_945_952_431}, {1 << 63, nil, 64_000_000_000},
	} {
		if got := LinkPrice(c.starts, c.served); got != c.want {
			t.Errorf("%d and %d bodies: %d, want %d", c.starts, len(c.served), got, c.want)
		}
	}
	for url, want := range map[string]NanoBits{"http://h.test/": 63, "https://h.test:8443/x": 113, "https://h.test/a#secret": 73, "https://h.test": 63, "https://h.test:443/": 63} {
		target, err := ParseTarget(url)
		if got, n := ComposedPrice(target); err != nil || got != want*bit || n != len(target.String())-len(target.Scheme())-len("://") {
			t.Errorf("%s: %d for %d bytes, %v", url, got, n, err)
		}
	}
}

// The logarithm is never below the truth, and less than two nano-bits above it, as far as the length of n^4096 tells.
func TestLogarithmIsAnUpperBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := new(big.Int).SetUint64(rapid.Uint64Range(1, 1<<62).Draw(t, "n"))
		n.Lsh(n, uint(rapid.IntRange(0, 60).Draw(t, "shift")))
		const k = 4096
		power := new(big.Int).Exp(n, big.NewInt(k), nil)
		low := int64(power.BitLen() - 1) // floor(k log2 n)
		got := int64(log2(n))
		if got*k < low*int64(bit) || got*k > (low+1)*int64(bit)+2*k {
			t.Errorf("log2(%v) = %d nano-bits, and k times it is between %d and %d bits", n, got, low, low+1)
		}
	})
}
