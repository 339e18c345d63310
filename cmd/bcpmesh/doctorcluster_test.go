package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// Beside the keys of a mesh on a cluster, doctor judges the journal by what the cluster
// has, before and after it was signed, and each check says one thing. A journal that ends
// before what was signed is a failure.
//
// covers P11.2
func TestDoctorOnCluster(t *testing.T) {
	t.Parallel()
	x := startClusterDesk(t)
	x.says(cli.ExitOK, `publish main alerts {"urgent":true} --as mailer --wait 60s`)
	x.push(cli.ExitOK, keys.ExportedSystem, "--url", x.cluster.URL(), "--wait", "60s") // where it is then known to be
	unsigned := x.says(cli.ExitOK, "doctor", "ok journal on the cluster, nothing of it was signed yet", "ok resolver the claims are those of the cluster", "ok gateway it decides")
	x.says(cli.ExitOK, "audit export --checkpoint")
	signed := x.says(cli.ExitOK, "doctor", "ok journal on the cluster, records, of which are signed")
	for _, text := range []string{unsigned, signed} {
		if n := len(regexp.MustCompile(`(?m)^\s*ok\s+journal\s`).FindAllString(text, -1)); n != 1 || strings.Contains(text, "nothing was decided") || strings.Contains(text, "no claims yet") || strings.Contains(text, "no TLS") {
			t.Errorf("doctor says of the journal %d times\n%s", n, text)
		}
	}
	file := filepath.Join(x.keys, "tree", "checkpoints")
	content := readFile(t, file)
	ahead := regexp.MustCompile(`"sequence":\d+`).ReplaceAll(content, []byte(`"sequence":99999`))
	noError(t, os.WriteFile(file, ahead, 0o600))
	x.says(cli.ExitFailed, "doctor", "fail journal it ends with record , and 99999 were signed")
}
