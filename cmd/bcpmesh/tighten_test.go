package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// playMailroom has the mailroom of a folder read mail. after is called after each message.
func playMailroom(t *testing.T, dir string, files fs.FS, after func(mailroom.Done) error) {
	t.Helper()
	folder := meshdir.In(dir)
	def := must(folder.Load())(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m := must(mesh.Start(ctx, mesh.Config{Definition: def, State: folder.State, Version: cli.ProgramVersion()}))(t)
	defer func() {
		if err := m.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	reader := must(m.Issue(mailroom.ReaderAgent, bcp.RoleReader, time.Hour))(t)
	assistant := must(m.Issue(mailroom.AssistantAgent, bcp.RoleController, time.Hour))(t)
	if err := mailroom.Run(ctx, mailroom.Options{URL: m.URL(), Reader: agents.CredsText(reader.Text()), Assistant: agents.CredsText(assistant.Text()), Mail: files,
		Said: func(mailroom.Said) {}, Did: func(string) {}, After: after}); err != nil {
		t.Fatal(err)
	}
}

// listed is what the test reads of a difference.
type listed struct {
	Comparison string `json:"comparison"`
	Incident   bool   `json:"incident"`
	Was        change `json:"was"`
	Would      change `json:"would"`
}

// change is one side of it.
type change struct {
	Verdict  string   `json:"verdict"`
	Capacity bcp.Bits `json:"capacity_bits"`
}

// runRedecide runs the command and returns its lines but the last, which adds up.
func runRedecide(t *testing.T, code int, args ...string) (lines []listed) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := func(string) string { return "" }
	p := &cli.Program{In: strings.NewReader(""), Out: cli.NewOutput(&stdout, &stderr), Env: env}
	root := rootCommand(p)
	root.SetArgs(append([]string{"audit", "redecide", "--json"}, args...))
	if got := p.Out.Finish(root.ExecuteContext(t.Context())); got != code {
		t.Fatalf("exit code %d, want %d: %s", got, code, &stderr)
	}
	all := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	for _, line := range all[:len(all)-1] {
		var l listed
		noError(t, json.Unmarshal([]byte(line), &l))
		if l.Comparison != "differs" || l.Incident {
			t.Errorf("%s", line)
		}
		lines = append(lines, l)
	}
	return lines
}

// narrowed is the definition of the assistant with changes, as an editor makes them.
func narrowed(text string, changes []tighten.Change) string {
	for _, c := range changes {
		head, rest := "", text
		for _, mark := range []string{"- id: " + string(c.Subscription), ": " + c.Item + "\n"} { // where it begins
			if at := strings.Index(rest, mark); c.Subscription != "" && at >= 0 {
				head, rest = head+rest[:at+len(mark)], rest[at+len(mark):]
			}
		}
		item, tail := rest, ""
		if at := strings.Index(rest, "\n          - "); c.Item != "" && at >= 0 {
			item, tail = rest[:at], rest[at:]
		}
		for _, part := range regexp.MustCompile(`\w+: (\[.*?\]|[^,]+)`).FindAllString(c.Would, -1) {
			key, _, _ := strings.Cut(part, ":")
			old := regexp.MustCompile(`\b` + key + `: .*`)
			switch at := old.FindStringIndex(item); {
			case at != nil:
				item = item[:at[0]] + part + item[at[1]:]
			case c.Item != "":
				item = "            " + part + "\n" + item
			case c.Subscription != "":
				item = "\n        " + part + item
			default:
				item = strings.Replace(item, "    role: controller\n", "    role: controller\n    "+part+"\n", 1)
			}
		}
		text = head + item + tail
	}
	return text
}

// The mailroom gets its mail again and again, a part of it hostile. What tighten learns from
// the older part fits the newer one, for half of the capacity.
//
// covers P4.1, P11.3, P12.4
func TestTightenMailroom(t *testing.T) {
	t.Parallel()
	const older, newer = 7, 2 // times
	dir := t.TempDir()
	noError(t, os.CopyFS(dir, mailroom.Definitions()))
	for _, name := range []string{"agents/assistant.md", "agents/mail-reader.md", "mesh.yaml"} {
		file := filepath.Join(dir, name)
		text := readFile(t, file)
		wider := strings.NewReplacer("budget_bits: 12000", "budget_bits: 1000000", "max_refusals: 200/m", "max_refusals: 6000/m").Replace(string(text))
		noError(t, os.WriteFile(file, []byte(wider), 0o600))
	}
	box, messages := fstest.MapFS{}, 0
	noError(t, fs.WalkDir(mail.FS, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(mail.FS, name)
		if err != nil {
			return err
		}
		messages++
		for round := range older + newer {
			box[fmt.Sprintf("%s/%d-%s", filepath.Dir(name), round, filepath.Base(name))] = &fstest.MapFile{Data: content}
		}
		return nil
	}))
	var between time.Time
	playMailroom(t, dir, box, func(d mailroom.Done) error {
		if d.Number == older*messages {
			between = time.Now()
		}
		return nil
	})
	run := func(code int, args ...string) string {
		t.Helper()
		got := execute(t, "", append(args, "--dir", dir)...)
		if got.code != code {
			t.Fatalf("%v: exit code %d: %s%s", args, got.code, got.stdout, got.stderr)
		}
		return got.stdout
	}
	at := between.UTC().Format(time.RFC3339Nano)
	shown := run(cli.ExitOK, "audit", "tighten", "--until", at)
	var earlier, later []tighten.Proposal
	for span, into := range map[string]*[]tighten.Proposal{"--until": &earlier, "--since": &later} {
		if err := json.Unmarshal([]byte(run(cli.ExitOK, "audit", "tighten", span, at, "--json")), into); err != nil || len(*into) != 1 {
			t.Fatal(err, *into)
		}
	}
	for _, want := range []string{"\n  + budget_bits: ", "alphabet: latin", "min: 2025, max: 2028"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %s", want, shown)
		}
	}
	if !strings.Contains(shown, "for them and their like no room is made") {
		t.Errorf("no outliers in %s", shown)
	}
	file := filepath.Join(dir, "agents/assistant.md")
	noError(t, os.WriteFile(file, []byte(narrowed(string(readFile(t, file)), earlier[0].Changes)), 0o600))

	lines := runRedecide(t, cli.ExitFailed, "--dir", dir, "--since", at)
	refused, was, would := 0, bcp.Bits(0), bcp.Bits(0)
	for _, l := range lines {
		switch {
		case l.Would.Verdict == "reject" && l.Was.Verdict != "reject":
			refused++
		case l.Was.Verdict == "accept":
			was, would = was+l.Was.Capacity, would+l.Would.Capacity
		}
	}
	t.Logf("%d of %d later messages are refused; capacity of the pushes that cost less %s -> %s", refused, later[0].Messages, was.Rounded(), would.Rounded())
	if refused*20 > later[0].Messages {
		t.Errorf("%d of %d later messages are refused", refused, later[0].Messages)
	}
	if was == 0 || 2*would > was {
		t.Errorf("capacity %s, was %s", would.Words(), was.Rounded())
	}
}
