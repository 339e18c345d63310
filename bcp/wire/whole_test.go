package wire_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Whole numbers of a model are those of JSON Schema, in the wire's spelling; nothing else changes.
//
// covers P2.2
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"12.0": "12", "12.000": "12", "1.2e1": "12", "1.2E+1": "12", "120e-1": "12", "-12.0": "-12", "0.0": "0", "-0": "0", "-0.0": "0", "0e9": "0", "0.00e-9": "0", "1e3": "1000",
		"100.0": "100", "1000e-2": "10", "1e0": "1", "9007199254740993.0": "9007199254740993", "9223372036854775807.0": "9223372036854775807",
		"12": "12", "-5": "-5", "12.5": "12.5", "1e-1": "1e-1", "105e-1": "105e-1", "1e99": "1e99", "1e400": "1e400", "1e-400": "1e-400", "1.5e0": "1.5e0",
		`{"a":12.0,"b":"12.0","c":[1.0,2.5]}`: `{"a":12,"b":"12.0","c":[1,2.5]}`, `{"a\"":"\\","x1.0":1.0}`: `{"a\"":"\\","x1.0":1}`, `"1.0`: `"1.0`,
		"1.": "1.", "01.0": "01.0", ".0": ".0", "1.0.0": "1.0.0", "1e": "1e", "-": "-", "": "",
	} {
		if got := string(wire.WholeNumbers([]byte(in))); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

// FuzzWholeNumbers: a number has the same value, and JSON stays JSON.
func FuzzWholeNumbers(f *testing.F) {
	for _, text := range []string{"12.0", "1e9", "-0.0e3", `{"a":[1.50]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := string(wire.WholeNumbers([]byte(text)))
		if jsontext.Value(text).IsValid() != jsontext.Value(got).IsValid() {
			t.Fatalf("%q is %q", text, got)
		}
		v := jsontext.Value(text)
		if !v.IsValid() || v.Kind() != '0' || len(text) > 40 || strings.ContainsAny(text, "eE") && len(text) > 8 {
			return
		}
		want, _ := new(big.Rat).SetString(strings.TrimSpace(text))
		have, _ := new(big.Rat).SetString(strings.TrimSpace(got))
		if want.Cmp(have) != 0 || want.IsInt() && want.Num().IsInt64() && strings.ContainsAny(got, ".eE") && !strings.ContainsAny(text, "eE") {
			t.Fatalf("%s is %s", text, got)
		}
	})
}
