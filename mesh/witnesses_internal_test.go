package mesh

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// What a witness has refused stays refused while nobody reaches it: who keeps it away from the
// mesh opens nothing.
//
// covers P11.6, A-ROLLBACK
func TestWitnessThatRefusedIsNotForgotten(t *testing.T) {
	t.Parallel()
	marks := must(gateway.OpenMarks(filepath.Join(t.TempDir(), "set-back"), make([]byte, 32)))
	w := newWitnesses(Config{Definition: &bcp.Mesh{}, Witnesses: []*Witness{{Name: "one"}}}, Tree(t.TempDir()), marks, func(bcp.AlertKind) {}, hclog.NewNullLogger())
	for _, c := range []struct {
		failed map[string]uncosigned
		want   gateway.Closing
	}{
		{nil, gateway.Open},
		{map[string]uncosigned{"one": {ErrRolledBack, 9}}, gateway.ClosedToAll},
		{map[string]uncosigned{"one": {errors.New("unreachable"), 0}}, gateway.ClosedToAll},
		{nil, gateway.Open},
	} {
		if w.recordFailures(c.failed); w.closed() != c.want {
			t.Errorf("after %v: %v", c.failed, w.closed())
		}
	}
}
