package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// Processes that issue the first credentials of a mesh at the same moment
// agree on its keys.
func TestIssueTogether(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "office")
	succeed(t, "init", dir)
	const processes = 8
	var together sync.WaitGroup
	for i := range processes {
		together.Go(func() {
			got := execute(t, "", "creds", "issue", "main", "--dir", dir, "--out", fmt.Sprintf("%s/%d.creds", dir, i))
			expect(t, got.code, cli.ExitOK, "%+v", got)
		})
	}
	together.Wait()
	for i := range processes {
		got := execute(t, "", "creds", fmt.Sprintf("%s/%d.creds", dir, i), "--dir", dir)
		failIf(t, got.code != cli.ExitOK || !strings.Contains(got.stdout, "status      valid"), "%+v", got)
	}
	got := execute(t, "", "creds", "--dir", dir)
	failIf(t, strings.Count(got.stdout, "\nmain ") != processes, "%+v", got)
}

// startMesh runs the mesh of dir until stop, and returns its address.
func startMesh(t *testing.T, dir string, flags ...string) (url string, stop func()) {
	t.Helper()
	found, stop := serving(t, regexp.MustCompile(` serves .* at (\S+)\n`), append([]string{"up", dir, "--listen", "127.0.0.1:0"}, flags...)...)
	return found[1], stop
}
