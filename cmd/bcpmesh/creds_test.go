package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
	ctx, cancel := context.WithCancel(t.Context())
	ready := filepath.Join(t.TempDir(), "ready.json")
	ended := make(chan outcome, 1)
	go func() {
		var stdout, stderr strings.Builder
		code := runCommandLine(ctx, append([]string{"up", dir, "--listen", "127.0.0.1:0", "--ready-file", ready}, flags...), strings.NewReader(""), &stdout, &stderr, none)
		ended <- outcome{code, stdout.String(), stderr.String()}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		got := <-ended
		failIf(t, got.code != cli.ExitOK, "%+v", got)
	})
	t.Cleanup(stop)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		content, err := os.ReadFile(ready)
		if err != nil {
			continue
		}
		var about struct{ URL string }
		noError(t, json.Unmarshal(content, &about))
		return about.URL, stop
	}
	t.Fatal("the mesh is not ready")
	return "", nil
}
