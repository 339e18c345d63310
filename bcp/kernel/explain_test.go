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
		failIf(t, len(text) < 20 || !strings.HasSuffix(text, "."), "%s is explained as %q", c, text)
		expect(t, seen[text], "", "%s is explained as another", c)
		seen[text] = c
	}
	failIf(t, kernel.Explain("") != "" || kernel.Explain("no_such_code") != "", "what is no code is explained")
}

// A request is refused in words of its own: no plan was too large or malformed.
//
// covers KER-31
func TestRefusalsOfRequestsSpeakOfNoPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []kernel.Code{kernel.TooLarge, kernel.Malformed} {
		text := kernel.ExplainRefusal(c)
		failIf(t, !strings.HasPrefix(text, "The request ") || strings.Contains(text, "plan"), "%s is explained as %q", c, text)
	}
	for _, c := range []kernel.Code{kernel.BadRule, kernel.UnknownRun} {
		got, want := kernel.ExplainRefusal(c), kernel.Explain(c)
		failIf(t, got != want, "%s is explained as %q", c, got)
	}
}
