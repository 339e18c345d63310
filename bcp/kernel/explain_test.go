package kernel_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// Each code is explained to people, in a sentence of its own.
//
// covers KER-31
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	seen := map[string]kernel.Code{}
	for _, c := range kernel.Codes() {
		text := kernel.Explain(c)
		if len(text) < 20 || !strings.HasSuffix(text, ".") {
			t.Errorf("%s is explained as %q", c, text)
		}
		if other := seen[text]; other != "" {
			t.Errorf("%s and %s are explained alike", c, other)
		}
		seen[text] = c
	}
	if kernel.Explain("") != "" || kernel.Explain("no_such_code") != "" {
		t.Error("what is no code is explained")
	}
}
