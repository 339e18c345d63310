package bcp

import (
	"errors"
	"math"
	"math/bits"
	"strings"
)

// USD is an amount in billionths of a US dollar.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1_000_000_000

// ErrUSD says that a text is no amount.
var ErrUSD = errors.New("expected a number of US dollars with at most nine decimals")

// MaxUSD is the greatest amount that [ParseUSD] reads.
const MaxUSD = 1_000_000 * Dollar

// ParseUSD reads a decimal number from 0 to a million with at most nine decimals.
func ParseUSD(text string) (USD, error) {
	n, ok := parseBillionths(text, int64(MaxUSD))
	if !ok {
		return 0, ErrUSD
	}
	return USD(n), nil
}

// String returns the amount in dollars, without a sign for them: "0.0125".
func (u USD) String() string { return strings.TrimSuffix(Bits(u).String(), ".0") }

// MarshalJSON writes the amount as a decimal number.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads what MarshalJSON writes of amounts that [ParseUSD] takes.
func (u *USD) UnmarshalJSON(text []byte) error {
	parsed, err := ParseUSD(string(text))
	if err == nil {
		*u = parsed
	}
	return err
}

// Price is what a million tokens of each kind cost. The zero value is free.
type Price struct {
	Input, CacheRead, CacheWrite, Output USD
}

// Tokens are those of one call, by what they cost. Less than none counts as none.
type Tokens struct {
	Input      int64 `json:"input_tokens,omitzero"`
	CacheRead  int64 `json:"cache_read_tokens,omitzero"`
	CacheWrite int64 `json:"cache_write_tokens,omitzero"`
	Output     int64 `json:"output_tokens,omitzero"`
}

// Sum returns the number of all tokens, up to the greatest there is.
func (t Tokens) Sum() int64 {
	return Plus(Plus(max(0, t.Input), max(0, t.CacheRead)), Plus(max(0, t.CacheWrite), max(0, t.Output)))
}

// Of returns what tokens cost, rounded up, up to the greatest amount there is.
func (p Price) Of(t Tokens) USD {
	return Plus(Plus(charge(t.Input, p.Input), charge(t.CacheRead, p.CacheRead)), Plus(charge(t.CacheWrite, p.CacheWrite), charge(t.Output, p.Output)))
}

// CallOverhead is what a provider adds to a request of so many bytes, at most, in tokens.
const CallOverhead = 1024

// AtMost returns what a call may take whose request has so many bytes: a token is seldom
// less than a byte.
func (p Price) AtMost(requestBytes, maxOutput int64) (USD, int64) {
	input := Plus(max(0, requestBytes), CallOverhead)
	dearest := max(p.Input, p.CacheRead, p.CacheWrite)
	return Plus(charge(input, dearest), charge(maxOutput, p.Output)), Plus(input, max(0, maxOutput))
}

// charge returns what tokens cost at a price of a million.
func charge(tokens int64, price USD) USD {
	const million = 1_000_000
	if tokens <= 0 || price <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(tokens), uint64(price))
	low, carry := bits.Add64(low, million-1, 0)
	if high += carry; high >= million {
		return math.MaxInt64
	}
	amount, _ := bits.Div64(high, low, million)
	return USD(min(amount, math.MaxInt64)) //nolint:gosec // it is no greater
}

// Plus adds amounts of no less than none, up to the greatest there is.
func Plus[T ~int64](a, b T) T {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
