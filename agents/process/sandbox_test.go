//go:build linux && (amd64 || arm64)

package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// The test binary is also the helper, the programs that it confines, and those that start families.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "confine":
			fmt.Fprintln(os.Stderr, process.EnterSandbox(os.Args[2], os.Environ()))
			os.Exit(126)
		case "attempts":
			var b bait
			if err := json.Unmarshal([]byte(os.Args[2]), &b); err != nil {
				panic(err)
			}
			if err := json.MarshalWrite(os.Stdout, tryAll(b)); err != nil {
				panic(err)
			}
			os.Exit(0)
		case "read":
			_, err := os.ReadFile(os.Args[2])
			fmt.Print(err)
			os.Exit(0)
		case "start":
			fmt.Print(exec.Command("/bin/true").Run())
			os.Exit(0)
		case "allocate":
			b := make([]byte, 1<<30)
			for i := range b {
				b[i] = 1
			}
			fmt.Print("allocated")
			os.Exit(0)
		case "family":
			if err := growFamily(os.Args[2]); err != nil {
				panic(err)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// self is the program that is confined.
func self(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	return program
}

// confined runs a program confined, and returns what it printed.
func confined(t *testing.T, s process.Sandbox) (stdout, stderr string, err error) {
	t.Helper()
	cmd, err := s.Command([]string{self(t), "confine"})
	noError(t, err)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, []string{"PATH=/usr/bin:/bin"}
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// A confined program reaches nothing of what the same program reaches otherwise, with the scopes of Landlock and, as on
// older kernels, without.
//
// covers P7.5, ALF-10, A-CONFINED
func TestConfinedProgramReachesNothing(t *testing.T) {
	t.Parallel()
	program := self(t)
	for _, s := range []process.Sandbox{{}, {NoScopes: true}} {
		t.Run(fmt.Sprintf("no scopes %t", s.NoScopes), func(t *testing.T) {
			t.Parallel()
			bait, closeBait, err := newBait(t.TempDir())
			noError(t, err)
			defer closeBait()
			text, err := json.Marshal(bait)
			noError(t, err)
			s.Path, s.Args, s.Memory = program, []string{program, "attempts", string(text)}, process.SandboxMemory
			printed, errs, err := confined(t, s)
			stopIf(t, err != nil, "%v: %s", err, errs)
			refusals := map[string]string{}
			noError(t, json.Unmarshal([]byte(printed), &refusals))
			for _, a := range attempts {
				failIf(t, refusals[a.name] == "", "a confined program could %s", a.does)
			}
			for _, name := range []string{"secret", "cut", "removed", "mode"} {
				info, err := os.Stat(filepath.Join(bait.Folder, name))
				failIf(t, err != nil || info.Size() == 0 || info.Mode() != 0o600, "%s was changed: %v, %v", name, info, err)
			}
			if s.NoScopes {
				return
			}
			// The same attempts, by nobody confined, so that they could have failed to fail.
			refusals = tryAll(bait)
			for _, a := range attempts {
				failIf(t, refusals[a.name] != "" && !a.elsewhere,
					"%s is refused without a sandbox, too: %s", a.name, refusals[a.name])
			}
		})
	}
}

// What a program may read is what its spec names, and what is below that.
func TestConfinedProgramReadsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	program, folder := self(t), t.TempDir()
	given, other, link := filepath.Join(folder, "given"), filepath.Join(folder, "other"), filepath.Join(folder, "link")
	for _, name := range []string{given, other} {
		noError(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	noError(t, os.Symlink(other, link))
	for _, c := range []struct {
		file string
		read []string
		want string
	}{
		{given, []string{given}, "<nil>"},
		{given, []string{folder}, "<nil>"},
		{other, []string{given}, "permission denied"},
		{link, []string{given}, "permission denied"},
	} {
		got, errs, err := confined(t, process.Sandbox{Path: program, Args: []string{program, "read", c.file}, Read: c.read})
		failIf(t, err != nil || !strings.HasSuffix(got, c.want), "%s of %q: %s (%v, %s)", c.file, c.read, got, err, errs)
	}
}

// Nothing of a program runs if it cannot be confined as it was said.
func TestConfinedAsSaidOrNotAtAll(t *testing.T) {
	t.Parallel()
	program, missing := self(t), filepath.Join(t.TempDir(), "missing")
	for name, s := range map[string]process.Sandbox{
		"a file that is not there":    {Path: program, Args: []string{program, "read", "/"}, Read: []string{missing}},
		"a program that is not there": {Path: missing, Args: []string{"missing"}},
	} {
		got, errs, err := confined(t, s)
		failIf(t, err == nil || got != "" || errs == "", "%s: %q, %q, %v", name, got, errs, err)
	}
	err := process.EnterSandbox(`{"path": "/bin/true", "args": ["true"], "allow": "all"}`, nil)
	failIf(t, err == nil || !strings.Contains(err.Error(), "not understood"), "a word that is not known: %v", err)
}

func script(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script")
	noError(t, os.WriteFile(name, []byte("#!/bin/sh\necho run\n"), 0o700))
	return name
}

// A script runs confined with its interpreter, and a program ends that allocates too much.
func TestConfinedProgramsRun(t *testing.T) {
	t.Parallel()
	got, errs, err := confined(t, process.Sandbox{Path: script(t), Args: []string{"script"}})
	failIf(t, err != nil || got != "run\n", "a script: %q, %q, %v", got, errs, err)
	program := self(t)
	for alone, want := range map[bool]string{false: "<nil>", true: "operation not permitted"} {
		if got, errs, err := confined(t, process.Sandbox{Path: program, Args: []string{program, "start", "1"}, Alone: alone}); err != nil || !strings.HasSuffix(got, want) {
			t.Errorf("a program that starts another, alone %t: %q, %q, %v", alone, got, errs, err)
		}
	}
	if process.SandboxMemory > 0 {
		got, _, err := confined(t, process.Sandbox{Path: program, Args: []string{program, "allocate", "1"}, Memory: process.SandboxMemory})
		failIf(t, err == nil || got != "", "a gigabyte: %q, %v", got, err)
	}
}

// What is missing is said, and nothing is missing on a machine that has it.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		have process.SandboxSupport
		want string
	}{
		{process.SandboxSupport{Landlock: 3, Seccomp: true}, ""},
		{process.SandboxSupport{Landlock: 2, Seccomp: true}, "version 2"},
		{process.SandboxSupport{Seccomp: true}, "no Landlock"},
		{process.SandboxSupport{Landlock: 7}, "seccomp"},
	} {
		err := c.have.Missing()
		failIf(t, (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want), "%+v: %v", c.have, err)
	}
}

var noError, failIf, fails, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.Fails, bcptest.StopIf
