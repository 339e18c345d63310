package guard

import (
	"math/big"
	"math/bits"
)

// NanoBits counts information in units of 10^-9 bit, as package bcp does.
type NanoBits int64

const bit NanoBits = 1_000_000_000

// LinkPrice is what a fetch tells hosts at most if its URL is a link: one of the start URLs of a definition, or a byte
// range of a body that the agent was served. served holds the lengths of these bodies in bytes. It is 1 bit, plus log2 of
// the number of choices, rounded up to the next nano-bit; without a choice it is 1 bit.
//
// Prices are lengths of a code, together with [ComposedPrice]: they bound what hosts learn from which URL was fetched. What
// they learn from when it was is not counted.
func LinkPrice(starts uint64, served []uint64) NanoBits {
	choices := new(big.Int).SetUint64(starts)
	for _, n := range served {
		body := new(big.Int).SetUint64(n)
		body.Mul(body, new(big.Int).Add(body, big.NewInt(1)))
		choices.Add(choices, body.Rsh(body, 1))
	}
	if choices.Sign() == 0 {
		return bit
	}
	return bit + RoundUp(Log2(choices))
}

// ComposedPrice is what a fetch tells hosts at most if the agent put the URL together itself: 3 + 8 L + 2 floor(log2 L)
// bits, and L, the length in bytes of its canonical form after "://".
func ComposedPrice(t Target) (price NanoBits, length int) {
	if t.IsZero() {
		return 0, 0
	}
	length = len(t.Authority()) + len(t.path)
	return NanoBits(3+8*length+2*(bits.Len(uint(length))-1)) * bit, length
}

// Logarithms are fixed-point numbers with LogScale fractional bits, rounded up
// in every step, so that a sum of them never falls below the truth.
const LogScale = 128

// Log2 returns an upper bound of log2(n) scaled by 2^LogScale, within 2^-60 of
// the truth and exact for powers of two. n is at least 1.
func Log2(n *big.Int) *big.Int {
	const precision = 256 // fractional bits of the mantissa
	exponent := n.BitLen() - 1
	result := new(big.Int).Lsh(big.NewInt(int64(exponent)), LogScale)
	if exponent == int(n.TrailingZeroBits()) {
		return result
	}
	mantissa := ShiftUp(n, precision-exponent) // in (1, 2], scaled by 2^precision
	two, square := new(big.Int).Lsh(unit, precision+1), new(big.Int)
	var fraction uint64
	for range 64 {
		setShifted(mantissa, square.Mul(mantissa, mantissa), -precision)
		fraction <<= 1
		if mantissa.Cmp(two) >= 0 {
			fraction |= 1
			setShifted(mantissa, mantissa, -1)
		}
	}
	// What is left of the mantissa adds at most one unit in the last place.
	tail := new(big.Int).SetUint64(fraction)
	tail.Add(tail, unit)
	return result.Add(result, tail.Lsh(tail, LogScale-64))
}

// ShiftUp returns n x 2^by, rounded up.
func ShiftUp(n *big.Int, by int) *big.Int { return setShifted(new(big.Int), n, by) }

// setShifted is ShiftUp into z, which may be n.
func setShifted(z, n *big.Int, by int) *big.Int {
	if by >= 0 {
		return z.Lsh(n, uint(by))
	}
	lost := n.Sign() != 0 && n.TrailingZeroBits() < uint(-by)
	if z.Rsh(n, uint(-by)); lost {
		z.Add(z, unit)
	}
	return z
}

var unit = big.NewInt(1)

// RoundUp turns a scaled logarithm into nano-bits, rounded up once.
func RoundUp(log *big.Int) NanoBits {
	return NanoBits(ShiftUp(new(big.Int).Mul(log, big.NewInt(int64(bit))), -LogScale).Int64())
}
