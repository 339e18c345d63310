package mesh

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// An alert is told when it gets worse, and again when it comes back.
//
// covers P4.6
func TestWorse(t *testing.T) {
	t.Parallel()
	const low, critical = bcp.AlertDiskLow, bcp.AlertDiskCritical
	for _, c := range []struct {
		before, now bcp.AlertKind
		want        bool
	}{
		{"", "", false}, {"", low, true}, {"", critical, true}, {low, "", false}, {low, low, false}, {low, critical, true},
		{critical, "", false}, {critical, low, false}, {critical, critical, false},
	} {
		got := isWorse(c.before, c.now)
		failIf(t, got != c.want, "%q behind %q: %v", c.now, c.before, got)
	}
}
