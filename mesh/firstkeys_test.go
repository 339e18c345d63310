package mesh_test

import (
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Whoever wants the keys of a mesh that has none yet gets the same ones, also when
// several make them at once, as a start and the issue of credentials may.
//
// covers P7.5
func TestFirstKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	const rounds, together = 8, 4
	definition := meshtest.Parse(t, map[string]string{
		"agents/main.md":   "---\nname: main\nbcp_channels:\n  - {peer: mailer, role: controller, max_category: 1, budget_bits: 10}\n---\n",
		"agents/mailer.md": "---\nname: mailer\nbcp_channels:\n  - {peer: main, role: reader}\n---\n",
	})
	for range rounds {
		state := t.TempDir()
		operators := make([]string, together)
		var begin, work sync.WaitGroup
		begin.Add(1)
		for i := range together {
			work.Go(func() {
				begin.Wait()
				store, _, err := mesh.Keys(state, definition)
				if err == nil {
					operators[i], err = store.OperatorKey()
				}
				failIf(t, err != nil, "%v", err)
			})
		}
		begin.Done()
		work.Wait()
		for _, key := range operators {
			stopIf(t, key == "" || key != operators[0], "the keys of operators are %q", operators)
		}
	}
}
