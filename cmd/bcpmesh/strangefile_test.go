//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// readers are commands that read a FILE which a stranger may have sent, with variables of the environment before them. One
// that takes another is added here.
var readers = []string{
	"creds issue main --dir mesh --role approver --passkey FILE --out x.creds", "creds FILE",
	"perms --prove --jwts FILE",
	"audit verify FILE --key LOGKEY", "audit verify x --key FILE", "audit verify --decision 1 FILE --key LOGKEY", "audit verify x --key LOGKEY --since FILE", "audit verify x --key LOGKEY --witness FILE",
	"planner --script FILE --creds x",
	"validate FILE", "restore FILE elsewhere", "query researcher --boolean ok --creds FILE --url nats://127.0.0.1:1",
	"reader --creds x --mcp FILE", "mcp --creds main.creds --tools FILE", "mcp --creds x --http 127.0.0.1:0 --token-file FILE",
	"role verify FILE agent@o.example --trust o=key.pem", "role verify file agent@o.example --trust o=FILE", "role verify file FILE agent@o.example --trust o=key.pem",
	"role verify file file FILE agent@o.example --trust o=key.pem",
	"role verify agent@o.example --creds main.creds --trust o=FILE", "role show o FILE file --creds main.creds", "role show o file FILE --creds main.creds", "role show FILE --dir mesh",
	"adopt cursor-project --as main --creds ../main.creds", // whose file is FILE
	"up mesh --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --token-file FILE", "up mesh --listen 127.0.0.1:0 --tls-cert FILE --tls-key file", "up mesh --listen 127.0.0.1:0 --tls-cert file --tls-key FILE",
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
	noError(t, syscall.Mkfifo(at("pipe"), 0o600))
	noError(t, os.WriteFile(at("zeros"), nil, 0o600))
	noError(t, os.Truncate(at("zeros"), 8<<30))
	if out, err := exec.Command("bcpmesh", "init", at("mesh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("bcpmesh", "creds", "issue", "main", "--dir", at("mesh"), "--out", at("main.creds")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, _, err := ed25519.GenerateKey(nil)
	noError(t, err)
	der := must(x509.MarshalPKIXPublicKey(public))(t)
	_, logKey, err := note.GenerateKey(rand.Reader, "log.example")
	noError(t, err)
	for name, content := range map[string]string{
		"file": "x\n", "script": `{"structured": {"urgent": true}}`, "key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	} {
		noError(t, os.WriteFile(at(name), []byte(content), 0o600))
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
					noError(t, errors.Join(os.MkdirAll(filepath.Join(cmd.Dir, ".cursor"), 0o700), os.Symlink(file, filepath.Join(cmd.Dir, ".cursor", "mcp.json"))))
				}
				out, err := cmd.CombinedOutput()
				failIf(t, err == nil || ctx.Err() != nil || !refusal.Match(out) && !strings.Contains(string(out), filepath.Base(file)),
					"%s: %v: %s", file, err, out[:min(len(out), 500)])
				var own syscall.Rusage // whose most a child begins with
				noError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
				if most := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; most > max(512<<10, own.Maxrss) {
					t.Errorf("%s: %d MiB", file, most>>10)
				}
			}
		})
	}
}

// hostile is a text that says more than a person sees, or gives orders to a terminal.
const hostile = "\u202eevil\u200b\U000e0041\U000e0042\x1b[31mred\u2066x\u2069\ufeff\u00ad\u009b31m\x07"

// harmful are the characters of an output that nobody sees, or that a terminal obeys.
func harmful(out []byte) (found []rune) {
	for _, r := range string(out) {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && !slices.Contains(found, r) {
			found = append(found, r)
		}
	}
	return found
}

// What came from outside is shown inert by each command: as an argument of all of them, in the files that they read, and
// as a file's name. guard redact alone is a filter, and gives back what it does not take out.
//
// covers A-ANSI
func TestOutputsAreHarmless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	quoted := must(json.Marshal(hostile))(t)
	q := string(quoted)
	files := map[string]string{
		"raw":                        hostile + "\n" + hostile + ": " + hostile + "\n",
		"json":                       `{"name":` + q + `,"type":` + q + `,` + q + `:` + q + "}\n",
		"rpc":                        `{"jsonrpc":"2.0","id":1,"method":` + q + `,"params":{` + q + `:` + q + "}}\n",
		"list":                       `[{"task":` + q + `,"plan":{` + q + `:1}}]`,
		"yaml":                       "---\nname: " + q + "\n" + q + ": x\n---\n" + hostile + "\n",
		"mail":                       "From: " + hostile + "\nSubject: " + hostile + "\n\n" + hostile + "\n",
		"name\u202e\u200b\U000e0041": "x", "file": "x\n", "script": `{"structured": {"urgent": true}}`, "x": "x", "key.pem": hostile,
	}
	for name, content := range files {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	if out, err := exec.Command("bcpmesh", "init", filepath.Join(dir, "mesh")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(t *testing.T, words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bcpmesh", words...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		failIf(t, ctx.Err() != nil, "%q: %v", words, err)
		found := harmful(out)
		failIf(t, len(found) > 0, "%q shows %U: %q", words, found, out[:min(len(out), 500)])
	}
	for _, command := range slices.Concat(readers, []string{"validate FILE --json", "audit verify FILE x --key FILE --json", "creds FILE --json"}) {
		words := strings.Fields(command)
		if strings.Contains(words[0], "=") || slices.Contains([]string{"up", "demo", "adopt"}, words[0]) {
			continue // these read no text, or start something
		}
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			for _, name := range bcptest.Sample(slices.Sorted(maps.Keys(files)), 3) {
				given := slices.Clone(words)
				for i, word := range given {
					given[i] = strings.ReplaceAll(word, "FILE", name)
				}
				run(t, given...)
			}
		})
	}
	help, err := filepath.Glob("testdata/help/*.txt")
	stopIf(t, err != nil || len(help) < 50, "%v %v", help, err)
	for _, name := range bcptest.Sample(help, 3) {
		words := strings.Split(strings.TrimSuffix(filepath.Base(name), ".txt"), "-")[1:]
		t.Run("argument of "+strings.Join(words, " "), func(t *testing.T) {
			t.Parallel()
			run(t, append(slices.Clone(words), hostile, "--json")...)
			run(t, append(slices.Clone(words), "--"+hostile)...)
		})
	}
}
