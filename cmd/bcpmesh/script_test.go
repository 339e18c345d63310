package main

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	meshtest.Parallel(4)
	testscript.Main(m, map[string]func(){"bcpmesh": main, "desk": playDesk})
}

// TestScripts runs the program as a person does. Each script tells one command.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Cmds:                scriptCommands,
		Setup: func(env *testscript.Env) error {
			// Under -race every process would sleep for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			examples, err := filepath.Abs("../../examples")
			env.Setenv("EXAMPLES", examples)
			return err
		},
	})
}
