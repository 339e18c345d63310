package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Two meshes whose agents have the same names live on one cluster of three stock nodes, each
// with accounts and streams of its own. The second came there as a backup of a mesh of one
// process, beside the traffic of the first. A node is killed, and both go on; no permission of
// one reaches the other, as the proof says and as everybody in both finds who tries.
//
// covers P1.5, P4.3, A-WILD, A-SYS
func TestTwoMeshesOnACluster(t *testing.T) {
	desk, lab := writeClusterDesk(t), writeClusterDesk(t)
	desk.exported, lab.exported = newExported(t, desk.dir), newExported(t, lab.dir)

	_, end := startMesh(t, lab.dir, "--state", lab.keys)
	lab.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
	end()
	backup := filepath.Join(t.TempDir(), "lab.tar.gz")
	lab.says(cli.ExitOK, "backup "+backup, "backed up")

	for _, x := range []*clusterMesh{desk, lab} {
		x.edit("name: desk", "name: desk\nreplicas: 3")
	}
	desk.export("--guest", "lab")
	lab.files = filepath.Join(desk.files, keys.GuestsFolder, "lab")
	lab.export()
	desk.serve(strconv.Quote(filepath.Join(lab.files, "operator.jwt")))
	lab.cluster = desk.cluster
	t.Cleanup(desk.gateway("one"))
	desk.push(cli.ExitOK, keys.ExportedSystem, "--wait", "60s")

	stop, pushed := make(chan struct{}), atomic.Int64{}
	var pushing sync.WaitGroup
	pushing.Go(func() {
		for {
			desk.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
			pushed.Add(1)
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // or the budget would be spent
			}
		}
	})
	first, _ := lab.push(cli.ExitPartly, keys.ExportedSystem, "--wait", "100ms")
	failIf(t, len(first.Servers) != 3 || len(first.Updated) == 0, "the guest's accounts: %+v", first)
	t.Chdir(lab.dir)
	r := execute(t, "", "restore", backup, "--url", lab.cluster.URL(), "--creds", filepath.Join(lab.files, keys.GatewaysFolder, "one"))
	stopIf(t, r.code != cli.ExitOK, "restore: %s", r.stderr)
	t.Cleanup(lab.gateway("one"))
	lab.push(cli.ExitOK, keys.ExportedSystem, "--wait", "60s")
	lab.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)

	desk.cluster.Kill(t, 2)
	lab.says(cli.ExitOK, `publish main alerts {"urgent":false} --as mailer --wait 90s`)
	for before := pushed.Load(); pushed.Load() < before+2 && !t.Failed(); time.Sleep(10 * time.Millisecond) {
	}
	desk.cluster.Restart(t, 2)
	desk.cluster.AwaitHealthy(t)
	close(stop)
	pushing.Wait()
	for x, n := range map[*clusterMesh]int64{desk: pushed.Load(), lab: 3} { // a push is a bit
		x.comesToSay("ledger show", fmt.Sprintf("main ← mailer nominal 3000 %d 0 %d %d", n, 3000-n, n))
	}

	prove := []string{"perms", "--prove", "--trust", "gateway", "--trust", "monitor", "--trust", "push", "--jwts", desk.accounts}
	for _, x := range []*clusterMesh{desk, lab} {
		prove = append(prove, "--jwts", filepath.Join(x.files, "operator.jwt"))
		_, talk := x.push(cli.ExitFailed, filepath.Join(keys.GatewaysFolder, "one", server.SystemCreds))
		failIf(t, !strings.Contains(talk, "these creds may not push"), "a gateway pushes: %s", talk)
	}
	if r := execute(t, "", prove...); r.code != cli.ExitOK || !lineWith("meshes no account of one mesh leads into another mesh proven").MatchString(r.stdout) {
		t.Errorf("the proof: %d %s%s", r.code, r.stdout, r.stderr)
	}
	reachNothing(t, map[string]*clusterMesh{"desk": desk, "lab": lab})
}

// reachNothing has everybody of each mesh listen to and publish on all that anybody of a
// mesh may, and on what is the servers'. Nobody hears another mesh, and each hears its own.
func reachNothing(t *testing.T, meshes map[string]*clusterMesh) {
	t.Helper()
	var mu sync.Mutex
	heard := map[string]int{} // by the mesh that hears and what is said
	type party struct {
		conn   *nats.Conn
		says   []string
		mesh   string
		silent bool
	}
	var parties []party
	for name, x := range meshes {
		def := must(meshdir.Folder{Dir: x.dir}.Load())(t)
		all := []string{"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.USER.INFO", subjects.UpdateClaims, subjects.PackClaims, "$SYS.ACCOUNT.x.CONNECT", "$JS.API.INFO", "_INBOX.x", "_R_.x", "x"}
		hears := []string{">", "$SYS.>", "$JS.>", "$KV.>", "_INBOX.>", "_R_.>", "*.>"}
		scopes := subjects.Permissions(def)
		for _, s := range scopes {
			hears = append(hears, s.SubAllow...)
			for _, subject := range append(s.PubAllow, s.SubAllow...) {
				all = append(all, strings.NewReplacer("*", "x", ">", "x").Replace(subject))
			}
		}
		join := func(options ...nats.Option) {
			conn := must(nats.Connect(x.cluster.NodeURL(0), append(options, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...))(t)
			t.Cleanup(conn.Close)
			for _, subject := range hears {
				must(conn.Subscribe(subject, func(m *nats.Msg) {
					mu.Lock()
					defer mu.Unlock()
					for of := range meshes {
						if strings.Contains(string(m.Data), "said in "+of) {
							heard[name+" hears "+of]++
						}
					}
				}))(t)
			}
			parties = append(parties, party{conn: conn, mesh: name, says: all})
		}
		for _, s := range scopes {
			creds := must(x.store().Issue(s.Agent, s.Role, time.Hour))(t)
			join(nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(s.Agent)))
		}
		join(nats.UserCredentials(filepath.Join(x.files, keys.GatewaysFolder, "one", server.CoreCreds)))
		parties[len(parties)-1].silent = true // it may write into its own journal
	}
	flush := func() {
		for _, p := range parties {
			noError(t, p.conn.FlushTimeout(time.Minute))
		}
	}
	flush()
	for _, p := range parties {
		for _, subject := range p.says {
			if !p.silent {
				noError(t, p.conn.PublishRequest(subject, subjects.InboxPrefix(bcp.AgentName("main"))+".x", []byte("said in "+p.mesh)))
			}
		}
	}
	flush() // the servers have taken all
	flush() // and what they sent is here
	for _, p := range parties {
		noError(t, p.conn.Drain())
	}
	for _, p := range parties {
		for !p.conn.IsClosed() {
			time.Sleep(time.Millisecond) // what has come is handled
		}
	}
	mu.Lock()
	defer mu.Unlock()
	failIf(t, len(heard) != len(meshes) || heard["desk hears desk"] == 0 || heard["lab hears lab"] == 0,
		"who hears whom: %v", heard)
}
