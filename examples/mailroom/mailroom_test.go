package mailroom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/examples/mailroom"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// timeout bounds a run over the example mail, which takes about a second.
const timeout = time.Minute

// decisions collects what the gateway of a mesh decides.
type decisions struct {
	mu  sync.Mutex
	all []bcp.Decision
}

func (d *decisions) add(one *bcp.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, *one)
}

// until waits for a state of the decisions, and returns them.
func (d *decisions) until(t *testing.T, done func([]bcp.Decision) bool) []bcp.Decision {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		d.mu.Lock()
		all := slices.Clone(d.all)
		d.mu.Unlock()
		if done(all) {
			return all
		}
	}
	t.Fatal("the mesh does not come to rest")
	return nil
}

// start runs the mesh of the example.
func start(ctx context.Context, state string, decided func(*bcp.Decision)) (*mesh.Mesh, mailroom.Options, error) {
	def, report := definition.Load(mailroom.Definitions())
	if def == nil {
		return nil, mailroom.Options{}, fmt.Errorf("the definitions: %v", report.Errors)
	}
	m, err := mesh.Start(ctx, mesh.Config{Definition: def, State: state, OnDecision: decided})
	if err != nil {
		return nil, mailroom.Options{}, err
	}
	reader, err := m.Issue(mailroom.ReaderAgent, bcp.RoleReader, time.Hour)
	if err != nil {
		return nil, mailroom.Options{}, err
	}
	assistant, err := m.Issue(mailroom.AssistantAgent, bcp.RoleController, time.Hour)
	if err != nil {
		return nil, mailroom.Options{}, err
	}
	return m, mailroom.Options{URL: m.URL(), Reader: agents.CredsText(reader.Text()), Assistant: agents.CredsText(assistant.Text()), Mail: mail.FS}, nil
}

// The assistant learns validated values and nothing else: every delivery is in
// its one spelling, what the attacker said arrives nowhere as it was said, and
// what arrives of its words at all is category 2 text within its word limit. Nobody leaves
// its role.
//
// covers P3.1, P3.3, P3.4, P16.2
func TestRunLetsValidatedValuesThrough(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var heard decisions
	m, options, err := start(ctx, t.TempDir(), heard.add)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	var mu sync.Mutex
	var hijacked []string // every text that the attacker sent
	options.Said = func(s mailroom.Said) {
		if !s.Hijacked {
			return
		}
		var values map[string]any
		if err := json.Unmarshal([]byte(s.Raw), &values); err != nil {
			t.Errorf("what the reader says is not JSON: %s", s.Raw)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, value := range values {
			if text, ok := value.(string); ok && len(strings.Fields(text)) > 3 {
				hijacked = append(hijacked, text)
			}
		}
	}
	acts, number, hostile := 0, 0, 0
	options.Did = func(string) {
		mu.Lock()
		defer mu.Unlock()
		acts++
	}
	options.After = func(done mailroom.Done) error {
		number++
		if done.Number != number {
			t.Errorf("message %d came as number %d", number, done.Number)
		}
		if done.Injection != nil {
			hostile++
		}
		return nil
	}
	if err := mailroom.Run(ctx, options); err != nil {
		t.Fatal(err)
	}
	if number != 40 || hostile < 8 {
		t.Errorf("%d messages, %d of them hostile", number, hostile)
	}

	delivered, held, refused := 0, 0, 0
	for _, d := range heard.until(t, bothLeft) {
		if d.Event == string(bcp.AlertSuspect) {
			t.Errorf("%s is suspected: %s", d.Agent, d.Rule)
		}
		switch d.Verdict {
		case bcp.Hold:
			held++
		case bcp.Reject:
			refused++
		}
		if d.Delivery == "" || d.Outcome != "" || d.Payload == nil {
			continue
		}
		delivered++
		payload := string(d.Payload)
		if payload != strings.ToLower(payload) || strings.ContainsFunc(payload, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("not in its one spelling: %s", payload)
		}
		var values map[string]any
		if err := json.Unmarshal(d.Payload, &values); err != nil {
			t.Errorf("not JSON: %s", payload)
		}
		for _, raw := range hijacked {
			if strings.Contains(payload, raw) {
				t.Errorf("what the attacker said arrived as it was said: %s", payload)
			}
		}
		for name, value := range values {
			text, ok := value.(string)
			switch words := len(strings.Fields(text)); {
			case !ok:
			case d.Category == 1 && words != 1, words > 24, d.Subscription != "" && words > 12:
				t.Errorf("category %d, %s: %q", d.Category, name, text)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if delivered < 40 || held == 0 || refused == 0 || acts == 0 || len(hijacked) < hostile {
		t.Errorf("%d delivered, %d held, %d refused, %d acts, %d texts of attackers", delivered, held, refused, acts, len(hijacked))
	}
}

// An error of After ends the run, and so does its context.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	m, options, err := start(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	enough := errors.New("enough")
	options.After = func(mailroom.Done) error { return enough }
	if err := mailroom.Run(ctx, options); !errors.Is(err, enough) {
		t.Errorf("%v, want %v", err, enough)
	}
	options.After = func(mailroom.Done) error { cancel(); return nil }
	if err := mailroom.Run(ctx, options); err == nil {
		t.Error("it goes on although its context has ended")
	}
}

// bothLeft says that both agents are gone. An acknowledgement may come behind:
// each agent has a lane of its own to the gateway.
func bothLeft(all []bcp.Decision) bool {
	left := 0
	for i := range all {
		if all[i].Kind == bcp.KindDisconnect {
			left++
		}
	}
	return left == 2
}
