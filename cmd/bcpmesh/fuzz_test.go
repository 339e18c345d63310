package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var verdictKeys = []string{"anomalies", "capacity_bits", "code", "delivered", "field", "id", "nominal_bits", "response", "verdict"}

// Whatever a line holds, it gets one verdict with exactly the contract's keys,
// or one line on stderr and none.
//
// covers P2.2, P10
func FuzzValidateLine(f *testing.F) {
	script := must(os.ReadFile("testdata/script/validate.txtar"))(f)
	for line := range strings.Lines(string(script)) {
		if strings.HasPrefix(line, "{") {
			f.Add(strings.TrimSpace(line))
		}
	}
	f.Add(`{"spec":{"category":2,"questions":[{"id":"q","question":"?","max_words":1,"expected_format":"vocabulary","vocabulary":"v"}]},"response":{"q":"a"},"settings":{"vocabularies":{"v":["a","\u2028","\ud83d\ude00"]},"subscriptions":[],"approvers":["x"]}}`)
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ReplaceAll(line, "\n", " ")
		got := execute(t, line+"\n", "validate")
		if strings.TrimSpace(line) == "" {
			expect(t, got, outcome{}, "a blank line")
			return
		}
		if got.code == cli.ExitFailed {
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			stopIf(t, got.stdout != "" || len(lines) != 2 || !strings.HasPrefix(lines[0], "line 1: ") || lines[1] != "bcpmesh: 1 line not judged",
				"expected one line about the line: %+v", got)
			for _, l := range lines {
				expect(t, l, cli.Plain(l), "not harmless for a terminal")
			}
			return
		}
		stopIf(t, got.code != cli.ExitOK || got.stderr != "" || strings.Count(got.stdout, "\n") != 1,
			"expected one verdict: %+v", got)
		checkVerdict(t, got.stdout)
	})
}

func checkVerdict(t *testing.T, line string) {
	t.Helper()
	var v map[string]json.RawMessage
	noError(t, json.Unmarshal([]byte(line), &v))
	var keys []string
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	failIf(t, !slices.Equal(keys, verdictKeys), "keys %v", keys)
	var verdict, code, delivered string
	for key, to := range map[string]*string{"verdict": &verdict, "code": &code, "delivered": &delivered} {
		err := json.Unmarshal(v[key], to)
		failIf(t, err != nil, "%s: %s", key, err)
	}
	answered := verdict == "accept" || verdict == "hold"
	switch {
	case answered && (code != "" || delivered == "" || string(v["response"]) != delivered):
		t.Errorf("%s with code %q, response %s, delivered %q", verdict, code, v["response"], delivered)
	case !answered && (delivered != "" || string(v["response"]) != "null"):
		t.Errorf("%s delivers", verdict)
	case verdict == "reject" && !slices.Contains([]string{"malformed", "message_too_large", "validation_failed"}, code),
		verdict == "invalid_spec" && code != "invalid_query", !answered && verdict != "reject" && verdict != "invalid_spec":
		t.Errorf("verdict %q with code %q", verdict, code)
	}
}

// Whatever the definitions hold, check says what is wrong or what they mean,
// and the two forms of its result agree.
//
// covers P1.2
func FuzzCheck(f *testing.F) {
	read := func(name string) string {
		content := must(os.ReadFile(name))(f)
		return string(content)
	}
	for _, e := range [][3]string{
		{"internal/define/meshes/research/mesh.yaml", "internal/define/meshes/research/agents/main.md", "internal/define/meshes/research/agents/researcher.md"},
		{"internal/define/meshes/mailroom/mesh.yaml", "internal/define/meshes/mailroom/agents/secretary.md", "internal/define/meshes/mailroom/agents/mailreader.md"},
	} {
		f.Add(read(e[0]), read(e[1]), read(e[2]))
	}
	f.Add("approvers: [\x1b[31m]", "---\nname: \"\u202e\"\n---", "---\nbcp_channels: 7\n---\n")
	f.Fuzz(func(t *testing.T, mesh, controller, reader string) {
		dir := t.TempDir()
		for name, content := range map[string]string{"mesh.yaml": mesh, "agents/a.md": controller, "agents/b.md": reader} {
			name = filepath.Join(dir, name)
			noError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			noError(t, os.WriteFile(name, []byte(content), 0o644))
		}
		human, machine := execute(t, "", "check", dir), execute(t, "", "check", dir, "--json")
		stopIf(t, human.code != machine.code || human.code != cli.ExitOK && human.code != cli.ExitFailed,
			"exit %d and %d", human.code, machine.code)
		for line := range strings.Lines(human.stdout + human.stderr + machine.stderr) {
			if line = strings.TrimSuffix(line, "\n"); line != cli.Plain(line) {
				t.Errorf("not harmless for a terminal: %q", line)
			}
		}
		var result struct {
			OK                                 *bool
			Errors, Warnings, Channels, Agents []map[string]any
		}
		decoder := json.NewDecoder(strings.NewReader(machine.stdout))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&result)
		stopIf(t, err != nil, "%s: %s", err, machine.stdout)
		ok := human.code == cli.ExitOK
		if result.OK == nil || *result.OK != ok || ok != (len(result.Errors) == 0) || result.Errors == nil || result.Warnings == nil ||
			result.Channels == nil || !ok && len(result.Channels)+len(result.Agents) > 0 {
			t.Errorf("exit %d with %s", human.code, machine.stdout)
		}
	})
}

// Whatever a creds file holds, its private key is not shown.
func FuzzCredsShow(f *testing.F) {
	mesh := must(meshdir.In("internal/define/meshes/research").Load())(f)
	state := f.TempDir()
	store := must(accounts.Create(state))(f)
	must(accounts.Compile(store, subjects.Permissions(mesh), time.Now()))(f)
	creds := must(store.Issue("main", bcp.RoleController, 0))(f)
	whole := creds.Text()
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add(whole[len(whole)/2:])
	f.Add(bytes.ReplaceAll(whole, []byte("-----BEGIN"), []byte("-----begin")))
	f.Add([]byte("-----BEGIN NATS USER JWT-----\neyJ0eXAiOiJKV1QifQ.e30.\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		name := filepath.Join(t.TempDir(), "x.creds")
		noError(t, os.WriteFile(name, content, 0o600))
		for _, form := range []string{"--json=false", "--json"} {
			got := execute(t, "", "creds", name, "--state", state, form)
			if got.code != cli.ExitOK {
				checkTalk(t, got.stderr)
			}
			failIf(t, seedIn(got.stdout+got.stderr) || got.code == cli.ExitOK && !strings.Contains(got.stdout, "main"),
				"%+v", got)
		}
	})
}

// seedIn reports whether a text holds a word that looks like a private key.
func seedIn(text string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\n' || r == '"' }), func(word string) bool {
		return len(word) > 50 && word[0] == 'S'
	})
}
