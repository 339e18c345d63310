package main

import (
	"bytes"
	"context"
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
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mailbox"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// playMailroom leaves the state of the mailroom beside its definitions, once the
// reader has read all of its mail, and returns what it pushed.
func playMailroom(t *testing.T, dir string) map[bcp.ClientID]string {
	t.Helper()
	if err := os.CopyFS(dir, mailroom.Definitions()); err != nil {
		t.Fatal(err)
	}
	folder := meshIn(dir)
	def, err := folder.load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	m, err := mesh.Start(ctx, mesh.Config{Definition: def, State: folder.state, Version: programVersion()})
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
	box, err := mailbox.OpenFS(mail.FS, ".", mailbox.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	said := map[bcp.ClientID]string{}
	var mu sync.Mutex
	if err := mailroom.Run(ctx, mailroom.Options{URL: m.URL(), Reader: agents.CredsText(reader.Text()), Assistant: agents.CredsText(assistant.Text()), Mail: box,
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
		Response jsontext.Value `json:"response"`
	} `json:"was"`
	Would struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	} `json:"would"`
}

// runRedecide runs the command and returns its lines, the last of them apart.
func runRedecide(t *testing.T, code int, args ...string) (lines []listed, last redecided) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{in: strings.NewReader(""), out: newOutput(&stdout, &stderr, func(string) string { return "" })}
	root := rootCommand(p)
	root.SetArgs(append([]string{"audit", "redecide", "--json"}, args...))
	if got := p.out.finish(root.ExecuteContext(t.Context())); got != code {
		t.Fatalf("exit code %d, want %d: %s", got, code, &stderr)
	}
	all := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	for _, line := range all[:len(all)-1] {
		var l listed
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Comparison != "differs" || l.Incident {
			t.Errorf("%s", line)
		}
		lines = append(lines, l)
	}
	if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
		t.Fatal(err)
	}
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
	lines, same := runRedecide(t, exitOK, "--dir", dir)
	if len(lines) > 0 || same.Same < 80 || same.Same != same.Decided || same.Erased+same.Cut > 0 || len(same.RecordedUnder) != 1 {
		t.Errorf("the same definitions: %+v", same)
	}

	if err := os.CopyFS(proposed, mailroom.Definitions()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(proposed, "agents", "assistant.md")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lowered := bytes.Replace(content, []byte("max_words: 12"), []byte("max_words: 7"), 1)
	if err := os.WriteFile(name, lowered, 0o600); err != nil || bytes.Equal(lowered, content) {
		t.Fatal(err)
	}
	lines, report := runRedecide(t, exitFailed, "--dir", dir, "--definitions", proposed, "--raw")

	// The validators alone say which those are.
	before, after := replyNeeded(t, dir), replyNeeded(t, proposed)
	var tooLong, others []uint64
	def, err := meshIn(dir).load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mesh.Redecide(t.Context(), meshIn(dir).state, def, mesh.RedecideOptions{Definition: def, Version: programVersion(),
		Each: func(d *bcp.Decision, _ bcp.Redecision) error {
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
		}}); err != nil {
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
	def, err := meshIn(dir).load()
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

// What a run found has its exit code, and what agents chose is shown inert.
//
// covers P2.5, P11.3
func TestRedecideReport(t *testing.T) {
	t.Parallel()
	const hostile = "q\x1b[2J\u202e"
	differs := bcp.Redecision{Comparison: bcp.ComparedDiffers, Aspect: bcp.AspectVerdict, Rule: "P3.3", Was: bcp.Judgement{Verdict: bcp.Accept, Payload: []byte(`"canary"`)},
		Would: bcp.Judgement{Verdict: bcp.Reject, Code: bcp.ValidationFailed, Reason: bcp.ReasonWords, Field: hostile}}
	incident := differs
	incident.Incident = true
	comparison := func(c bcp.Comparison) bcp.Redecision { return bcp.Redecision{Comparison: c} }
	for name, c := range map[string]struct {
		results []bcp.Redecision
		code    int
		says    string
	}{
		"nothing":   {nil, exitOK, "decided again  0"},
		"same":      {[]bcp.Redecision{comparison(bcp.ComparedSame), comparison(0)}, exitOK, "decided again  1: 1 same"},
		"follows":   {[]bcp.Redecision{differs, comparison(bcp.ComparedFollows)}, exitFailed, "about asks that would be refused\n1 decision: 2\n"},
		"erased":    {[]bcp.Redecision{comparison(bcp.ComparedErased)}, exitPartly, "not possible   1: 1 erased"},
		"cut":       {[]bcp.Redecision{comparison(bcp.ComparedCut)}, exitPartly, "1 longer than what is kept"},
		"both":      {[]bcp.Redecision{differs, comparison(bcp.ComparedCut)}, exitFailed, "0 same, 1 differ"},
		"incident":  {[]bcp.Redecision{incident}, exitFailed, "push s (incident)"},
		"many":      {[]bcp.Redecision{differs, differs, differs}, exitFailed, "P3.3 verdict: 3 decisions differ"},
		"many more": {[]bcp.Redecision{differs, differs, differs}, exitFailed, "and 1 more: "},
	} {
		for _, asJSON := range []bool{false, true} {
			var stdout, stderr bytes.Buffer
			o := newOutput(&stdout, &stderr, func(string) string { return "" })
			o.json = asJSON
			r := redecided{out: o, flags: &redecideFlags{number: numberFlag{value: 2}}, versions: map[bcp.Digest]string{}, groups: map[groupKey]*redecidedGroup{}}
			for i, result := range c.results {
				d := bcp.Decision{Seq: uint64(i + 1), Kind: bcp.KindPush, Agent: "mail", Subscription: "s"}
				if err := r.each(&d, result); err != nil {
					t.Fatal(err)
				}
			}
			if got := o.finish(r.finish()); got != c.code {
				t.Errorf("%s: exit code %d, want %d: %s", name, got, c.code, &stderr)
			}
			shown := stdout.String()
			if !asJSON && !strings.Contains(shown, c.says) || strings.ContainsAny(shown, "\x1b\u202e") || strings.Contains(shown, "canary") {
				t.Errorf("%s: %s", name, shown)
			}
		}
	}
}

// A person sees no secret in an answer that was decided again; JSON has it.
//
// covers ALF-48
func TestRedecidedAnswersAreRedacted(t *testing.T) {
	t.Parallel()
	const answer = `{"q":"password: x9k-mfa2z"}`
	r := &redecided{flags: &redecideFlags{raw: true}}
	j := &bcp.Judgement{Verdict: bcp.Accept, Payload: []byte(answer)}
	if cell := r.words(j); !strings.Contains(cell, "[REDACTED:dotenv]") || strings.Contains(cell, "x9k-mfa2z") {
		t.Errorf("%s", cell)
	}
	if line := r.judgement(j); string(line.Response) != answer {
		t.Errorf("%s", line.Response)
	}
}
