package attach

import (
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// covers A-CRASH
func TestAside(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if got := readAside(state, "a"); got != nil {
		t.Errorf("%q", got)
	}
	if err := writeAside(state, "a", nil); err != nil {
		t.Error(err)
	}
	for _, inputs := range [][]string{{"1"}, {"1", "2"}} {
		bcptest.NoError(t, writeAside(state, "a", inputs))
		if got := readAside(state, "a"); !slices.Equal(got, inputs) {
			t.Errorf("%q, want %q", got, inputs)
		}
	}
	if got := readAside(state, "b"); got != nil {
		t.Errorf("another agent has %q", got)
	}
}
