package bcp_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The seeds' figures, exactly.
//
// covers BCP-31, BCP-32, BCP-33, BCP-34, BCP-51, BCP-60, BCP-146, BCP-147, BCP-148, BCP-149, BCP-150, BCP-151, P4.1, P4.2
func TestNominalBitsOfTheSeeds(t *testing.T) {
	t.Parallel()
	ints := func(least, greatest int64) bcp.Field {
		return bcp.Field{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &greatest}
	}
	enum := func(name string, values ...string) bcp.Field {
		return bcp.Field{Name: name, Type: bcp.TypeEnum, Values: values}
	}
	one := func(f bcp.Field) bcp.Spec { return bcp.Spec{Category: 1, Fields: []bcp.Field{f}} }
	ask := func(words ...int) bcp.Spec {
		s := bcp.Spec{Category: 2}
		for i, n := range words {
			s.Questions = append(s.Questions, bcp.Question{ID: string(rune('a' + i)), Question: "What?", MaxWords: n, ExpectedFormat: bcp.FormatShortText})
		}
		return s
	}
	confidence := ints(1, 5)
	confidence.Name = "confidence"
	for _, c := range []struct {
		name string
		spec bcp.Spec
		want string
	}{
		{"the category 1 example", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "is_urgent", Type: bcp.TypeBoolean},
			enum("sentiment", "positive", "neutral", "negative"), confidence, enum("category", "billing", "technical", "legal", "other")}}, "6.906890596"},
		{"a boolean", one(bcp.Field{Name: "b", Type: bcp.TypeBoolean}), "1.0"},
		{"an enum of one", one(enum("e", "x")), "1.0"}, // the least that anything costs,
		{"an enum of three", one(enum("e", "x", "y", "z")), "1.584962501"},
		{"one integer", one(ints(7, 7)), "1.0"},
		{"two integers", one(ints(-1, 0)), "1.0"},
		{"every int64", one(ints(math.MinInt64, math.MaxInt64)), "64.0"},
		{"every int64 but one", one(ints(math.MinInt64, math.MaxInt64-1)), "64.0"}, // 64 - 8e-20, rounded up
		{"the alert", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "has_new_results", Type: bcp.TypeBoolean},
			enum("priority", "low", "medium", "high", "critical")}}, "3.0"},
		{"the category 2 example", ask(5, 4, 30), "429.0"},
		{"the findings", ask(10, 50, 1), "671.0"},
		{"five words", ask(5), "55.0"},
		{"thirty words", ask(30), "330.0"},
		{"the category 3 example", bcp.Spec{Category: 3, Directive: "x", MaxWords: 100}, "1100.0"},
		{"as many words in category 2", ask(100), "1100.0"},
	} {
		v := must(bcp.Compile(c.spec, bcp.Settings{}))
		got := v.Prices().Nominal
		failIf(t, got.String() != c.want, "%s: %s bits, want %s", c.name, got, c.want)
		failed := v.Prices().FailedNominal
		failIf(t, failed > v.Prices().Nominal || failed > bcp.Bit, "%s: a failure costs %s", c.name, failed)
	}
}

// covers P4.1
func TestBitsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bcp.Bits(rapid.Int64Range(0, bcp.MaxBits*int64(bcp.Bit)).Draw(t, "bits"))
		if again, err := bcp.ParseBits(b.String()); err != nil || again != b {
			t.Fatalf("%s reads as %s, %v", b, again, err)
		}
		written, err := json.Marshal(b)
		stopIf(t, err != nil || string(written) != b.String(), "%s in JSON is %s, %v", b, written, err)
		var read bcp.Bits
		if err := json.Unmarshal(written, &read); err != nil || read != b {
			t.Fatalf("%s in JSON reads as %s, %v", written, read, err)
		}
	})
	for in, want := range map[string]string{"0": "0.0", "500": "500.0", "6.9": "6.9", "0.000000001": "0.000000001", "1000000000": "1000000000.0"} {
		got, err := bcp.ParseBits(in)
		failIf(t, err != nil || got.String() != want, "%q reads as %s, %v", in, got, err)
	}
	for _, bad := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "0.0000000001", "1000000000.000000001", "1000000001", "99999999999", "NaN", "Inf", "0x1", "١"} {
		got, err := bcp.ParseBits(bad)
		failIf(t, err == nil, "%q reads as %s", bad, got)
	}
	expect(t, bcp.Bits(math.MinInt64).String(), "-9223372036.854775808", "the least figure is written as")
}

func TestBitsWords(t *testing.T) {
	t.Parallel()
	for bits, want := range map[bcp.Bits]string{
		0: "0 bits", 1: "0.1 bits", bcp.Bit: "1 bit", bcp.Bit + 1: "1.1 bits", 2 * bcp.Bit: "2 bits", 6906890596: "7 bits", 671 * bcp.Bit: "671 bits",
	} {
		expect(t, bits.Words(), want, "%d nano-bits", bits)
	}
}
