package meshdir

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// A key is read from each of its places, and no error says what was there.
func TestKeysAreRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
	}
	write("passphrase", "a long passphrase\n", 0o600)
	write("key", "k-123\n", 0o600)
	write("open", "canary", 0o644)
	write("long", strings.Repeat("k", 4<<10+1), 0o600)
	write("most", strings.Repeat("k", 4<<10), 0o600)
	write("key.age", sealed(t, "k-456\n", "a long passphrase"), 0o600)
	write("other.age", sealed(t, "canary", "another passphrase"), 0o600)
	write("broken.age", "canary", 0o600)
	write("prints.sh", "#!/bin/sh\necho k-$1-$2\n", 0o700)
	write("fails.sh", "#!/bin/sh\necho canary; echo canary >&2; exit 3\n", 0o700)
	t.Setenv("BCPMESH_PASSPHRASE_FILE", filepath.Join(dir, "passphrase"))
	t.Setenv("A_KEY", "k-789")
	folder := In(dir)
	for place, want := range map[string]string{
		"": "", "env:A_KEY": "k-789", "file:key": "k-123", "file:most": strings.Repeat("k", 4<<10), "file:key.age": "k-456",
		"command:./prints.sh a  b": "k-a-b", "command:printf k-%s c": "k-c",
	} {
		got, err := folder.Key(place, "the key")
		failIf(t, got != want || err != nil, "%s: %q, %v", place, got, err)
	}
	for place, want := range map[string]string{
		"env:GONE": "GONE is not set", "file:gone": "cannot be read", "file:open": "chmod 600", "file:long": "holds no key",
		"file:other.age": "not the passphrase", "file:broken.age": "not sealed by age", "command:./fails.sh": "it failed", "command:no-such-program": "no such program",
		"command: ": "no command", "command:printf two\\nwords": "that is not a key", "command:true": "that is not a key", "keyring:x": "expected env:NAME",
	} {
		got, err := folder.Key(place, "the key")
		failIf(t, got != "" || err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "the key: ") || strings.Contains(err.Error(), "canary"),
			"%s: %q, %v", place, got, err)
	}
}

// Who checks a folder runs nothing of it, and opens nothing that is sealed.
func TestCheckRunsNoCommand(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"mesh.yaml":      "models:\n- {name: small, provider: openai, model: x, base_url: 'http://127.0.0.1:1/v1', key: 'command:touch ran'}\n- {name: sealed, provider: openai, model: x, base_url: 'http://127.0.0.1:1/v1', key: 'file:key.age'}\n- {name: gone, provider: openai, model: x, base_url: 'http://127.0.0.1:1/v1', key: 'command:no-such-program'}\n",
		"key.age":        "sealed",
		"agents/main.md": "---\nname: main\nbcp_channels:\n- {peer: a, role: controller, max_category: 1, budget_bits: 9}\n- {peer: b, role: controller, max_category: 1, budget_bits: 9}\n- {peer: c, role: controller, max_category: 1, budget_bits: 9}\n---\n",
		"agents/a.md":    "---\nname: a\ncommand: builtin\nsandbox: none\nmodel: small\nbcp_channels:\n- {peer: main, role: reader}\n---\n",
		"agents/b.md":    "---\nname: b\ncommand: builtin\nsandbox: none\nmodel: sealed\nbcp_channels:\n- {peer: main, role: reader}\n---\n",
		"agents/c.md":    "---\nname: c\ncommand: builtin\nsandbox: none\nmodel: gone\nbcp_channels:\n- {peer: main, role: reader}\n---\n",
	} {
		file := filepath.Join(dir, name)
		noError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		noError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	folder := In(dir)
	_, report := folder.Here().Load(os.DirFS(dir))
	failIf(t, len(report.Errors) != 1 || report.Errors[0].Code != definition.CodeNoModel || report.Errors[0].File != "agents/c.md",
		"%v", report.Errors)
	_, err := os.Stat(filepath.Join(dir, "ran"))
	failIf(t, err == nil, "the command of a key was run")
}

// sealed is what `age -p` makes of a text.
func sealed(t *testing.T, text, passphrase string) string {
	t.Helper()
	to, err := age.NewScryptRecipient(passphrase)
	noError(t, err)
	to.SetWorkFactor(8)
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to)
	noError(t, err)
	_, err = w.Write([]byte(text))
	stopIf(t, err != nil, "%v", err)
	noError(t, w.Close())
	return b.String()
}
