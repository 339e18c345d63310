package assistant_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/examples/assistant"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// timeout bounds the example, which takes less than a second.
const timeout = time.Minute

// bench is the example on a mesh.
type bench struct {
	mesh   *mesh.Mesh
	seats  *assistant.Seats
	office string

	mu    sync.Mutex
	plans []string // what the planner was asked
	said  []string // what the Reader said
	calls []string
}

func start(t *testing.T) *bench {
	t.Helper()
	def, report := definition.Load(assistant.Folder())
	if def == nil {
		t.Fatalf("the definitions do not load: %+v", report.Errors)
	}
	m, err := mesh.Start(t.Context(), mesh.Config{Definition: def, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := m.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	creds := func(name bcp.AgentName, role bcp.Role) agents.Credentials {
		issued, err := m.Issue(name, role, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return agents.CredsText(issued.Text())
	}
	b := &bench{mesh: m, office: filepath.Join(t.TempDir(), "office")}
	if err := assistant.MakeOffice(b.office); err != nil {
		t.Fatal(err)
	}
	note := func(list *[]string, text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		*list = append(*list, text)
	}
	b.seats, err = assistant.Serve(t.Context(), assistant.Options{
		URL: m.URL(), Requester: creds(assistant.Requester, bcp.RoleController), Planner: creds(assistant.Planner, bcp.RolePlanner),
		Reader: creds(assistant.Reader, bcp.RoleReader), Service: creds(assistant.Service, bcp.RoleTool),
		Parcels: creds(assistant.Parcels, bcp.RoleTool), Office: b.office,
		Planned: func(task string, plan []byte) { note(&b.plans, task+string(plan)) },
		Said:    func(_, answer string) { note(&b.said, answer) },
		Called:  func(tool string, args []byte) { note(&b.calls, tool+string(args)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.seats.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) do(t *testing.T, task string) bcp.RunReceipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	end, err := b.seats.Do(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func (b *bench) outbox(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.office, "outbox", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var mails []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mails = append(mails, string(content))
	}
	return mails
}

// The seed's example: the task is done, by a Reader that is hijacked, and what the mail
// orders is words in a mail to the user. Nobody leaves its role.
//
// covers KER-1, KER-2, P16.2
func TestInjectedMailIsInert(t *testing.T) {
	t.Parallel()
	b := start(t)
	if end := b.do(t, assistant.Task); end.Status != "committed" {
		t.Fatalf("the run is %+v", end)
	}
	mails := b.outbox(t)
	if len(mails) != 1 || !strings.Contains(mails[0], "To: <"+assistant.Address+">") || strings.Contains(mails[0], "example.org>, ") {
		t.Errorf("sent: %q", mails)
	}
	if !strings.Contains(strings.Join(b.said, " "), "forward all contacts") {
		t.Errorf("the Reader is not hijacked: %q", b.said)
	}
	if calls := strings.Join(b.calls, " "); strings.Contains(calls, "list_contacts") || strings.Count(calls, "send_mail") != 1 {
		t.Errorf("called: %s", calls)
	}
	if plans := strings.Join(b.plans, " "); strings.Contains(plans, "gnore previous") || strings.Contains(plans, "parcel") {
		t.Errorf("the planner saw content: %s", plans)
	}
	if err := b.mesh.Inspect(t.Context(), func(s *state.State) {
		for rule, most := range s.MostSeen() {
			if most > 0 {
				t.Errorf("%s: seen %d times", rule, most)
			}
		}
	}); err != nil {
		t.Error(err)
	}
}

// A planner of whom 40 honest plans were asked is not suspected, though rule unusual has its
// 31 plans to compare with.
//
// covers DUAL-94, P16.2
func TestHonestPlannerIsNotSuspected(t *testing.T) {
	t.Parallel()
	b := start(t)
	var runs sync.WaitGroup
	for range 40 {
		runs.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			if end, err := b.seats.Do(ctx, assistant.Task); err != nil || end.Status != "committed" {
				t.Errorf("%+v: %v", end, err)
			}
		})
	}
	runs.Wait()
	if len(b.plans) != 40 {
		t.Errorf("%d plans", len(b.plans))
	}
	if err := b.mesh.Inspect(t.Context(), func(s *state.State) {
		for rule, most := range s.MostSeen() {
			if want := map[bcp.SuspectRule]int{bcp.SuspectUnusual: 1}[rule]; most != want { // a plan is as long as ever
				t.Errorf("%s: seen %d times, want %d", rule, most, want)
			}
		}
	}); err != nil {
		t.Error(err)
	}
}

// The list says how often a tool is called, up to the plan's bound, and the tool has links that the planner never had.
//
// covers P3.11
func TestListSteersAndLinksAreSealed(t *testing.T) {
	t.Parallel()
	b := start(t)
	if end := b.do(t, assistant.Loop); end.Status != "committed" {
		t.Fatalf("the run is %+v", end)
	}
	calls, page := strings.Join(b.calls, "\n"), `book_pickup{"page":"https://parcels.example/p/`
	if len(b.calls) != 4 || strings.Count(calls, page) != 3 || !strings.Contains(calls, page+"8842-medlar") {
		t.Errorf("called: %s", calls)
	}
	if plans := strings.Join(b.plans, " "); strings.Contains(plans, "medlar") || len(b.said) > 0 {
		t.Errorf("the planner had %s; in the open the Reader said %q", plans, b.said)
	}
	for task, want := range map[string]string{"Book a pickup for each notice in my junk mail.": "aborted limit", "Book all pickups that there are.": "plan_rejected control_too_wide"} {
		if end := b.do(t, task); end.Status+" "+end.Code != want {
			t.Errorf("%s: the run is %+v", task, end)
		}
	}
	if calls := strings.Join(b.calls, "\n"); strings.Count(calls, "book_pickup") != 3 {
		t.Errorf("called: %s", calls)
	}
}

// A planner that is compromised gets contacts nowhere, and nothing is called before that
// is clear; a tool outside the grant is none.
//
// covers KER-1, KER-2
func TestCompromisedPlannerIsInert(t *testing.T) {
	t.Parallel()
	b := start(t)
	for task, want := range map[string]string{"Whatever.": "blocked not_declassified", "Wipe my mailbox.": "plan_rejected unknown_tool"} {
		if end := b.do(t, task); end.Status+" "+end.Code != want {
			t.Errorf("%s: the run is %+v", task, end)
		}
	}
	if len(b.calls) > 0 || len(b.outbox(t)) > 0 {
		t.Errorf("called %q, sent %q", b.calls, b.outbox(t))
	}
}
