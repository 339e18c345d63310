package kernel

import (
	"math"
	"math/big"
	"strconv"
)

// Width bounds how many values a type has, as whole bits rounded up: a type of
// width w has at most 2^w values. It is also how much of a value content can have
// chosen (its influence).
type Width uint32

// Unbounded is the width of a type whose values are not counted.
const Unbounded Width = math.MaxUint32

// add returns the sum, or Unbounded.
func (w Width) add(o Width) Width {
	if sum := w + o; w != Unbounded && o != Unbounded && sum >= w {
		return sum
	}
	return Unbounded
}

// fact is the width as rules see it: an integer.
func (w Width) fact() int64 {
	if w == Unbounded {
		return math.MaxInt64
	}
	return int64(w)
}

const (
	// charBits bounds the code points of a text: there are fewer than 2^21, and one
	// more for "no further one".
	charBits = 21
	// maxDates bounds the dates of four digits for the year.
	maxDates = 10_000 * 366
	// maxCountBits is where counting ends: what has more values is unbounded.
	maxCountBits = 1 << 20
)

// count returns the number of values of a type, or nil if there is no bound or
// a very large one.
func (t *Type) count() *big.Int {
	n := t.countNonNull()
	if n != nil && t.Nullable {
		n = n.Add(n, one)
	}
	return bounded(n)
}

var one = big.NewInt(1)

func bounded(n *big.Int) *big.Int {
	if n == nil || n.BitLen() > maxCountBits {
		return nil
	}
	return n
}

func (t *Type) countNonNull() *big.Int {
	switch t.Kind {
	case BooleanType:
		return big.NewInt(2)
	case EnumType:
		return big.NewInt(int64(len(t.Values)))
	case IntegerType:
		if t.Min == nil || t.Max == nil {
			return nil
		}
		n := new(big.Int).Sub(big.NewInt(*t.Max), big.NewInt(*t.Min))
		return n.Add(n, one)
	case StringType:
		longest := t.longest()
		switch {
		case t.Format == Date:
			return big.NewInt(maxDates)
		case longest == 0 || longest > maxCountBits/charBits:
			return nil
		}
		return new(big.Int).Lsh(one, uint(longest*charBits))
	case ArrayType:
		return t.countLists()
	case ObjectType:
		n := big.NewInt(1)
		for i := range t.Fields {
			f := t.Fields[i].Type.count()
			if f == nil || n == nil {
				return nil
			}
			if t.Fields[i].Optional {
				f = f.Add(f, one)
			}
			n = bounded(n.Mul(n, f))
		}
		return n
	default:
		return nil
	}
}

// countLists returns the sum of c^k for k from 0 to the longest list.
func (t *Type) countLists() *big.Int {
	c := t.Items.count()
	if c == nil || !t.Limited || t.MaxItems > 0 && c.BitLen()*t.MaxItems > maxCountBits {
		return nil
	}
	n, power := big.NewInt(1), big.NewInt(1)
	for range t.MaxItems {
		power = new(big.Int).Mul(power, c)
		n.Add(n, power)
	}
	return n
}

// log2 returns log2(n) as whole bits, rounded up.
func log2(n *big.Int) Width {
	switch {
	case n == nil:
		return Unbounded
	case n.Sign() <= 0:
		return 0
	default:
		return Width(new(big.Int).Sub(n, one).BitLen())
	}
}

// String returns the number of bits, or "unbounded" in quotes: JSON.
func (w Width) String() string {
	if w == Unbounded {
		return `"unbounded"`
	}
	return strconv.FormatUint(uint64(w), 10)
}

// MarshalJSON writes what String returns.
func (w Width) MarshalJSON() ([]byte, error) { return []byte(w.String()), nil }
