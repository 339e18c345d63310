package attach

import (
	"errors"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// Of a program that is killed nobody knows what it did: its call is in doubt. One that
// says so itself has failed, or did nothing.
//
// covers KER-25
func TestKilledProgramIsInDoubt(t *testing.T) {
	t.Parallel()
	for script, doubt := range map[string]bool{"exec sleep 60": true, "exec cat /dev/zero": true, "exit 1": false, "exit 75": false, "echo no JSON": false} {
		_, err := callProgram(t.Context(), &stdio.Program{Command: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: 300 * time.Millisecond}, agents.Call{Tool: "send", Args: []byte("{}")})
		bcptest.FailIf(t, err == nil || errors.Is(err, agents.ErrNoOutcome) != doubt, "%s: %v", script, err)
	}
}

// A confined program has the path that was written: a script is told "./NAME", and finds itself. Of an MCP server it is below
// the folder of the mesh.
//
// covers ALF-10
func TestConfinedProgramHasItsPath(t *testing.T) {
	t.Parallel()
	missing := process.DetectSandbox().Missing()
	for below, want := range map[string]string{"": "./serve", "/mesh": "/mesh/serve"} {
		if s, err := confinable([]string{"./serve", "no-file"}, nil, nil, below); (err != nil) != (missing != nil) || err == nil && (s.Path != want || len(s.Read) > 0) {
			t.Errorf("below %q: %+v, %v", below, s, err)
		}
	}
}
