package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"bcpmesh-bridge": main})
}

type tests struct{ *testing.M }

// Run runs the tests, where the process is not the program. They start bcpmesh, which starts this program.
func (t tests) Run() int {
	bcptest.LeaveOut("TestRelayIsKilled")
	bcptest.Parallel(6)
	product, err := os.MkdirTemp("", "bcpmesh-product-")
	if err == nil {
		defer func() { _ = os.RemoveAll(product) }() // ours
		err = errors.Join(clitest.BuildProduct(product), os.Setenv("PATH", product+string(os.PathListSeparator)+os.Getenv("PATH")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.M.Run()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	clitest.Root(rootCommand).CheckHelp(t, *update)
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	clitest.Root(rootCommand).CheckBadCommandLines(t)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	clitest.Play(t, testscript.Params{
		Dir: "testdata/script", RequireUniqueNames: true, RequireExplicitExec: true, UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exitcode": clitest.Exitcode},
	})
}

// says runs bcpmesh to its end, and returns its exit code and what it printed.
func says(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("bcpmesh", args...)
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, out.String(), fault.String()
}

// process is a running bcpmesh up.
type process struct {
	cmd *exec.Cmd
	url string
}

func startProcess(t *testing.T, dir, listen string) *process {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := &process{cmd: exec.Command("bcpmesh", "up", dir, "--listen", listen, "--ready-file", ready)}
	p.cmd.Stderr = t.Output()
	noError(t, p.cmd.Start())
	t.Cleanup(func() { p.kill() })
	for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(5 * time.Millisecond) {
		var about struct{ URL string }
		if b, err := os.ReadFile(ready); err == nil && json.Unmarshal(b, &about) == nil {
			p.url = about.URL
			return p
		}
		stopIf(t, time.Now().After(deadline) || p.cmd.Process.Signal(syscall.Signal(0)) != nil, "the mesh is not ready")
	}
}

// kill ends the process as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
