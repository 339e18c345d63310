//go:build unix

package clustertest

import (
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// buildServer returns the path of the stock server, a tool of this module's go.mod, in the cache of builds.
var buildServer = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New("go tool: " + string(failed.Stderr))
	}
	return strings.TrimSpace(string(path)), err
})

// Binary returns the path of the stock nats-server for clusters.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildServer()
	bcptest.NoError(t, err)
	return path
}
