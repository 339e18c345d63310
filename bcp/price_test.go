package bcp_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func TestUSD(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bcp.USD{
		"0": 0, "0.000000001": 1, "2.50": 2_500_000_000, "10": 10 * bcp.Dollar, "1000000": bcp.MaxUSD, "0.10": bcp.Dollar / 10,
	} {
		got, err := bcp.ParseUSD(text)
		failIf(t, err != nil || got != want, "%q is %d, %v", text, got, err)
	}
	for _, text := range []string{"", "1e3", "1000000.000000001", "12345678"} { // the other forms are those of bits: TestBitsText
		got, err := bcp.ParseUSD(text)
		failIf(t, !errors.Is(err, bcp.ErrUSD), "%q is %d", text, got)
	}
	for amount, want := range map[bcp.USD]string{0: "0", 1: "0.000000001", -1: "-0.000000001", 2_500_000_000: "2.5", math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808"} {
		got := amount.String()
		failIf(t, got != want, "%d is written %s", amount, got)
	}
}

// What tokens cost is the exact product, rounded up, whatever a provider says that it counted.
//
// covers P15.3
func TestPriceOf(t *testing.T) {
	t.Parallel()
	haiku, ok := bcp.ListPrice("anthropic", "claude-haiku-4-5-20251001")
	stopIf(t, !ok || haiku != (bcp.Price{Input: bcp.Dollar, CacheRead: bcp.Dollar / 10, CacheWrite: bcp.Dollar * 5 / 4, Output: 5 * bcp.Dollar}),
		"%+v", haiku)
	for _, c := range []struct {
		of   bcp.Tokens
		want bcp.USD
	}{
		{bcp.Tokens{}, 0},
		{bcp.Tokens{Input: 1}, 1000},
		{bcp.Tokens{Input: 1000, CacheRead: 1000, CacheWrite: 1000, Output: 1000}, 1_000_000 + 100_000 + 1_250_000 + 5_000_000},
		{bcp.Tokens{Input: -5, Output: -1}, 0},
		{bcp.Tokens{Input: math.MaxInt64, Output: math.MaxInt64}, math.MaxInt64},
	} {
		got := haiku.Of(c.of)
		failIf(t, got != c.want, "%+v costs %d, not %d", c.of, got, c.want)
	}
	got := (bcp.Price{Input: 1}).Of(bcp.Tokens{Input: 1})
	failIf(t, got != 1, "a millionth of a billionth costs %d", got)
	sum := (bcp.Tokens{Input: math.MaxInt64, Output: 1, CacheRead: -9}).Sum()
	failIf(t, sum != math.MaxInt64, "%v", sum)
	usd, tokens := haiku.AtMost(976, 100)
	failIf(t, tokens != 2100 || usd != 2000*1250+100*5000, "at most %d and %d tokens", usd, tokens)
	usd, tokens = haiku.AtMost(math.MaxInt64, math.MaxInt64)
	failIf(t, tokens != math.MaxInt64 || usd != math.MaxInt64, "at most %d and %d tokens", usd, tokens)
	rapid.Check(t, func(t *rapid.T) {
		n, price := rapid.Int64().Draw(t, "tokens"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "price")
		exact := new(big.Int).Mul(big.NewInt(max(0, n)), big.NewInt(price))
		exact.Add(exact, big.NewInt(999_999)).Div(exact, big.NewInt(1_000_000))
		if exact.Cmp(big.NewInt(math.MaxInt64)) > 0 {
			exact = big.NewInt(math.MaxInt64)
		}
		got := (bcp.Price{Output: bcp.USD(price)}).Of(bcp.Tokens{Output: n})
		stopIf(t, int64(got) != exact.Int64(), "%d tokens at %d cost %d, not %s", n, price, got, exact)
	})
}

func TestListPrice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ollama/anything", "script/x", "replay/x", "gullible/gullible"} {
		provider, model, _ := strings.Cut(name, "/")
		p, ok := bcp.ListPrice(provider, model)
		failIf(t, !ok || p != (bcp.Price{}), "%s: %+v", name, p)
	}
	for _, name := range []string{"openai/qwen", "anthropic/", "other/gpt-5", "openai/gpt-5-latest", "openai/gpt-5-2025"} {
		provider, model, _ := strings.Cut(name, "/")
		p, ok := bcp.ListPrice(provider, model)
		failIf(t, ok, "%s: %+v", name, p)
	}
	p, ok := bcp.ListPrice("openai", "gpt-5-mini-2025-08-07")
	failIf(t, !ok || p.CacheRead != bcp.Dollar/40 || p.CacheWrite != bcp.Dollar/4, "%+v", p)
	_, err := time.Parse(time.DateOnly, bcp.PriceDate())
	failIf(t, err != nil, "%v", err)
}

// A sum is never less than its parts.
func TestPlus(t *testing.T) {
	t.Parallel()
	got := bcp.Plus(int64(1<<63-2), 1)
	failIf(t, got != 1<<63-1 || bcp.Plus(got, 1) != got, "a sum has overflowed: %d", got)
}
