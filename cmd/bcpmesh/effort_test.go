package main

import (
	"strings"
	"testing"
)

// No step of CI leaves tests out.
func TestCILeavesNoTestOut(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"../../.ci/run", "../../.ci/nightly"} {
		for n, line := range strings.Split(string(readFile(t, program)), "\n") {
			code, _, _ := strings.Cut(line, "#")
			failIf(t, strings.Contains(code, "-short"), "%s:%d: -short leaves tests out", program, n+1)
		}
	}
}
