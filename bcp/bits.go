package bcp

import (
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Bits counts information in nano-bits (10^-9 bit), so that budgets add up
// exactly (PROTOCOL P4.1). It is never negative in a record.
type Bits int64

// Bit is one bit.
const Bit Bits = 1_000_000_000

// WordBits is the seeds' price of a word: 11 bits.
const WordBits = 11 * Bit

// MaxBits is the greatest budget that a definition may state, in whole bits.
const MaxBits = 1_000_000_000

// String returns b in bits, exactly, with at least one decimal: "671.0",
// "6.906890596".
func (b Bits) String() string { return string(b.Append(make([]byte, 0, 24))) }

// Rounded is b for people, rounded up to a tenth: 18.7.
func (b Bits) Rounded() string {
	const tenth = Bit / 10
	tenths := (b + tenth - 1) / tenth
	if tenths%10 == 0 {
		return strconv.FormatInt(int64(tenths/10), 10)
	}
	return strconv.FormatInt(int64(tenths/10), 10) + "." + strconv.FormatInt(int64(tenths%10), 10)
}

// Words is b for people with its unit: "1 bit", "18.7 bits".
func (b Bits) Words() string {
	if s := b.Rounded(); s != "1" {
		return s + " bits"
	}
	return "1 bit"
}

// Append appends what String returns.
func (b Bits) Append(text []byte) []byte {
	u := uint64(b)
	if b < 0 {
		text, u = append(text, '-'), -u
	}
	text = append(strconv.AppendUint(text, u/uint64(Bit), 10), '.')
	for frac, unit := u%uint64(Bit), uint64(Bit)/10; ; frac, unit = frac%unit, unit/10 {
		text = append(text, '0'+byte(frac/unit))
		if frac%unit == 0 {
			return text
		}
	}
}

// MarshalJSON writes the bits as a JSON number: 671.0, 6.906890596.
func (b Bits) MarshalJSON() ([]byte, error) { return b.Append(nil), nil }

// UnmarshalJSON reads what MarshalJSON writes: a non-negative decimal number
// with at most nine decimals.
func (b *Bits) UnmarshalJSON(text []byte) error {
	parsed, err := ParseBits(string(text))
	if err != nil {
		return err
	}
	*b = parsed
	return nil
}

// ParseBits reads a non-negative decimal number of bits, such as "500" or
// "6.906890596": at most [MaxBits], at most nine decimals, no exponent.
func ParseBits(s string) (Bits, error) {
	n, ok := parseBillionths(s, MaxBits*int64(Bit))
	if !ok {
		return 0, errBits
	}
	return Bits(n), nil
}

// parseBillionths reads a decimal number of at most nine decimals, and no more digits before
// them than the greatest has.
func parseBillionths(s string, most int64) (n int64, ok bool) {
	whole, frac, dotted := strings.Cut(s, ".")
	if whole == "" || len(whole) > len(strconv.FormatInt(most/1_000_000_000, 10)) || dotted && frac == "" || len(frac) > 9 ||
		strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", 9-len(frac)), 10, 64)
	return n, err == nil && n <= most
}

var errBits = fmt.Errorf("bits are a decimal number from 0 to %d with at most nine decimals", MaxBits)

// roundUp turns a scaled logarithm into nano-bits, rounded up once.
func roundUp(log *big.Int) Bits { return Bits(guard.RoundUp(log)) }

// log2Bits returns ceil(log2(n)) in nano-bits.
func log2Bits(n *big.Int) Bits { return roundUp(guard.Log2(n)) }

// ChoiceBits is what a choice among n can tell, n at least 1: log2(n), rounded up.
func ChoiceBits(n int) Bits { return log2Bits(big.NewInt(int64(n))) }

// logUint returns log2 of a small count, scaled.
func logUint(n uint64) *big.Int { return guard.Log2(new(big.Int).SetUint64(n)) }

// floorLog2 returns floor(log2(n)) for n >= 1.
func floorLog2(n uint64) int { return bits.Len64(n) - 1 }
