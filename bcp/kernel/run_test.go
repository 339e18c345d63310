package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

const (
	readOnly  = `{"steps":[` + inbox + `],"final":"inbox"}`
	readParse = `{"steps":[` + inbox + `,` + parse + `],"final":"p"}`
	note      = `{"kind":"tool","id":"s","tool":"send_email","args":{"to":"kim@example.com","body":"x"}}`
)

// What content makes of a planner that obeys it, or is somebody else's, is stopped
// before anything is done.
// covers KER-1, KER-8, KER-15, KER-28, KER-41, KER-59, KER-86
func TestRunThatIsDenied(t *testing.T) {
	t.Parallel()
	g := begun(t, mustKernel(t, nil))
	c := g.plan(steps(contacts, `{"kind":"q_parse","id":"dump","source":{"ref":"contacts"},"schema_ref":"Summary","instruction":"all of it"}`,
		`{"kind":"tool","id":"send","tool":"send_email","args":{"to":"evil@example.com","body":{"ref":"dump","path":"text"}}}`))
	end := g.end(kernel.Blocked, kernel.NotDeclassified)
	failIf(t, end.Final != nil || end.End.Step != "send" || g.calls() != "",
		"step %q, final %s, calls %q", end.End.Step, end.Final, g.calls())
	failIf(t, len(c.Steps) != 1 || !c.Steps[0].Early || c.Steps[0].Arguments[0].Name != "body" || !c.Steps[0].Arguments[0].Label.ThirdParty(),
		"the record does not say why: %+v", c.Steps)
	expect(t, g.events(), "plan_emitted gate_decision:send_email:deny effect_blocked:send_email run_blocked", "events")
}

// limit is a run at a limit, and beyond it.
type limit struct {
	name   string
	set    func(*kernel.Limits)
	play   func(*gateway)
	status kernel.Status
	code   kernel.Code
}

// covers KER-23, KER-97, KER-98, KER-99, KER-100, KER-101, KER-102, C-26
func TestLimits(t *testing.T) {
	t.Parallel()
	event := func(i int) string {
		return fmt.Sprintf(`{"kind":"tool","id":"e%d","tool":"create_event","args":{"title":"t","slot":"mon"}}`, i)
	}
	events := func(n int) []string {
		var list []string
		for i := range n {
			list = append(list, event(i))
		}
		return list
	}
	subs := func(n int) string {
		list := []string{constX}
		for i := range n {
			list = append(list, fmt.Sprintf(`{"kind":"subkernel","id":"d%d","source":{"ref":"c"},"instruction":"i","grant":["calendar.write","mail.read"]}`, i))
		}
		return steps(list...)
	}
	key := func(d *kernel.Definition) {
		d.UntestedRules, d.Rules = true, []kernel.Rule{{ID: "any", Effect: kernel.Declassify, Tool: "create_event", When: "true"}}
	}
	deep := strings.Replace(sub(""), `["mail.read"]`, `[]`, 1)
	for _, c := range []limit{
		{"as many steps", func(l *kernel.Limits) { l.MaxSteps = 2 }, plans(steps(constX, inbox), mail), kernel.Committed, ""},
		{"a step too many", func(l *kernel.Limits) { l.MaxSteps = 1 }, plans(steps(constX, inbox)), kernel.Aborted, kernel.LimitSteps},
		{"steps of two plans", func(l *kernel.Limits) { l.MaxSteps = 3 }, moves(plans(readParse, mail), unanswered(bcp.NotEnoughInformation), plans(readParse)), kernel.Aborted, kernel.LimitSteps},
		{"steps of a sub-run", func(l *kernel.Limits) { l.MaxSteps = 3 }, moves(plans(steps(constX, sub(""))), subPlans(steps(constX, inbox))), kernel.Aborted, kernel.LimitSteps},

		{"as many effects", func(l *kernel.Limits) { l.MaxEffects = 2 }, plans(steps(events(2)...), `{"ok":true}`, `{"ok":true}`), kernel.Committed, ""},
		{"an effect too many, before the first", func(l *kernel.Limits) { l.MaxEffects = 1 }, plans(steps(events(2)...)), kernel.Aborted, kernel.LimitEffects},
		{"no effects", func(l *kernel.Limits) { l.MaxEffects = 0 }, plans(readOnly), kernel.Aborted, kernel.LimitEffects},
		{"pure calls count", func(l *kernel.Limits) { l.MaxEffects = 0 }, plans(steps(words(`["a"]`))), kernel.Aborted, kernel.LimitEffects},
		{"effects of sub-runs", func(l *kernel.Limits) { l.MaxEffects = 3 }, moves(plans(subs(2)), subPlans(steps(events(2)...), `{"ok":true}`, `{"ok":true}`), subPlans(steps(events(2)...))), kernel.Aborted, kernel.LimitEffects},
		{"what was done is not counted again", func(l *kernel.Limits) { l.MaxEffects = 2 }, moves(plans(steps(inbox, parse), mail), unanswered(bcp.NotEnoughInformation), plans(steps(inbox, parse, event(0))), answers(`{"text":"x"}`), results(`{"ok":true}`)), kernel.Committed, ""},

		{"as many parses", func(l *kernel.Limits) { l.MaxParses = 1 }, moves(plans(readParse, mail), answers(`{"text":"x"}`)), kernel.Committed, ""},
		{"no parses", func(l *kernel.Limits) { l.MaxParses = 0 }, plans(readParse), kernel.Aborted, kernel.LimitParses},
		{"a parse that failed counts", func(l *kernel.Limits) { l.MaxParses = 1 }, moves(plans(readParse, mail), unanswered(bcp.Rejected), plans(readParse)), kernel.Aborted, kernel.LimitParses},

		{"as deep", func(l *kernel.Limits) { l.MaxDepth = 1 }, moves(plans(steps(constX, deep)), subPlans(steps(constX))), kernel.Committed, ""},
		{"no sub-runs", func(l *kernel.Limits) { l.MaxDepth = 0 }, plans(steps(constX, deep)), kernel.Aborted, kernel.LimitDepth},
		{"too deep", func(l *kernel.Limits) { l.MaxDepth = 1 }, moves(plans(steps(constX, deep)), subPlans(steps(constX, deep))), kernel.Aborted, kernel.LimitDepth},

		{"no plans", func(l *kernel.Limits) { l.MaxPlans = 0 }, func(*gateway) {}, kernel.Aborted, kernel.LimitPlans},
		{"the last plan is bad", func(l *kernel.Limits) { l.MaxPlans = 2 }, moves(plans(`{}`), plans(`{}`)), kernel.PlanRejected, kernel.Malformed},
		{"the last plan fails", func(l *kernel.Limits) { l.MaxPlans = 2 }, moves(plans(`{}`), plans(readOnly), outcomes(`"error":"x"`)), kernel.Errored, kernel.ToolFailed},

		{"as many planner bits", func(l *kernel.Limits) { l.MaxPlannerBits = 5 }, moves(plans(`{}`), plans(steps(constX))), kernel.Committed, ""},
		{"a planner bit too many", func(l *kernel.Limits) { l.MaxPlannerBits = 4 }, plans(`{}`), kernel.Aborted, kernel.LimitPlannerBits},
		{"errors of many steps say more", func(l *kernel.Limits) { l.MaxPlannerBits = 11 }, plans(strings.Replace(manySteps(200), `"const"`, `"loop"`, 1)), kernel.Aborted, kernel.LimitPlannerBits},

		{"as large a value", func(l *kernel.Limits) { l.MaxValueBytes = 4 }, plans(steps(`{"kind":"const","id":"c","value":"ab"}`)), kernel.Committed, ""},
		{"a final value too large", func(l *kernel.Limits) { l.MaxValueBytes = 4 }, plans(steps(`{"kind":"const","id":"c","value":"abc"}`)), kernel.Aborted, kernel.LimitValueBytes},
		{"an outcome too large", func(l *kernel.Limits) { l.MaxValueBytes = len(mail) - 1 }, plans(readOnly, mail), kernel.Aborted, kernel.LimitValueBytes},
		{"a merge too large", func(l *kernel.Limits) { l.MaxValueBytes = 40 }, plans(steps(`{"kind":"const","id":"c","value":"`+strings.Repeat("x", 30)+`"}`, merged(`{"a":{"ref":"c"},"b":{"ref":"c"}}`))), kernel.Aborted, kernel.LimitValueBytes},
		{"content too large", func(l *kernel.Limits) { l.MaxValueBytes = 30 }, plans(steps(`{"kind":"const","id":"c","value":"`+strings.Repeat("x", 30)+`"}`, sub(""))), kernel.Aborted, kernel.LimitValueBytes},

		{"a silent planner", nil, passes, kernel.Aborted, kernel.PlannerTimeout},
		{"a silent planner of the second plan", nil, moves(plans(`{}`), passes), kernel.Aborted, kernel.PlannerTimeout},
		{"a silent sub-planner", nil, moves(plans(steps(constX, sub(""))), passes), kernel.Aborted, kernel.PlannerTimeout},
		{"a Reader that takes too long", nil, moves(plans(readParse, mail), passes), kernel.Aborted, kernel.LimitRunTTL},
		{"a tool that never answers", func(l *kernel.Limits) { l.RunTTL = 70 * time.Second }, moves(plans(readOnly), passes, passes, passes), kernel.Aborted, kernel.LimitRunTTL},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t, mustKernel(t, func(d *kernel.Definition) {
				key(d)
				if c.set != nil {
					c.set(&d.Limits)
				}
			}))
			g.begin("all")
			c.play(g)
			for len(g.todo) > 0 && g.todo[0].Kind == kernel.ReleaseCall { // sent again
				g.todo = g.todo[1:]
			}
			for len(g.todo) > 1 && g.todo[0].Kind != kernel.ReleaseOutcome {
				g.todo = g.todo[1:]
			}
			g.end(c.status, c.code)
		})
	}
}

// What goes wrong without harm gives the planner another try, and tells it a code.
// covers KER-103
func TestReplanning(t *testing.T) {
	t.Parallel()
	message := func(body string) func(*gateway) {
		return func(g *gateway) {
			r := g.next(kernel.ReleasePlan)
			g.store(g.state.DecidePlan(g.moment(), "planner", r.Wait.ID, []byte(strings.ReplaceAll(body, "ID", r.Wait.ID))))
		}
	}
	fine := message(fmt.Sprintf(`{"type":"bcp_plan","plan_id":"ID","plan":%q}`, steps(constX))) // a text is what it spells
	long := steps(contacts, `{"kind":"tool","id":"ev","tool":"create_event","args":{"title":{"ref":"contacts","path":"contacts.1.name"},"slot":"mon"}}`)
	for _, c := range []struct {
		name string
		play func(*gateway)
		told string
	}{
		{"a bad plan", plans(steps(`{"kind":"loop","id":"a"}`)), `[{"attempt":1,"code":"unknown_kind","step":"a"}]`},
		{"a tool that is not granted", plans(steps(`{"kind":"tool","id":"t","tool":"root"}`)), `[{"attempt":1,"code":"unknown_tool","step":"t"}]`},
		{"an id that is none is not told", plans(steps(`{"kind":"const","id":"a b","value":1}`)), `[{"attempt":1,"code":"bad_id","step":null}]`},
		{"no answer of the Reader's", moves(plans(readParse, mail), unanswered(bcp.NotEnoughInformation)), `[{"attempt":1,"code":"not_enough_information","step":"p"}]`},
		{"a bad answer", moves(plans(readParse, mail), unanswered(bcp.Rejected)), `[{"attempt":1,"code":"parse_rejected","step":"p"}]`},
		{"an answer that a person refused", moves(plans(readParse, mail), unanswered(bcp.ApprovalRejected)), `[{"attempt":1,"code":"parse_rejected","step":"p"}]`},
		{"an answer of another shape", moves(plans(readParse, mail), answers(`{"text":"x","more":"y"}`)), `[{"attempt":1,"code":"parse_rejected","step":"p"}]`},
		{"no answer in time", moves(plans(readParse, mail), unanswered(bcp.Expired)), `[{"attempt":1,"code":"parse_expired","step":"p"}]`},
		{"a read that failed", moves(plans(readOnly), outcomes(`"error":"secret"`)), `[{"attempt":1,"code":"tool_failed","step":"inbox"}]`},
		{"a read that lies", plans(readOnly, `{"latest":"x"}`), `[{"attempt":1,"code":"bad_outcome","step":"inbox"}]`},
		{"a read that answers nonsense", moves(plans(readOnly), outcomes(`"result":{},"error":"x"`)), `[{"attempt":1,"code":"bad_outcome","step":"inbox"}]`},
		{"a write that did nothing", moves(plans(steps(note)), outcomes(`"error":"no route","not_performed":true`)), `[{"attempt":1,"code":"tool_failed","step":"s"}]`},
		{"a list that is too short", plans(long, alice), `[{"attempt":1,"code":"index_missing","step":"ev"}]`},
		{"a text that is no choice", plans(steps(inbox, event(`"t"`, `{"ref":"inbox","path":"latest.subject"}`)), mail), `[{"attempt":1,"code":"bad_arguments","step":"ev"}]`},
		{"nothing", message(`{"plan_id":"ID"}`), `[{"attempt":1,"code":"planner_empty","step":null}]`},
		{"an empty text", message(`{"plan_id":"ID","plan":""}`), `[{"attempt":1,"code":"planner_empty","step":null}]`},
		{"null", message(`{"plan_id":"ID","plan":null}`), `[{"attempt":1,"code":"planner_empty","step":null}]`},
		{"a refusal", message(`{"plan_id":"ID","refused":true}`), `[{"attempt":1,"code":"planner_refused","step":null}]`},
		{"a refusal and a plan", message(`{"plan_id":"ID","refused":true,"plan":{}}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"no refusal", message(`{"plan_id":"ID","refused":false}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"no message", message(`plan`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"of another request", message(`{"plan_id":"x","plan":{}}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"with a message for us", message(`{"plan_id":"ID","plan":{},"note":"x"}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"two plans", message(`{"plan_id":"ID","plan":{},"plan":{}}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"of another type", message(`{"type":"bcp_response","plan_id":"ID","plan":{}}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"prose", message(`{"plan_id":"ID","plan":"Sure, here it is"}`), `[{"attempt":1,"code":"malformed","step":null}]`},
		{"a number", message(`{"plan_id":"ID","plan":7}`), `[{"attempt":1,"code":"planner_malformed","step":null}]`},
		{"a plan with a key twice", message(`{"plan_id":"ID","plan":{"steps":[],"steps":[],"final":"a"}}`), `[{"attempt":1,"code":"malformed","step":null}]`},
		{"a plan too large", message(`{"plan_id":"ID","plan":"` + strings.Repeat("x", kernel.MaxPlanBytes+1) + `"}`), `[{"attempt":1,"code":"too_large","step":null}]`},
		{"two errors", moves(plans(`{}`), plans(`{}`)), `[{"attempt":1,"code":"malformed","step":null},{"attempt":2,"code":"malformed","step":null}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t, mustKernel(t, func(d *kernel.Definition) {
				d.UntestedRules, d.Rules = true, []kernel.Rule{{ID: "any", Effect: kernel.Declassify, Tool: "create_event", When: "true"}}
			}))
			g.begin("all")
			c.play(g)
			failIf(t, g.told() != c.told, "got %s, want %s", g.told(), c.told)
			fine(g)
			g.end(kernel.Committed, "")
		})
	}
}

// What ends a run at once.
// covers KER-41, KER-108
func TestRunsThatEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		play   func(*gateway)
		status kernel.Status
		code   kernel.Code
		cause  kernel.Code
	}{
		{"a write that failed", moves(plans(steps(note)), outcomes(`"error":"SMTP 550"`)), kernel.Errored, kernel.ToolFailed, ""},
		{"a write after one that was made, which stays and is told", func(g *gateway) {
			moves(plans(steps(note, strings.ReplaceAll(note, `"id":"s"`, `"id":"t"`)), sent), outcomes(`"error":"x"`))(g)
			failIf(t, !strings.Contains(g.events(), "effect_committed:send_email") || !strings.HasSuffix(g.events(), "run_errored"), "got %s", g.events())
		}, kernel.Errored, kernel.ToolFailed, ""},
		{"a write that lies", plans(steps(note), `{"ok":"yes","message_id":"x"}`), kernel.Errored, kernel.BadOutcome, ""},
		{"a write that answers nonsense", moves(plans(steps(note)), outcomes(`"hello":1`)), kernel.Errored, kernel.BadOutcome, ""},
		{"a tool that has changed", moves(plans(steps(note)), outcomes(`"error":"x","not_performed":true,"code":"tool_changed"`), func(g *gateway) {
			expect(t, g.changes[len(g.changes)-1].Alert, kernel.ToolChanged, "the alert")
		}), kernel.Errored, kernel.ToolChanged, ""},
		{"a tool that has changed and was called", moves(plans(steps(note)), outcomes(`"error":"x","code":"tool_changed"`)), kernel.Errored, kernel.BadOutcome, ""},
		{"a tool with a code of its own", moves(plans(steps(note)), outcomes(`"error":"x","not_performed":true,"code":"permitted"`)), kernel.Errored, kernel.BadOutcome, ""},
		{"a channel without budget", moves(plans(readParse, mail), unanswered(bcp.BudgetExhausted)), kernel.Errored, kernel.ParseUnavailable, ""},
		{"a Reader that is not there", moves(plans(readParse, mail), unanswered(bcp.ReaderUnavailable)), kernel.Errored, kernel.ParseUnavailable, ""},
		{"a dispatcher that the server refuses", func(g *gateway) {
			g.plan(readOnly)
			g.store(g.state.DecideUnsent(g.moment(), g.next(kernel.ReleaseCall).Wait.ID, kernel.ToolUnavailable))
		}, kernel.Errored, kernel.ToolUnavailable, ""},
		{"a sub-run with a bad plan", moves(plans(steps(constX, sub(""))), subPlans(`{}`)), kernel.Errored, kernel.SubPlanRejected, kernel.Malformed},
		{"a sub-run that asks for what it has not", moves(plans(steps(constX, sub(""))), subPlans(steps(contacts))), kernel.Errored, kernel.SubPlanRejected, kernel.UnknownTool},
		{"a sub-run that is denied", moves(plans(steps(inbox, strings.NewReplacer("mail.read", "mail.send", `{"ref":"c"}`, `{"ref":"inbox"}`).Replace(sub(""))), mail), subPlans(steps(note))), kernel.Errored, kernel.SubBlocked, kernel.NotDeclassified},
		{"a sub-run whose read fails", moves(plans(steps(constX, sub(""))), subPlans(steps(inbox)), outcomes(`"error":"x"`)), kernel.Errored, kernel.SubErrored, kernel.ToolFailed},
		{"a sub-planner that refuses", moves(plans(steps(constX, sub(""))), func(g *gateway) { g.planner(kernel.ReleaseSubPlan, `"refused":true`) }), kernel.Errored, kernel.SubPlanRejected, kernel.PlannerRefused},
		{"somebody stops it", func(g *gateway) { g.next(kernel.ReleasePlan); g.stop() }, kernel.Stopped, kernel.Cancelled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := begun(t, mustKernel(t, nil))
			c.play(g)
			expect(t, g.end(c.status, c.code).End.Cause, c.cause, "cause")
			failIf(t, len(g.state.Unanswered()) != 0 || len(g.state.Pending()) != 0 || g.state.NextDue() != 0,
				"an ended run waits")
		})
	}
}

// A later plan that makes the same call has its outcome: nothing is done twice. The
// second of two equal calls of one plan is another call.
func TestEqualCallsAcrossPlans(t *testing.T) {
	t.Parallel()
	g := begun(t, mustKernel(t, nil))
	again := strings.ReplaceAll(note, `"id":"s"`, `"id":"again"`)
	other := strings.ReplaceAll(note, `"x"`, `"y"`)
	g.plan(steps(inbox, note, again, parse), mail, sent, `{"ok":false,"message_id":"m2"}`)
	g.answer("", bcp.NotEnoughInformation)
	g.plan(steps(strings.ReplaceAll(again, `"id":"again"`, `"id":"renamed"`), inbox, other, parse), `{"ok":true,"message_id":"m3"}`)
	g.answer("", bcp.NotEnoughInformation)
	g.plan(steps(inbox, note, again, other, `{"kind":"merge","id":"m","inputs":{"first":{"ref":"s"},"second":{"ref":"again"}}}`))
	g.next(kernel.ReleasePlan)
	want := `read_inbox{} send_email{"body":"x","to":"kim@example.com"} send_email{"body":"x","to":"kim@example.com"} send_email{"body":"y","to":"kim@example.com"}`
	failIf(t, g.calls() != want, "got %s", g.calls())
}

// An answer that was accepted is not asked for again.
func TestEqualParsesAcrossPlans(t *testing.T) {
	t.Parallel()
	g := begun(t, mustKernel(t, nil))
	other := strings.ReplaceAll(parse, `"p"`, `"q"`)
	g.plan(steps(inbox, parse, slots), mail)
	g.answer(`{"text":"x"}`, "")
	g.answer("", bcp.NotEnoughInformation)
	c := g.plan(steps(inbox, other, strings.ReplaceAll(slots, `"i"`, `"another instruction"`)))
	failIf(t, len(c.Steps) != 3 || !c.Steps[0].Reused || !c.Steps[1].Reused || c.Wait.Step != "s", "got %+v", c.Steps)
	// It was asked for after an error, which content chose: that is in its label.
	failIf(t, spelled(c.Steps[1].Label) != strings.ReplaceAll(strings.ReplaceAll(spelled(g.changes[3].Steps[0].Label), `"p"`, `"q"`), `["q_llm"`, `["derived","q_llm"`),
		"the label is %s", spelled(c.Steps[1].Label))
}

// What a person must look at waits for one, and is made only as it was shown.
func TestApprovals(t *testing.T) {
	t.Parallel()
	ask := func(d *kernel.Definition) {
		d.UntestedRules, d.Rules = true, []kernel.Rule{{ID: "look", Effect: kernel.Ask, Tool: "send_email", When: "!args.body.third_party"}}
		d.Limits.MaxPendingApprovals = 2
	}
	forbidding := mustKernel(t, func(d *kernel.Definition) {
		ask(d)
		d.Rules = append(d.Rules, kernel.Rule{ID: "never", Effect: kernel.Forbid, Tool: "send_email", When: "true"})
	})
	plan := steps(inbox, use(`{"ref":"inbox","path":"latest.body"}`))
	for _, c := range []struct {
		name   string
		play   func(*gateway)
		status kernel.Status
		code   kernel.Code
		calls  int
	}{
		{"approved", moves(decides(kernel.Approve, ""), results(sent)), kernel.Committed, "", 2},
		{"rejected", decides(kernel.Reject, ""), kernel.Blocked, kernel.ApprovalRejected, 1},
		{"nobody", func(g *gateway) { g.next(kernel.ReleaseItem); g.pass() }, kernel.Blocked, kernel.ApprovalExpired, 1},
		{"stopped", func(g *gateway) { g.next(kernel.ReleaseItem); g.stop() }, kernel.Stopped, kernel.Cancelled, 1},
		{"forbidden by now", moves(defines(forbidding), decides(kernel.Approve, "")), kernel.Blocked, kernel.Forbidden, 1},
		{"the time that people take is not the run's", moves(func(g *gateway) { g.now = g.now.Add(23 * time.Hour) }, decides(kernel.Approve, ""), results(sent)), kernel.Committed, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := planned(t, mustKernel(t, ask), plan, mail)
			c.play(g)
			g.end(c.status, c.code)
			expect(t, len(strings.Fields(strings.ReplaceAll(g.calls(), "at 3pm", ""))), c.calls, "calls %s", g.calls())
		})
	}
	t.Run("shown", func(t *testing.T) {
		g := planned(t, mustKernel(t, ask), plan, mail)
		item := g.next(kernel.ReleaseItem)
		failIf(t, string(item.Arguments) != `{"body":"at 3pm","to":"kim@example.com"}` || item.Tool.Name != "send_email" || item.Judged == nil || fmt.Sprint(item.Judged.Judged.Rules) != "[look]",
			"got %s %+v", item.Arguments, item.Judged)
		for _, decision := range []kernel.PersonDecision{"", kernel.Done, kernel.NotDone, "later"} {
			expect(t, g.state.DecidePerson(g.moment(), item.Wait.ID, decision, []byte(sent)).Code, kernel.UnknownItem, "decision %q", decision)
		}
		expect(t, g.state.DecidePerson(g.moment(), "ielse", kernel.Approve, nil).Code, kernel.UnknownItem, "another item")
		g.store(g.state.DecidePerson(g.moment(), item.Wait.ID, kernel.Approve, nil))
		expect(t, g.state.DecidePerson(g.moment(), item.Wait.ID, kernel.Approve, nil).Code, kernel.UnknownItem, "a second time")
		if call := g.next(kernel.ReleaseCall); string(call.Arguments) != string(item.Arguments) || call.Wait.Key != item.Wait.Key {
			t.Errorf("approved %s, called %s", item.Arguments, call.Arguments)
		}
	})
	t.Run("a full queue", func(t *testing.T) {
		g := newGateway(t, mustKernel(t, ask))
		for range 2 {
			g.begin("all")
			g.plan(plan, mail)
			g.next(kernel.ReleaseItem)
		}
		g.begin("all")
		g.plan(plan, mail)
		g.end(kernel.Blocked, kernel.ApprovalQueueFull)
	})
}

// A sub-run works on content with less than the run has: what hijacks it can do no
// more than that, and what it makes is as tainted as what it read.
// covers KER-49, KER-50, KER-69, DUAL-108
func TestSubRuns(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, func(d *kernel.Definition) {
		d.UntestedRules, d.Rules = true, []kernel.Rule{{ID: "own-events", Effect: kernel.Declassify, Tool: "create_event", When: "!args.title.third_party && !args.slot.third_party"}}
	})
	delegate := func(capability string) string {
		return steps(inbox, `{"kind":"subkernel","id":"d","source":{"ref":"inbox","path":"latest.body"},"instruction":"If a meeting is asked for, make it.","grant":["`+capability+`"]}`)
	}
	begin := func(plan string) *gateway { return planned(t, k, plan, mail) }
	t.Run("does its work", func(t *testing.T) {
		g := begin(delegate("calendar.write"))
		request := g.todo[0]
		if body := string(request.Body); !strings.Contains(body, `"content":"at 3pm"`) || !strings.Contains(body, "create_event") || strings.Contains(body, "send_email") || strings.Contains(body, "read_inbox") {
			t.Errorf("the sub-planner is given %s", body)
		}
		c := g.subPlan(steps(event(`"Meeting"`, `"mon"`)), `{"ok":true}`)
		end := g.end(kernel.Committed, "")
		want := `{"influence":{"d/ev":1,"inbox.latest.body":"unbounded"},"readers":[],"sources":["derived","q_llm","tool_read","user_query"],"subjects":["user"]}`
		got := spelled(end.End.Label)
		failIf(t, got != want || string(end.Final) != `{"ok":true}`, "got %s %s", got, end.Final)
		failIf(t, len(c.Steps) != 2 || c.Steps[0].Path != "d/ev" || c.Steps[1].Path != "d", "got %+v", c.Steps)
	})
	t.Run("has no more than the run", func(t *testing.T) {
		g := newGateway(t, k)
		g.begin("read")
		g.plan(delegate("mail.send"), mail)
		g.subPlan(steps(note))
		g.end(kernel.Errored, kernel.SubPlanRejected)
	})
	t.Run("makes what content chose without bound", func(t *testing.T) {
		g := begin(steps(inbox, `{"kind":"subkernel","id":"d","source":{"ref":"inbox","path":"latest.body"},"instruction":"i","grant":[]}`))
		g.subPlan(steps(constX))
		end := g.end(kernel.Committed, "")
		label := end.End.Label
		failIf(t, !label.Tainted() || label.Width() != kernel.Unbounded, "got %s", spelled(label))
	})
	t.Run("has a result of its schema", func(t *testing.T) {
		typed := steps(inbox, `{"kind":"subkernel","id":"d","source":{"ref":"inbox","path":"latest.body"},"instruction":"i","grant":[],"schema_ref":"Slot"}`)
		g := begin(typed)
		g.subPlan(steps(constX, `{"kind":"q_parse","id":"p","source":{"ref":"c"},"schema_ref":"Slot","instruction":"i"}`))
		g.answer(`{"urgent":true,"slot":"mon","n":3}`, "")
		end := g.end(kernel.Committed, "")
		if got := spelled(end.End.Label); string(end.Final) != `{"n":3,"slot":"mon","urgent":true}` || !strings.Contains(got, `"influence":{"d":6}`) {
			t.Errorf("got %s %s", got, end.Final)
		}
		g = begin(typed)
		g.subPlan(steps(constX))
		expect(t, g.told(), `[{"attempt":1,"code":"parse_rejected","step":"d"}]`, "told")
	})
	t.Run("made again has what was done", func(t *testing.T) {
		g := begin(steps(inbox, `{"kind":"subkernel","id":"d","source":{"ref":"inbox","path":"latest.body"},"instruction":"i","grant":["calendar.write"]}`, parse))
		g.subPlan(steps(event(`"Meeting"`, `"mon"`)), `{"ok":true}`)
		g.answer("", bcp.NotEnoughInformation)
		g.plan(delegate("calendar.write"))
		g.subPlan(steps(event(`"Meeting"`, `"mon"`)))
		g.end(kernel.Committed, "")
		failIf(t, strings.Count(g.calls(), "create_event") != 1, "calls %s", g.calls())
	})
}

// A record has to be read again: a planner that nests merges deeper than JSON may nest
// ends its run, and leaves a journal that everybody can read.
// covers KER-53
func TestDeepValues(t *testing.T) {
	t.Parallel()
	// nested is a plan whose last merge, m, nests as deep.
	nested := func(depth int, more ...string) string {
		list, last := []string{constX}, "c"
		for i := range depth {
			id := fmt.Sprintf("m%d", i+1)
			list = append(list, fmt.Sprintf(`{"kind":"merge","id":%q,"inputs":{"a":{"ref":%q}}}`, id, last))
			last = id
		}
		for _, s := range more {
			list = append(list, strings.ReplaceAll(s, "LAST", last))
		}
		return steps(list...)
	}
	ask := `{"kind":"subkernel","id":"d","source":{"ref":"LAST"},"instruction":"i","grant":["mail.read"]}`
	for _, c := range []struct {
		name string
		play func(g *gateway, depth int)
	}{
		{"the content of a sub-run", func(g *gateway, depth int) {
			if g.plan(nested(depth, ask)); depth <= 8 {
				g.subPlan(steps(constX))
			}
		}},
		{"the result of a sub-run", func(g *gateway, depth int) { g.plan(steps(constX, sub(""))); g.subPlan(nested(depth)) }},
		{"the content of a parse", func(g *gateway, depth int) {
			if g.plan(nested(depth, `{"kind":"q_parse","id":"p","source":{"ref":"LAST"},"schema_ref":"Summary","instruction":"i"}`)); depth <= 8 {
				g.answer(`{"text":"x"}`, "")
			}
		}},
		{"the result of the run", func(g *gateway, depth int) { g.plan(nested(depth)) }},
	} {
		for depth, want := range map[int]kernel.Status{8: kernel.Committed, 9: kernel.Aborted, 200: kernel.Aborted} {
			g := begun(t, mustKernel(t, nil))
			c.play(g, depth)
			end := g.next(kernel.ReleaseOutcome)
			failIf(t, end.End.Status != want || want == kernel.Aborted && end.End.Code != kernel.LimitValueBytes,
				"%s, %d deep: got %s %s", c.name, depth, end.End.Status, end.End.Code)
		}
	}
}

// Merges of merges repeat the labels of all that they join. A plan can have a record
// grow beyond what a message holds, and ends its run instead.
// covers A-LOGFILL
func TestRecordTooLarge(t *testing.T) {
	t.Parallel()
	var fields, inputs []string
	for i := range 100 {
		field := fmt.Sprintf("field%d%s", i, strings.Repeat("x", 50))
		fields, inputs = append(fields, field+":string"), append(inputs, fmt.Sprintf(`"a%d":{"ref":"inbox","path":%q}`, i, field))
	}
	k := mustKernel(t, func(d *kernel.Definition) { d.Tools[0].Output = mustType(shape(fields...)) })
	result := `{"` + strings.Join(fields, `":"","`) + `":""}`
	result = strings.ReplaceAll(result, ":string", "")
	for merges, want := range map[int]kernel.Status{1: kernel.Committed, 50: kernel.Committed, 200: kernel.Aborted} {
		list := []string{inbox, `{"kind":"merge","id":"m","inputs":{` + strings.Join(inputs, ",") + `}}`}
		for i := range merges {
			list = append(list, fmt.Sprintf(`{"kind":"merge","id":"m%d","inputs":{"a":{"ref":"m"}}}`, i))
		}
		g := planned(t, k, steps(append(list, note)...))
		change := g.result(result)
		if want == kernel.Committed {
			change = g.result(sent)
		}
		if end := g.next(kernel.ReleaseOutcome).End; end.Status != want || change.Alert != "" || want == kernel.Aborted && end.Code != kernel.LimitValueBytes {
			t.Errorf("%d merges: %s %s, alert %q", merges, end.Status, end.Code, change.Alert)
		}
	}
}

// A value as large as one may be fits a record, as the value and as the result.
func TestLargestValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", `\"`} {
		g := planned(t, mustKernel(t, nil), steps(inbox), strings.Replace(mail, "at 3pm", strings.Repeat(text, (kernel.MaxContent-100)/len(text)), 1))
		g.end(kernel.Committed, "")
	}
}

// No step begins ahead of its turn: reads and questions that need not wait for each other
// do. A record of a step that did is none.
// covers KER-12, KER-21, KER-25
func TestOneStepAfterAnother(t *testing.T) {
	t.Parallel()
	again := `{"kind":"tool","id":"again","tool":"read_inbox","args":{}}`
	g := planned(t, mustKernel(t, nil), steps(inbox, again, contacts, parse))
	for _, answer := range []string{mail, mail, alice} {
		stopIf(t, len(g.state.Unanswered()) != 1, "calls at once: %v", g.state.Unanswered())
		g.result(answer)
	}
	c := g.answer(`{"text":"x"}`, "")
	failIf(t, c.Totals.Effects != 3 || c.Totals.Parses != 1, "%+v", c.Totals)
	g.end(kernel.Committed, "")
	checkOrder(t, g)
	record := strings.Replace(string(g.records[2][0]), `{`, `{"ahead":[{"kind":"tool","id":"c1-1"}],`, 1)
	_, err := kernel.ParseChange([]byte(record), nil)
	failIf(t, !errors.Is(err, kernel.ErrRecord), "a record of a step that began ahead of its turn: %v", err)
}
