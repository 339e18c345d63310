package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
)

// A stock server takes the example of a node as it is exported, but for its folders,
// and runs it as a mesh needs it: with the mesh's operator, each write on the disk
// before it is acknowledged, and nothing open beyond loopback.
//
// covers P4.5, A-SYS
func TestExampleOfANodeIsTakenByAServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dir, out := filepath.Join(folder, "desk"), filepath.Join(folder, "cluster")
	for _, args := range [][]string{{"init", dir}, {"accounts", "export", dir, "--out", out}} {
		succeed(t, args...)
	}
	for _, name := range []string{keys.ExportedNode, keys.ExportedResolver} {
		file := filepath.Join(out, name)
		content := readFile(t, file)
		moved := strings.ReplaceAll(string(content), "/var/lib/nats", folder)
		stopIf(t, moved == string(content), "%s names no folder", name)
		noError(t, os.WriteFile(file, []byte(moved), 0o600))
	}
	o := must(natsserver.ProcessConfigFile(filepath.Join(out, keys.ExportedNode)))(t)
	failIf(t, !o.JetStream || !o.SyncAlways || o.MaxPayload != 1<<20 || o.ProxyProtocol || o.LeafNode.Port != 0 || o.Websocket.Port != 0 || o.MQTT.Port != 0,
		"%+v", o)
	for name, host := range map[string]string{"clients": o.Host, "monitoring": o.HTTPHost, "routes": o.Cluster.Host} {
		expect(t, host, "127.0.0.1", "%s come to", name)
	}
	failIf(t, len(o.TrustedOperators) != 1 || !o.TrustedOperators[0].StrictSigningKeyUsage || o.SystemAccount != o.TrustedOperators[0].SystemAccount,
		"it trusts somebody else")
	_, ok := o.AccountResolver.(*natsserver.DirAccResolver)
	failIf(t, !ok, "it keeps accounts in %T", o.AccountResolver)
}
