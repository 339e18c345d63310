package mesh_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
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
	var serves atomic.Pointer[meshtest.Witness]
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if w := serves.Load(); w != nil {
			w.ServeHTTP(out, in)
			return
		}
		out.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	var peers []*mesh.Witness
	m := meshtest.Prepare(t, files, func(c *mesh.Config) {
		c.Witnesses = peers
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	err := m.TryStart(t)
	stopIf(t, !errors.Is(err, mesh.ErrRequireWitness), "without a witness: %v", err)
	_, _, err = mesh.Keys(m.State, m.Definition)
	noError(t, err)
	key := must(mesh.CheckpointKey(m.State))
	w := must(meshtest.NewWitness("witness.example/one", key.Public))
	peer := must(mesh.ParseWitness(w.Key+"="+server.URL, nil))
	peers = []*mesh.Witness{peer}
	m.Start(t)
	main := controller(t, m, "main")
	coded(t, main.Ask(t, "mailer", askUrgent), bcp.Unavailable, "before the first cosignature")
	m.Stop(t)
	serves.Store(w)
	m.Start(t) // the checkpoint of the end is there, and cosigned before anybody is served
	main = controller(t, m, "main")
	main.Accepted(t, "mailer", askUrgent)
	later.Store(int64(time.Hour + time.Minute))
	coded(t, main.Ask(t, "mailer", askUrgent), bcp.Unavailable, "after an hour")
}

// A mesh of whose journal a witness has seen more releases nothing: no answer to a query
// that was open, no ask and no push. The operator has it go on, which is recorded first,
// and holds up to what the witness has seen.
//
// covers P11.6, A-ROLLBACK
func TestRolledBack(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if seen.Load() == 0 {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		out.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(out, "%d\n", seen.Load())
	}))
	t.Cleanup(server.Close)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	noError(t, err)
	peer := must(mesh.ParseWitness(verify.CosignerKey("witness.example/one", public)+"="+server.URL, nil))
	accept := false
	m := meshtest.Start(t, pair(1000), func(c *mesh.Config) { c.Witnesses, c.AcceptRollback = []*mesh.Witness{peer}, accept })
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer") // one that is away stops nothing
	main.Accepted(t, "mailer", askUrgent)
	mailer.queries.Next(t)
	m.Stop(t)

	seen.Store(1 << 20)
	m.Start(t)
	main, mailer = controller(t, m, "main"), reader(t, m, "mailer")
	before := len(m.Decisions())
	mailer.Answer(t, mailer.queries.Next(t), isUrgent) // on the reply subject of its sending
	coded(t, mailer.result(t), bcp.Unavailable, "an answer")
	coded(t, mailer.Push(t, "main", "alerts", `{"urgent":true}`, ""), bcp.Unavailable, "a push")
	coded(t, main.Ask(t, "mailer", askUrgent), bcp.Unavailable, "an ask")
	for _, d := range m.Decisions()[before:] {
		failIf(t, d.Kind == bcp.KindAnswer || d.Kind == bcp.KindPush || d.Kind == bcp.KindAsk || d.Delivery != "",
			"decided: %v", d.Kind)
	}
	m.Stop(t)

	accept = true
	m.Start(t)
	accepted := slices.ContainsFunc(m.Decisions(), func(d bcp.Decision) bool { return d.Event == string(bcp.AlertRollbackAccepted) })
	holds(t, accepted, "it serves, and no record says that the rollback was accepted")
	mailer = reader(t, m, "mailer")
	mailer.Answer(t, mailer.queries.Next(t), isUrgent)
	mailer.result(t)
	m.Stop(t)

	accept = false
	m.Start(t)
	main = controller(t, m, "main")
	main.Accepted(t, "mailer", askUrgent)
	m.Stop(t)

	seen.Add(1) // more than was accepted
	m.Start(t)
	main = controller(t, m, "main")
	coded(t, main.Ask(t, "mailer", askUrgent), bcp.Unavailable, "an ask")
}
