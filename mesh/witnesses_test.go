package mesh_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream/witness"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// Where the definitions require a witness, nothing new is let through until one has
// cosigned, nor once the newest cosignature is too old; a mesh that requires none serves
// on.
//
// covers P11.6
func TestRequireWitness(t *testing.T) {
	t.Parallel()
	files := pair(1000)
	files["mesh.yaml"] = "require_witness: 1h\n"
	var later atomic.Int64 // how far the mesh's clock is ahead
	var serves atomic.Pointer[witness.Witness]
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if w := serves.Load(); w != nil {
			w.ServeHTTP(out, in)
			return
		}
		out.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	var peers []*witness.Peer
	m := meshtest.Prepare(t, files, func(c *mesh.Config) {
		c.Witnesses = peers
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	if err := m.TryStart(t); !errors.Is(err, mesh.ErrRequireWitness) {
		t.Fatalf("without a witness: %v", err)
	}
	if _, _, err := mesh.Keys(m.State, m.Definition); err != nil {
		t.Fatal(err)
	}
	key, err := mesh.CheckpointKey(m.State, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := witness.Open(t.TempDir(), witness.Options{Logs: []string{key.Public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	peer, err := witness.ParsePeer(w.Key()+"="+server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	peers = []*witness.Peer{peer}
	m.Start(t)
	main := controller(t, m, "main")
	if reply := main.Ask(t, "mailer", askUrgent); reply.Text("error") != string(bcp.Unavailable) {
		t.Errorf("before the first cosignature: %v", reply)
	}
	m.Stop(t)
	serves.Store(w)
	m.Start(t) // the checkpoint of the end is there, and cosigned before anybody is served
	main = controller(t, m, "main")
	main.Accepted(t, "mailer", askUrgent)
	later.Store(int64(time.Hour + time.Minute))
	if reply := main.Ask(t, "mailer", askUrgent); reply.Text("error") != string(bcp.Unavailable) {
		t.Errorf("after an hour: %v", reply)
	}
}
