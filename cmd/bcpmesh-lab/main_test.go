package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"bcpmesh-lab": main})
}

type tests struct{ *testing.M }

// Run runs the tests, where the process is not the program.
func (t tests) Run() int {
	bcptest.LeaveOut("TestScripts")
	bcptest.Parallel(6)
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

// TestScripts runs the program as people do: bcpmesh starts it, which finds it in PATH.
func TestScripts(t *testing.T) {
	t.Parallel()
	product := t.TempDir()
	if err := clitest.BuildProduct(product); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	if !bcptest.Long() {
		files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "bench.txtar" })
	}
	clitest.Play(t, testscript.Params{
		Files:               files,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exitcode": clitest.Exitcode},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("PRODUCT", product)
			env.Setenv("PATH", product+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
	})
}
