package bcp

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// floatPrecision is enough to tell the truth from an upper bound 2^-60 above it.
const floatPrecision = 512

// logOracle is log2(n) in floating point: ln by the series of atanh, which
// shares nothing with Log2's squaring.
func logOracle(n *big.Int) *big.Float {
	exponent := n.BitLen() - 1
	m := new(big.Float).SetPrec(floatPrecision).SetInt(n)
	m.SetMantExp(m, -exponent) // in [1, 2)
	result := new(big.Float).SetPrec(floatPrecision).Quo(naturalLog(m), naturalLog(big.NewFloat(2).SetPrec(floatPrecision)))
	return result.Add(result, new(big.Float).SetInt64(int64(exponent)))
}

// naturalLog is 2 atanh((m-1)/(m+1)) for m in [1, 2].
func naturalLog(m *big.Float) *big.Float {
	one := big.NewFloat(1).SetPrec(floatPrecision)
	z := new(big.Float).Sub(m, one)
	z.Quo(z, new(big.Float).Add(m, one))
	square := new(big.Float).Mul(z, z)
	sum, power := new(big.Float).SetPrec(floatPrecision), z
	for k := int64(1); k < 250; k += 2 { // z <= 1/3
		sum.Add(sum, new(big.Float).Quo(power, new(big.Float).SetInt64(k)))
		power = new(big.Float).Mul(power, square)
	}
	return sum.Mul(sum, big.NewFloat(2))
}

func bigInts() *rapid.Generator[*big.Int] {
	return rapid.Custom(func(t *rapid.T) *big.Int {
		if rapid.Bool().Draw(t, "near a power of two") {
			n := new(big.Int).Lsh(big.NewInt(1), uint(rapid.IntRange(1, 3000).Draw(t, "exponent")))
			return n.Add(n, big.NewInt(rapid.Int64Range(-1, 1).Draw(t, "distance")))
		}
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 400).Draw(t, "bytes"))
		return n.Add(n, big.NewInt(1))
	})
}

// Log2 is never below the truth and at most 2^-60 above it; in nano-bits it is
// the truth rounded up once.
//
// covers P4.1, BCP-32, BCP-33
func TestLog2IsATightUpperBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := bigInts().Draw(t, "n")
		got := new(big.Float).SetPrec(floatPrecision).SetInt(guard.Log2(n))
		got.SetMantExp(got, -guard.LogScale)
		above := new(big.Float).Sub(got, logOracle(n))
		// The oracle itself is good to far more than 2^-200.
		stopIf(t, above.Cmp(big.NewFloat(-0x1p-200)) < 0 || above.Cmp(big.NewFloat(0x1p-60)) > 0,
			"Log2(%v) is %v above the truth", n, above)
		nano := new(big.Float).SetPrec(floatPrecision).SetInt64(int64(log2Bits(n)))
		nano.Quo(nano, big.NewFloat(1e9))
		above.Sub(nano, logOracle(n))
		stopIf(t, above.Cmp(big.NewFloat(-0x1p-200)) < 0 || above.Cmp(big.NewFloat(1.000001e-9)) > 0,
			"log2Bits(%v) is %v above the truth", n, above)
	})
}

// covers P4.1, BCP-33
func TestLog2OfPowersOfTwoIsExact(t *testing.T) {
	t.Parallel()
	for _, k := range []int{0, 1, 2, 31, 32, 63, 64, 65, 255, 256, 257, 1000, 132570} {
		n := new(big.Int).Lsh(big.NewInt(1), uint(k))
		got := log2Bits(n)
		failIf(t, got != Bits(k)*Bit, "log2(2^%d) = %v", k, got)
	}
}

// A count with a logarithm in it adds small numbers without losing them, and
// close to the truth where that truth is small enough to compute.
//
// covers P4.1
func TestCountPlus(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		exponent := rapid.IntRange(0, 200).Draw(t, "exponent")
		whole := rapid.Uint64Range(1, 1<<40).Draw(t, "whole")
		more := rapid.Uint64Range(0, 1<<40).Draw(t, "more")
		c := count{new(big.Int).SetUint64(whole), wholeBits(exponent)}
		c.plus(more)
		truth := new(big.Int).Lsh(new(big.Int).SetUint64(whole), uint(exponent))
		truth.Add(truth, new(big.Int).SetUint64(more))
		if got, want := c.bits(), log2Bits(truth); got < want || got > want+1 {
			t.Fatalf("%d x 2^%d + %d is %v bits, not %v", whole, exponent, more, got, want)
		}
	})
}
