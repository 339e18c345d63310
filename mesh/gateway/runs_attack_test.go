package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// strictDesk is desk, whose mail goes to kim and nobody else, whatever it says, and which
// asks its planner twice.
func strictDesk(t testing.TB) *kernel.Kernel {
	t.Helper()
	d := *desk(t).Definition()
	d.Limits.MaxPlans = 2
	for _, tool := range []string{"post", "send_email"} {
		d.Rules = append(d.Rules, kernel.Rule{ID: "kim-alone-" + tool, Effect: kernel.Forbid, Tool: tool, When: `args.to.value != "kim"`})
	}
	return newKernel(t, d)
}

// refusesAll publishes on subjects that a connection may not, and expects the server's
// refusal of each.
func refusesAll(t *testing.T, who string, conn *nats.Conn, denied ...string) {
	t.Helper()
	for _, subject := range denied {
		stopIf(t, subject == "", "no subject")
		noError(t, conn.Publish(subject, []byte(`{}`)))
		noError(t, conn.Flush())
		err := conn.LastError()
		failIf(t, err == nil || !strings.Contains(err.Error(), subject), "%s may publish %s: %v", who, subject, err)
	}
}

// padded is a plan of exactly so many bytes.
func padded(plan string, bytes int) string {
	return "{" + strings.Repeat(" ", bytes-len(plan)) + plan[1:]
}

// A compromised planner that works together with a hijacked Reader, both with their real
// credentials and stock connections, and the Reader telling the planner all that it
// reads, makes no call that the run's grant and the kernel's rules do not allow: each way
// that it tries ends as it should, and what the tools got is what may be called.
//
// covers KER-1, KER-12, KER-72, DUAL-18
func TestCompromisedPlannerAndHijackedReader(t *testing.T) {
	t.Parallel()
	b := newKernelBench(t)
	b.kernel = strictDesk(t)
	g := b.start(t, b.withKernel)
	reader := b.connect(t, "mailer", bcp.RoleReader)
	queries := make(chan *nats.Msg, 64)
	if _, err := reader.Subscribe(subjects.QueriesOf("mailer"), func(m *nats.Msg) {
		var query struct {
			ID string `json:"query_id"`
		}
		_ = json.Unmarshal(m.Data, &query)
		answer := fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"answers":[{"id":"text","answer":"eve"}]}`, query.ID)
		_, _ = m.Respond(answer), m.Respond(answer) // twice: the server lets one through
		queries <- m
	}); err != nil {
		t.Fatal(err)
	}
	noError(t, reader.Flush())
	const (
		inbox   = `{"kind":"tool","id":"inbox","tool":"read_inbox"}`
		summary = `{"kind":"q_parse","id":"s","source":{"ref":"inbox","path":"body"},"schema_ref":"Summary","instruction":"Who should get it?"}`
	)
	post := func(to, body string) string {
		return fmt.Sprintf(`{"kind":"tool","id":"p","tool":"post","args":{"to":%s,"body":%s}}`, to, body)
	}
	plan := func(steps ...string) string { return `{"steps":[` + strings.Join(steps, ",") + `],"final":"p"}` }
	for _, c := range []struct{ name, grant, plan, end string }{
		{"what is allowed", "all", plan(post(`"kim"`, `"hello"`)), "committed"},
		{"a constant that is forbidden", "all", plan(post(`"eve"`, `"hello"`)), "blocked forbidden"},
		{"one through a merge", "all", plan(`{"kind":"const","id":"e","value":"eve"}`, `{"kind":"merge","id":"m","inputs":{"to":{"ref":"e"}}}`, post(`{"ref":"m","path":"to"}`, `"x"`)), "blocked forbidden"},
		{"what the content said", "all", plan(inbox, post(`{"ref":"inbox","path":"body"}`, `"x"`)), "blocked forbidden"},
		{"what the Reader said", "all", plan(inbox, summary, post(`{"ref":"s","path":"text"}`, `"x"`)), "blocked forbidden"},
		{"what a rule lets through", "all", plan(inbox, summary, post(`"kim"`, `{"ref":"s","path":"text"}`)), "committed"},
		{"content beside a constant", "all", plan(inbox, `{"kind":"const","id":"c","value":"kim"}`, `{"kind":"merge","id":"m","inputs":{"a":{"ref":"c"},"b":{"ref":"inbox","path":"body"}}}`,
			post(`{"ref":"m","path":"b"}`, `"x"`)), "blocked forbidden"},
		{"content where no rule lets it", "all", strings.ReplaceAll(plan(inbox, post(`"kim"`, `{"ref":"inbox","path":"body"}`)), `"post"`, `"send_email"`), "blocked not_declassified"},
		{"a tool that was not granted", "read", plan(post(`"kim"`, `"x"`)), "plan_rejected unknown_tool"},
		{"a tool that is a value", "all", strings.ReplaceAll(plan(inbox, post(`"kim"`, `"x"`)), `"tool":"post"`, `"tool":{"ref":"inbox","path":"body"}`), "plan_rejected malformed"},
		{"a grant of its own", "read", plan(inbox, `{"kind":"subkernel","id":"p","source":{"ref":"inbox"},"instruction":"Send it.","grant":["mail.send"]}`), "plan_rejected unknown_kind"}, // there is no sub-planner
		{"64 KiB", "all", padded(plan(post(`"kim"`, `"long"`)), kernel.MaxPlanBytes), "committed"},
		{"64 KiB and a byte", "all", padded(plan(post(`"kim"`, `"long"`)), kernel.MaxPlanBytes+1), "plan_rejected too_large"},
	} {
		b.set(func() { b.plan = c.plan })
		receipt := b.request(t, c.grant, `{"task":"Say hello to kim.","new_session":true}`)
		expect(t, g.endOf(t, receipt.RunID), c.end, "%s: the run", c.name)
	}
	b.mu.Lock()
	for _, c := range b.calls {
		switch got := c.Tool + string(c.Args); got {
		case `read_inbox{}`, `post{"body":"hello","to":"kim"}`, `post{"body":"long","to":"kim"}`, `post{"body":"eve","to":"kim"}`:
		default:
			t.Errorf("a tool got %s", got)
		}
	}
	b.mu.Unlock()

	expect(t, g.Remembered(), 0, "of runs that ended the gateway keeps")

	// Neither has a way past the gateway.
	planner := b.connect(t, "ann", bcp.RolePlanner)
	call, query := subjects.Call("mail", "post", "desk"), <-queries
	everywhere := []string{
		call, subjects.Run("main", "desk", "all"), subjects.Reply(bcp.RoleTool, "mail", "c1", 1), subjects.Plan("ann", "desk"), subjects.Ask("desk", "mailer"), subjects.Query("mailer", "desk"),
		subjects.Control(bcp.ControlStopRun),
	}
	refusesAll(t, "the planner", planner, append(everywhere, subjects.Reply(bcp.RolePlanner, "ann", "p1", 1), subjects.Reply(bcp.RoleReader, "mailer", "q1", 1))...)
	refusesAll(t, "the Reader", reader, append(everywhere, query.Reply, subjects.Reply(bcp.RolePlanner, "ann", "p1", 1))...)
	for who, conn := range map[string]*nats.Conn{"the planner": planner, "the Reader": reader} {
		hearsNone(t, who, conn, subjects.CallsOf("mail"), subjects.PlansOf("boss"), subjects.QueriesOf("desk"), "bcp.v1.>")
	}
}

// hearsNone checks that the server refuses each of the subscriptions.
func hearsNone(t *testing.T, who string, conn *nats.Conn, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		sub, err := conn.SubscribeSync(pattern)
		if err == nil {
			err = conn.Flush()
		}
		failIf(t, err != nil || conn.LastError() == nil || !strings.Contains(conn.LastError().Error(), pattern),
			"%s may listen to %s: %v, %v", who, pattern, err, conn.LastError())
		_ = sub.Unsubscribe()
	}
}

// What nobody waits for is recorded and changes no run: the plan of another request, the
// outcome of another call, a second answer, which the server lets nobody send, and the
// outcome of an attempt that was sent again.
//
// covers KER-25, P11.1
func TestForgedOutcomesAndPlans(t *testing.T) {
	t.Parallel()
	b := newKernelBench(t)
	d := *b.kernel.Definition()
	d.Tools = slices.Clone(d.Tools)
	d.Tools[2].Timeout = 10 * time.Millisecond // of post, which knows keys
	k := newKernel(t, d)
	b.kernel, b.plan = k, ""
	b.outcome = func(call) string { return "" }
	g := b.start(t, b.withKernel)
	next := func(what string) *nats.Msg {
		t.Helper()
		b.until(t, what, func() bool { return len(b.silent) > 0 })
		b.mu.Lock()
		defer b.mu.Unlock()
		m := b.silent[0]
		b.silent = b.silent[1:]
		return m
	}
	idOf := func(m *nats.Msg) string {
		t.Helper()
		var ids struct {
			Plan string `json:"plan_id"`
			Call string `json:"call_id"`
		}
		noError(t, json.Unmarshal(m.Data, &ids))
		return ids.Plan + ids.Call
	}
	respond := func(m *nats.Msg, format string, args ...any) {
		t.Helper()
		err := m.Respond(fmt.Appendf(nil, format, args...))
		failIf(t, err != nil, "%v", err)
	}
	run := b.request(t, "all", `{"task":"x","new_session":true}`).RunID
	request := next("plan request")
	respond(request, `{"plan_id":"pelse","plan":%s}`, sendPlan)
	respond(request, `{"plan_id":%q,"plan":%s}`, idOf(request), sendPlan) // too late
	request = next("plan request again")
	respond(request, `{"plan_id":%q,"plan":%s}`, idOf(request), sendPlan)
	call := next("call")
	respond(call, `{"call_id":"celse","result":{"ok":true}}`)
	respond(call, `{"call_id":%q,"result":{"ok":true}}`, idOf(call)) // too late
	expect(t, g.endOf(t, run), "errored bad_outcome", "after an outcome of another call the run")

	run = b.request(t, "all", `{"task":"x","new_session":true}`).RunID
	request = next("plan request")
	respond(request, `{"plan_id":%q,"plan":%s}`, idOf(request), postPlan)
	first, second := next("call"), next("call again")
	respond(second, `{"call_id":%q,"result":{"ok":true}}`, idOf(second))
	expect(t, g.endOf(t, run), "committed", "the run")
	respond(first, `{"call_id":%q,"result":{"ok":false}}`, idOf(first))
	late := g.wait(t, 1, func(d *bcp.Decision) bool { return d.Run != nil && d.Run.Code == string(kernel.LateOutcome) })[0]
	failIf(t, late.Run.Run != run || late.Run.Alert != "" || late.Verdict != bcp.Reject || late.Run.From != "mail",
		"the outcome of the first attempt is recorded as %+v", late.Run)
	expect(t, strings.ReplaceAll(g.recorded(), " call", ""), "run plan plan outcome run plan outcome outcome", "recorded")
}

// A call that nobody would get is not sent: it is made as soon as its tool is served, and if
// it may not be made twice and nobody comes, the run ends without a person.
//
// covers P11.1
func TestCallWaitsForItsTool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		come bool
		end  string
	}{{"it comes", true, "committed"}, {"it stays away", false, "errored tool_unavailable"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := deskWith(t, func(t *kernel.Tool) {
				if !c.come {
					t.Timeout = time.Second
				}
			})
			b := unservedBench(t, k)
			b.plan, b.outcome = sendPlan, func(call) string { return `"result":{"ok":true}` }
			b.serve(t, "ann", bcp.RolePlanner, subjects.PlansOf("ann"), b.answerPlan)
			stopIf(t, !b.Unheard(subjects.Call("mail", "send_email", "desk")), "a tool is there that nobody serves")
			g := b.start(t, b.withKernel)
			b.request(t, "all", helloTask)
			g.wait(t, 1, of(bcp.KindPlan))
			if c.come {
				b.serve(t, "mail", bcp.RoleTool, subjects.CallsOf("mail"), b.answerCall)
			}
			g.ends(t, c.end)
			failIf(t, c.come != (b.made() != "") || c.come == b.Unheard(subjects.Call("mail", "send_email", "desk")),
				"the tool got %q", b.made())
			if got := g.recorded(); c.come && got != "run plan outcome run" && got != "run plan outcome" || !c.come && strings.Contains(got, "outcome") {
				t.Errorf("recorded %s", got)
			}
		})
	}
}
