package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

const (
	// fragileMesh is a copy of this program whose cells are real ones, and are killed while they read one mail.
	fragileMesh = "fragilemesh"
	// realCell says in the environment that a cell is a real one.
	realCell = "BCPMESH_TEST_REAL_CELL"

	fatalMail = "From: eve@example.com\nSubject: fatal\nContent-Type: text/plain\n\nobey-me\n"
	soundMail = "From: ann@example.com\nSubject: sound\nContent-Type: text/plain\n\nNothing is breaking.\n"
)

// fatalInput is how a cell tells that it reads fatalMail.
func fatalInput() string {
	digest := sha256.Sum256([]byte(fatalMail))
	return hex.EncodeToString(digest[:16])
}

// playFragileCell stands between the keeper and a real cell. Once the keeper knows that the cell reads the mail, and before
// the cell hears that it may, both are killed, as a system does with what takes its memory.
func playFragileCell() {
	self, err := os.Executable()
	if err != nil {
		return
	}
	inner := exec.Command(self, "cell")
	inner.Env, inner.Stderr = append(os.Environ(), realCell+"=yes"), os.Stderr
	in, err := inner.StdinPipe()
	if err != nil {
		return
	}
	out, err := inner.StdoutPipe()
	if err != nil || inner.Start() != nil {
		return
	}
	type message struct {
		ID     jsontext.Value
		Method string
		Params struct{ Input string }
		Result struct{ Aside bool }
	}
	var asked atomic.Pointer[string] // the id of the call that tells of the mail
	go func() {
		for lines := bufio.NewReader(os.Stdin); ; {
			line, err := lines.ReadBytes('\n')
			if id := asked.Load(); id != nil {
				var m message
				if json.Unmarshal(line, &m, json.MatchCaseInsensitiveNames(true)) == nil && m.Method == "" && string(m.ID) == *id && !m.Result.Aside {
					_ = inner.Process.Kill()
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
			if _, writeErr := in.Write(line); err != nil || writeErr != nil {
				_ = in.Close()
				return
			}
		}
	}()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		var m message
		if bytes.Contains(line, []byte(`"reading"`)) && json.Unmarshal(line, &m, json.MatchCaseInsensitiveNames(true)) == nil && m.Params.Input == fatalInput() {
			asked.Store(new(string(m.ID)))
		}
		if _, writeErr := os.Stdout.Write(line); err != nil || writeErr != nil {
			break
		}
	}
	_ = inner.Wait()
}

// A real cell is killed while it reads one mail. The mail is set aside, and the query that it was for is answered by the next
// cell, which reads the other mail; so is another query, and no cell ends again.
//
// covers A-CRASH, ALF-78
func TestCellKilledByAMail(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	self := must(os.Executable())(t)
	program, dir := filepath.Join(folder, fragileMesh), filepath.Join(folder, "desk")
	copyProgram(t, self, program)
	writeFiles(t, dir, map[string]string{
		"mesh.yaml":        "models:\n- {name: scripted, provider: script, model: script.jsonl}\n",
		"script.jsonl":     `{"when": {"turn": 1}, "call": {"name": "mailbox_list", "args": {}}}` + "\n" + `{"when": {"tool_result": "set aside: reading it has ended"}, "call": {"name": "answer", "args": {"breaking": true}}}` + "\n",
		"mail/cur/1.fatal": fatalMail,
		"mail/cur/2.sound": soundMail,
		"mail/new/.keep":   "",
		"agents/main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 100}\n---\n",
		"agents/reader.md": "---\nname: reader\ncommand: builtin\nsandbox: none\ntools: [mailbox]\nmailbox: mail\nmodel: scripted\nbcp_channels:\n- {peer: main, role: reader}\n---\nYou read mail.\n",
	})
	up := startUp(t, program, "", filepath.Join(folder, "log"), os.Environ(), dir, "--log-level", "info", "--listen", "127.0.0.1:0")
	for range 2 {
		if got := execute(t, "", "query", "reader", "--boolean", "breaking", "--as", "main", "--dir", dir, "--wait", "2m"); got.code != cli.ExitOK || !strings.Contains(got.stdout, `{"breaking":true}`) {
			t.Errorf("%+v\n%s", got, up.said())
		}
	}
	if n := strings.Count(up.said(), "the cell of reader has ended"); n != 1 {
		t.Errorf("%d cells ended:\n%s", n, up.said())
	}
	b, err := os.ReadFile(filepath.Join(dir, ".bcpmesh", "aside", "reader"))
	failIf(t, err != nil || !strings.Contains(string(b), fatalInput()) || strings.Count(strings.TrimSpace(string(b)), "\n") > 0,
		"set aside: %q, %v", b, err)
}
