package agents

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// Whoever makes up reasons does not fill a log: so many are told, then it is said that
// there are more, and then nothing.
//
// covers P2.5
func TestReasonsThatAreTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := newConnection(Options{Name: "researcher", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	tell := func(from, to int) {
		for n := from; n < to; n++ {
			for range 2 {
				a.tellRefused("an answer", "validation_failed", fmt.Sprintf("field-%d: is missing", n))
			}
		}
	}
	tell(0, maxTold)
	n := strings.Count(log.String(), "\n")
	failIf(t, n != maxTold || strings.Contains(log.String(), "not told"), "%d reasons are told in %d lines", maxTold, n)
	tell(maxTold, maxTold+1)
	tell(0, maxTold+100)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != maxTold+1 || !strings.Contains(lines[maxTold], "more goes wrong") || len(a.told.reasons) > maxTold+1 {
		t.Errorf("%d lines, the last of which is %q; %d are kept", len(lines), lines[len(lines)-1], len(a.told.reasons))
	}
}

func TestToldTextsAreShort(t *testing.T) {
	t.Parallel()
	for _, n := range []int{maxToldText, maxToldText + 1} {
		text := strings.Repeat("é", n)
		if got := string(bounded(text)); (got == text) != (n == maxToldText) || len([]rune(got)) > maxToldText+1 {
			t.Errorf("%d characters become %d", n, len([]rune(got)))
		}
	}
}
