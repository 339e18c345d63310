//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readers are commands that read a FILE which a stranger may have sent. One that takes another is added here.
var readers = []string{
	"kernel check FILE",
	"creds issue main --dir mesh --role approver --passkey FILE --out x.creds",
	"agent show FILE", "agent replay FILE", "perms --prove --jwts FILE",
	"audit redecide --backup FILE --dir mesh",
	"planner script FILE --creds x", "validate FILE", "guard fence FILE --source web", "restore FILE elsewhere", "query researcher --boolean ok --creds FILE --url nats://127.0.0.1:1",
}

// No command reads a device, waits for a pipe, or takes the memory that a file asks for.
//
// covers P7.5
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("zeros"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(at("zeros"), 8<<30); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bcpmesh", "init", at("mesh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, command := range readers {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for _, file := range []string{"/dev/zero", at("pipe"), at("zeros")} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, "bcpmesh", strings.Fields(strings.ReplaceAll(command, "FILE", file))...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				if err == nil || ctx.Err() != nil || !strings.Contains(string(out), filepath.Base(file)) && !strings.Contains(string(out), "longer than 64 MiB") {
					t.Errorf("%s: %v: %s", file, err, out[:min(len(out), 500)])
				}
				if most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > 512<<10 { // of which the test's own part is not known
					t.Errorf("%s: %d MiB", file, most>>10)
				}
			}
		})
	}
}
