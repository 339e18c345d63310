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
			if code, _, _ := strings.Cut(line, "#"); strings.Contains(code, "-short") {
				t.Errorf("%s:%d: -short leaves tests out", program, n+1)
			}
		}
	}
}
