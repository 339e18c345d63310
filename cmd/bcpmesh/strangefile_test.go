//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// readers are commands that read a FILE which a stranger may have sent, with variables of the environment before them. One
// that takes another is added here.
var readers = []string{
	"kernel check FILE",
	"creds issue main --dir mesh --role approver --passkey FILE --out x.creds", "join CODE --passkey FILE --out x.creds --url nats://127.0.0.1:1", "creds show FILE",
	"agent show FILE", "agent replay FILE", "perms --prove --jwts FILE",
	"audit redecide --backup FILE --dir mesh", "audit verify FILE --key LOGKEY", "audit verify x --key FILE", "audit verify --proof FILE --key LOGKEY", "audit verify x --key LOGKEY --since FILE", "audit verify x --key LOGKEY --witness FILE",
	"planner script FILE --creds x", "planner model --guidelines FILE --creds main.creds --model gullible", "reader extract --file FILE --script script --creds main.creds", "reader extract --file file --script FILE --creds x",
	"validate FILE", "guard fence FILE --source web", "restore FILE elsewhere", "query researcher --boolean ok --creds FILE --url nats://127.0.0.1:1",
	"query researcher --spec FILE --dir mesh", "reader mcp --creds x --tools FILE", "mcp --creds main.creds --tools FILE", "mcp --creds x --http 127.0.0.1:0 --token-file FILE",
	"role verify FILE agent@o.example --trust o=key.pem", "role verify file agent@o.example --trust o=FILE", "role verify file agent@o.example --trust o=key.pem --revocations FILE",
	"role verify file agent@o.example --trust o=key.pem --contract FILE", "role verify file agent@o.example --trust o=key.pem --requirement FILE",
	"role judge agent@o.example --creds main.creds --trust o=FILE", "role contracts FILE", "role show FILE file --to o --creds main.creds", "role show file FILE --to o --creds main.creds", "role take FILE --dir mesh",
	"adopt cursor-project --as main --creds ../main.creds --dry-run", // whose file is FILE
	"demo --mbox FILE",
	"up mesh --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --metrics-token FILE", "up mesh --listen 127.0.0.1:0 --tls-cert FILE --tls-key file", "up mesh --listen 127.0.0.1:0 --tls-cert file --tls-key FILE",
	"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_CERTIFICATE=FILE up mesh --listen 127.0.0.1:0",
	"BCPMESH_PASSPHRASE_FILE=FILE keys seal --dir mesh",
}

// refusal is what commands say that do not name the file.
var refusal = regexp.MustCompile(`longer than 64 MiB|it is not a regular file|it is too large`)

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
	if out, err := exec.Command("bcpmesh", "creds", "issue", "main", "--dir", at("mesh"), "--out", at("main.creds")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	_, logKey, err := note.GenerateKey(rand.Reader, "log.example")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"file": "x\n", "script": `{"structured": {"urgent": true}}`, "key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range readers {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for _, file := range []string{"/dev/zero", at("pipe"), at("zeros")} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				words := strings.Fields(command)
				var environ []string
				for i, word := range words {
					if before, found := strings.CutSuffix(word, "FILE"); found {
						words[i] = before + file
					}
					if word == "LOGKEY" {
						words[i] = logKey
					}
				}
				for strings.Contains(words[0], "=") {
					environ, words = append(environ, words[0]), words[1:]
				}
				cmd := exec.CommandContext(ctx, "bcpmesh", words...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
				if words[0] == "adopt" { // it has its file in the folder
					cmd.Dir = at("host-" + filepath.Base(file))
					if err := errors.Join(os.MkdirAll(filepath.Join(cmd.Dir, ".cursor"), 0o700), os.Symlink(file, filepath.Join(cmd.Dir, ".cursor", "mcp.json"))); err != nil {
						t.Fatal(err)
					}
				}
				out, err := cmd.CombinedOutput()
				if err == nil || ctx.Err() != nil || !refusal.Match(out) && !strings.Contains(string(out), filepath.Base(file)) {
					t.Errorf("%s: %v: %s", file, err, out[:min(len(out), 500)])
				}
				if most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > 512<<10 { // of which the test's own part is not known
					t.Errorf("%s: %d MiB", file, most>>10)
				}
			}
		})
	}
}
