//go:build unix

package clustertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const serverModule = "github.com/nats-io/nats-server/v2"

// buildServer returns the path of the server of this module's go.mod, which it
// builds unless an earlier test did.
var buildServer = sync.OnceValues(func() (string, error) {
	version, err := goCommand("list", "-m", "-f", "{{.Version}}", serverModule)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("bcpmesh-clustertest-%d", os.Getuid()))
	path := filepath.Join(folder, "nats-server-"+version)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	half := fmt.Sprintf("%s.%d", path, os.Getpid())
	if _, err := goCommand("build", "-trimpath", "-o", half, serverModule); err != nil {
		return "", err
	}
	return path, os.Rename(half, path)
})

func goCommand(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Binary returns the path of the stock nats-server for clusters.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildServer()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
