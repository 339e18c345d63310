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
	return bit + log2(choices)
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

// log2 returns log2(n) rounded up to the next nano-bit; 0 for n below 2.
func log2(n *big.Int) NanoBits {
	if n.Sign() <= 0 {
		return 0
	}
	whole := n.BitLen() - 1
	if int(n.TrailingZeroBits()) == whole {
		return NanoBits(whole) * bit
	}
	// The mantissa is in (1, 2), with 62 bits after the point. Squaring it gives the fraction of the logarithm bit by bit;
	// every step rounds up, so the result is never below the truth.
	const point, steps = 62, 52
	mantissa := new(big.Int).Lsh(n, point)
	m := new(big.Int).Rsh(mantissa, uint(whole)).Uint64() + 1
	fraction := uint64(0)
	for range steps {
		high, low := bits.Mul64(m, m)
		m = high<<(64-point) | low>>point
		m++
		fraction <<= 1
		if m >= 2<<point {
			fraction |= 1
			m = m>>1 + 1
		}
	}
	high, low := bits.Mul64(fraction+1, uint64(bit))
	nano := high<<(64-steps) | low>>steps
	return NanoBits(whole)*bit + NanoBits(nano) + 1
}
