package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// playMailroom leaves the state of the mailroom beside its definitions, once the
// reader has read all of its mail, and returns what it pushed.
func playMailroom(t *testing.T, dir string) map[bcp.ClientID]string {
	t.Helper()
	noError(t, os.CopyFS(dir, mailroom.Definitions()))
	return playMailroomWith(t, dir, mail.FS, nil)
}

// playMailroomWith has the mailroom of a folder read mail. after is called after each message.
func playMailroomWith(t *testing.T, dir string, files fs.FS, after func(mailroom.Done) error) map[bcp.ClientID]string {
	t.Helper()
	folder := meshdir.In(dir)
	def, err := folder.Load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := mesh.Start(ctx, mesh.Config{Definition: def, State: folder.State, Version: cli.ProgramVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	reader, err := m.Issue(mailroom.ReaderAgent, bcp.RoleReader, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	assistant, err := m.Issue(mailroom.AssistantAgent, bcp.RoleController, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	box, err := mailbox.OpenFS(files, ".", mailbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	said := map[bcp.ClientID]string{}
	var mu sync.Mutex
	if err := mailroom.Run(ctx, mailroom.Options{URL: m.URL(), Reader: agents.CredsText(reader.Text()), Assistant: agents.CredsText(assistant.Text()), Mail: box, After: after,
		Said: func(s mailroom.Said) {
			mu.Lock()
			defer mu.Unlock()
			said[s.Push] = s.Raw
		}}); err != nil {
		t.Fatal(err)
	}
	return said
}

// listed is what the tests read of a difference.
type listed struct {
	Seq          uint64             `json:"seq"`
	Subscription bcp.SubscriptionID `json:"subscription_id"`
	Comparison   string             `json:"comparison"`
	Rule         string             `json:"rule"`
	Incident     bool               `json:"incident"`
	Was          struct {
		Verdict  string         `json:"verdict"`
		Capacity bcp.Bits       `json:"capacity_bits"`
		Response jsontext.Value `json:"response"`
	} `json:"was"`
	Would struct {
		Verdict  string   `json:"verdict"`
		Capacity bcp.Bits `json:"capacity_bits"`
		Field    string   `json:"field"`
		Reason   string   `json:"reason"`
	} `json:"would"`
}

// runRedecide runs the command and returns its lines, the last of them apart.
func runRedecide(t *testing.T, code int, args ...string) (lines []listed, last audit.Redecided) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := func(string) string { return "" }
	p := &cli.Program{In: strings.NewReader(""), Out: cli.NewOutput(&stdout, &stderr, env), Env: env}
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
	noError(t, json.Unmarshal([]byte(all[len(all)-1]), &last))
	return lines, last
}

// The history of the mailroom, played for real. Under its own definitions nothing
// differs. With one word limit lowered, what is listed are exactly the pushes of
// that subscription that it concerns: those with too many words by their verdict,
// or its reason, and the others that were let through by their price, which the
// limit sets.
//
// covers P11.3
func TestRedecideMailroom(t *testing.T) {
	t.Parallel()
	dir, proposed := t.TempDir(), t.TempDir()
	said := playMailroom(t, dir)
	lines, same := runRedecide(t, cli.ExitOK, "--dir", dir)
	if len(lines) > 0 || same.Same < 80 || same.Same != same.Decided || same.Erased+same.Cut > 0 || len(same.RecordedUnder) != 1 {
		t.Errorf("the same definitions: %+v", same)
	}

	noError(t, os.CopyFS(proposed, mailroom.Definitions()))
	name := filepath.Join(proposed, "agents", "assistant.md")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lowered := bytes.Replace(content, []byte("max_words: 12"), []byte("max_words: 7"), 1)
	if err := os.WriteFile(name, lowered, 0o600); err != nil || bytes.Equal(lowered, content) {
		t.Fatal(err)
	}
	lines, report := runRedecide(t, cli.ExitFailed, "--dir", dir, "--definitions", proposed, "--raw")

	// The validators alone say which those are.
	before, after := replyNeeded(t, dir), replyNeeded(t, proposed)
	var tooLong, others []uint64
	def, err := meshdir.In(dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	o := mesh.RedecideOptions{Definition: def, Version: cli.ProgramVersion(),
		Each: func(d *bcp.Decision, _ state.Redecision) error {
			if d.Subscription != "reply-needed" || d.Kind != bcp.KindPush {
				return nil
			}
			raw := []byte(said[d.Client])
			was, would := before.Validate(raw, bcp.JSON), after.Validate(raw, bcp.JSON)
			switch {
			case would.Reason == bcp.ReasonWords && (was.Reason != would.Reason || was.Field != would.Field):
				tooLong = append(tooLong, d.Seq)
			case was.Outcome != bcp.Reject:
				others = append(others, d.Seq)
			}
			return nil
		}}
	if err := mesh.Use(t.Context(), meshdir.In(dir).State, def, func(s *mesh.Source) error {
		_, err := s.Redecide(t.Context(), o)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var verdicts, charges []uint64
	for _, line := range lines {
		switch {
		case line.Rule == "P3.3" && line.Would.Field == "gist" && line.Would.Reason == bcp.ReasonWords.String():
			verdicts = append(verdicts, line.Seq)
		case line.Rule == "P4.1":
			charges = append(charges, line.Seq)
		default:
			t.Errorf("%+v", line)
		}
		if line.Subscription != "reply-needed" {
			t.Errorf("%+v", line)
		}
	}
	if len(tooLong) == 0 || len(others) == 0 || !slices.Equal(verdicts, tooLong) || !slices.Equal(charges, others) {
		t.Errorf("listed are %v and %v, of %v and %v", verdicts, charges, tooLong, others)
	}
	if report.Verdicts != len(tooLong) || report.Charges != len(others) || report.Differ != len(lines) || report.Decided != same.Decided || report.Incidents+report.Values+report.Records > 0 {
		t.Errorf("%+v", report)
	}
}

// replyNeeded compiles the subscription of a mailroom.
func replyNeeded(t *testing.T, dir string) *bcp.Validator {
	t.Helper()
	def, err := meshdir.In(dir).Load()
	if err != nil {
		t.Fatal(err)
	}
	c := def.Channels[0]
	i := slices.IndexFunc(c.Subscriptions, func(s bcp.Subscription) bool { return s.ID == "reply-needed" })
	v, err := bcp.Compile(c.Subscriptions[i].Spec, c.Settings(def, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
