package mesh_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// All signing keys of agents are replaced in the middle of what they say. Files that
// the old ones signed are good until the overlap ends and not after; agents that are
// given new ones meanwhile lose nothing.
//
// covers A-REVOKED, A-RECONN, P4.5, P9.1, P11.1
func TestKeysOfAgentsAreReplacedUnderTraffic(t *testing.T) {
	t.Parallel()
	files := pair(1_000_000)
	files["mesh.yaml"] = "max_refusals: 6000/m\n"
	m := meshtest.Start(t, files)
	store, owner := keysOf(t, m), operator(t, m)
	ctx := within(t, 2*meshtest.Patience)
	old := map[bcp.AgentName]accounts.Creds{"main": issued(t, store, "main", bcp.RoleController), "mailer": issued(t, store, "mailer", bcp.RoleReader)}
	clients := map[bcp.AgentName]*agents.Connection{}
	folder := t.TempDir()
	for name, creds := range old {
		file := filepath.Join(folder, string(name))
		noError(t, creds.WriteFile(file))
		c := must(agents.Connect(ctx, m.URL(), agents.CredsFile(file), agents.Options{Name: name}))
		t.Cleanup(c.Close)
		clients[name] = c
	}
	all := startTraffic(ctx, t, m, clients["main"], clients["mailer"])
	end := time.Now().Add(4 * time.Second)
	must(store.RotateAccounts(4 * time.Second))
	must(owner.ApplyCredentials(ctx))
	if time.Now().Before(end) {
		_, err := dial(t, m, "mailer", old["mailer"])
		failIf(t, err != nil && time.Now().Before(end), "in the overlap: %v", err)
	}
	for name := range old {
		next := must(store.Issue(name, 0, 0))
		noError(t, next.ReplaceFile(filepath.Join(folder, string(name))))
		m.Wait(t, func(d *bcp.Decision) bool { return d.Kind == bcp.KindConnect && d.Key == next.PublicKey })
	}
	for name, creds := range old {
		for deadline := time.Now().Add(meshtest.Patience); ; {
			if _, err := dial(t, m, name, creds); errors.Is(err, nats.ErrAuthorization) {
				break
			}
			stopIf(t, time.Now().After(deadline), "the old ones of %s are taken behind the overlap", name)
			time.Sleep(100 * time.Millisecond)
		}
	}
	all.check(ctx, t, m)
	for name := range old {
		n := m.Count(func(d *bcp.Decision) bool { return credentialAct(bcp.CredentialScope, "")(d) && d.Target == name })
		failIf(t, n != 1, "%d records of the keys of %s", n, name)
	}
}
