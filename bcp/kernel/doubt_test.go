package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// A call whose outcome is lost: by a crash, or because the tool is silent.
// covers KER-41
func TestLostOutcomes(t *testing.T) {
	t.Parallel()
	lose := map[string]func(*gateway){"crash": (*gateway).crash, "timeout": passes}
	free, key, once := steps(inbox), steps(event(`"t"`, `"mon"`)), steps(note)
	for how, lost := range lose {
		for _, c := range []struct {
			name, plan string
			play       func(*gateway)
			status     kernel.Status
			code       kernel.Code
			calls      int
		}{
			{"a read is sent again", free, results(mail), kernel.Committed, "", 2},
			{"a call with a key is sent again", key, results(`{"ok":true}`), kernel.Committed, "", 2},
			{"a write is not: nobody", once, func(g *gateway) { g.next(kernel.ReleaseItem); g.pass() }, kernel.Doubted, kernel.InDoubt, 1},
			{"a write is not: it was done", once, decides(kernel.Done, sent), kernel.Committed, "", 1},
			{"a write is not: it was not done", once, moves(decides(kernel.NotDone, ""), results(sent)), kernel.Committed, "", 2},
			{"a write is not, and answers late", once, func(g *gateway) {
				item := g.next(kernel.ReleaseItem)
				g.store(g.state.DecideOutcome(g.moment(), "mail", item.Wait.Call, 1, []byte(fmt.Sprintf(`{"call_id":%q,"result":%s}`, item.Wait.Call, sent))))
			}, kernel.Committed, "", 1},
		} {
			t.Run(how+"/"+c.name, func(t *testing.T) {
				g := planned(t, mustKernel(t, nil), c.plan)
				first := g.next(kernel.ReleaseCall)
				lost(g)
				c.play(g)
				g.end(c.status, c.code)
				n := 0
				for _, r := range g.sent {
					if r.Kind == kernel.ReleaseCall {
						if n++; r.Wait.ID != first.Wait.ID || r.Wait.Key != first.Wait.Key || r.Wait.Attempt != n || string(r.Arguments) != string(first.Arguments) {
							t.Errorf("attempt %d is another call: %+v", n, r.Wait)
						}
					}
				}
				expect(t, n, c.calls, "calls")
			})
		}
	}
}

// A crash anywhere else: who was asked is asked again, with the same bytes.
func TestCrashes(t *testing.T) {
	t.Parallel()
	g := begun(t, mustKernel(t, nil))
	again := func(kind kernel.ReleaseKind) {
		t.Helper()
		before := g.next(kind)
		g.crash()
		after := g.todo[0]
		failIf(t, string(before.Body) != string(after.Body) || string(before.Content) != string(after.Content) || before.Wait != after.Wait || after.Kind != kind,
			"asked %+v, and after a crash %+v", before, after)
	}
	again(kernel.ReleasePlan)
	g.plan(steps(inbox, parse, strings.ReplaceAll(sub(""), `{"ref":"c"}`, `{"ref":"p","path":"text"}`)), mail)
	again(kernel.ReleaseParse)
	g.answer(`{"text":"x"}`, "")
	again(kernel.ReleaseSubPlan)
	g.subPlan(steps(inbox))
	g.crash()
	g.result(mail)
	g.end(kernel.Committed, "")
}

// A second answer to one attempt is perhaps a second effect: it is told, and ends a
// run that goes on.
func TestOutcomesTooMany(t *testing.T) {
	t.Parallel()
	again, person := func(g *gateway) { g.next(kernel.ReleaseCall) }, func(g *gateway) { g.next(kernel.ReleaseItem) }
	twice := steps(event(`"t"`, `"mon"`), inbox)
	for _, c := range []struct {
		name, plan, result string
		lost               move          // before the outcomes, if any
		attempts           []int         // that they are of
		ended              move          // before the last of them, if any
		code, alert        kernel.Code   // of the last, and of the end of a run that ends by it
		status             kernel.Status // of such a run
	}{
		{"a second one", steps(note, inbox), sent, nil, []int{1, 1}, nil, kernel.SecondOutcome, kernel.SecondOutcome, kernel.Errored},
		{"after the end", steps(note), sent, nil, []int{1, 1}, ends(kernel.Committed, ""), kernel.SecondOutcome, kernel.SecondOutcome, ""},
		{"after a doubt that ended the run", steps(note), sent, moves(passes, passes, person), []int{1}, ends(kernel.Doubted, kernel.InDoubt), kernel.LateOutcome, kernel.LateOutcome, ""},
		{"of an attempt that a person overruled", steps(note), sent, moves(passes, decides(kernel.NotDone, "")), []int{1}, nil, kernel.LateOutcome, kernel.LateOutcome, kernel.Errored},
		{"of a call that was sent again without harm", twice, `{"ok":true}`, moves(passes, again), []int{2, 1}, nil, kernel.LateOutcome, "", ""},
		{"of an attempt that was never sent", twice, `{"ok":true}`, moves(passes, again), []int{2, 1, 3}, nil, kernel.LateOutcome, kernel.LateOutcome, kernel.Errored},
		{"the first answer counts, whichever attempt it is to", steps(inbox), mail, moves(passes, again), []int{1}, nil, "", "", kernel.Committed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := planned(t, mustKernel(t, nil), c.plan)
			r := g.next(kernel.ReleaseCall)
			if c.lost != nil {
				c.lost(g)
			}
			var last kernel.Change
			for i, attempt := range c.attempts {
				if i == len(c.attempts)-1 && c.ended != nil {
					c.ended(g)
				}
				last = g.store(g.state.DecideOutcome(g.moment(), r.Agent, r.Wait.ID, attempt, fmt.Appendf(nil, `{"call_id":%q,"result":%s}`, r.Wait.ID, c.result)))
			}
			end := kernel.End{Code: last.Code}
			if last.End != nil {
				end = *last.End
			}
			failIf(t, last.Alert != c.alert || end.Code != c.code || end.Status != c.status, "alert %q, ends %s %s: %+v", last.Alert, end.Status, end.Code, last)
		})
	}
}

// A run that ends while a write may have been made says so.
func TestEndWithAnOpenCall(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]kernel.Code{steps(note): kernel.InDoubt, steps(event(`"t"`, `"mon"`)): kernel.InDoubt, steps(inbox): ""} {
		g := newGateway(t, mustKernel(t, nil))
		id := g.begin("all")
		g.plan(plan)
		expect(t, g.store(g.state.DecideStop(g.moment(), id, kernel.Cancelled)).Alert, want, "%s: alert", plan)
	}
}

// Who is not asked is not heard, and nothing that does not fit is applied.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t, mustKernel(t, nil))
	id := g.begin("all")
	request := g.next(kernel.ReleasePlan)
	plan := []byte(fmt.Sprintf(`{"plan_id":%q,"plan":%s}`, request.Wait.ID, steps(note)))
	refused := func(name string, c kernel.Change, code kernel.Code) {
		t.Helper()
		before := savedText(g.state)
		failIf(t, c.Code != code || c.Wait != nil || c.End != nil || len(g.state.Releases(&c)) != 0, "%s: %+v", name, c)
		expect(t, before, savedText(g.state), "%s: deciding changed the state", name)
	}
	m := g.moment
	refused("another planner", g.state.DecidePlan(m(), "subplanner", request.Wait.ID, plan), kernel.UnknownPlan)
	refused("another request", g.state.DecidePlan(m(), "planner", "pelse", plan), kernel.UnknownPlan)
	refused("an answer to a plan", g.state.DecideAnswer(m(), request.Wait.ID, []byte(`{}`), ""), kernel.UnknownCall)
	refused("an outcome of nothing", g.state.DecideOutcome(m(), "mail", request.Wait.ID, 1, []byte(`{}`)), kernel.UnknownCall)
	refused("a decision about nothing", g.state.DecidePerson(m(), request.Wait.ID, kernel.Approve, nil), kernel.UnknownItem)
	refused("a restart of nothing", g.state.DecideRestart(m(), request.Wait.ID), kernel.UnknownCall)
	refused("nothing that was not sent", g.state.DecideUnsent(m(), request.Wait.ID, kernel.ToolUnavailable), kernel.UnknownCall)
	refused("the end of no run", g.state.DecideStop(m(), "relse", kernel.Cancelled), kernel.UnknownRun)
	g.store(g.state.DecidePlan(m(), "planner", request.Wait.ID, plan))
	refused("the plan again", g.state.DecidePlan(m(), "planner", request.Wait.ID, plan), kernel.UnknownPlan)
	call := g.next(kernel.ReleaseCall)
	for _, attempt := range []int{0, -1, 2, 1 << 30} {
		refused("an attempt that was not made", g.state.DecideOutcome(m(), "mail", call.Wait.ID, attempt, []byte(fmt.Sprintf(`{"call_id":%q,"result":%s}`, call.Wait.ID, sent))), kernel.UnknownCall)
	}
	result := []byte(fmt.Sprintf(`{"call_id":%q,"result":%s}`, call.Wait.ID, sent))
	for _, other := range []bcp.AgentName{"calendar", "planner", ""} {
		refused("an outcome by "+string(other), g.state.DecideOutcome(m(), other, call.Wait.ID, 1, result), kernel.UnknownCall)
	}
	g.outcome(call, `"result":`+sent)
	g.end(kernel.Committed, "")
	c := g.state.DecideOutcome(m(), "calendar", call.Wait.ID, 1, result)
	failIf(t, c.Code != kernel.UnknownCall || c.Alert != "", "a second outcome by another service: %+v", c)
	refused("the end of a run that ended", g.state.DecideStop(m(), id, kernel.Cancelled), kernel.UnknownRun)

	for _, c := range []kernel.Change{
		{}, {Run: id, Time: 1}, {Run: "relse", Time: 1 << 62}, {Run: id, Time: 1 << 62, Wait: &kernel.Wait{Kind: kernel.WaitTool, ID: "cx"}},
		{Run: id, Time: 1 << 62, Start: &kernel.Start{}},
	} {
		before := savedText(g.state)
		err := g.state.Apply(&c)
		failIf(t, err == nil || savedText(g.state) != before, "%+v is applied: %v", c, err)
	}
}

// covers KER-84
func TestRequesters(t *testing.T) {
	t.Parallel()
	g := newGateway(t, mustKernel(t, nil))
	run := func(kernelName bcp.AgentName, requester, grant, body string) kernel.Change {
		return g.store(g.state.DecideRun(g.moment(), kernelName, kernel.Requester{Name: requester}, grant, kernel.Trusted(), []byte(body)))
	}
	const task = `{"task":"x"}`
	for _, c := range []struct {
		name            string
		kernel          bcp.AgentName
		who, grant, ask string
		code            kernel.Code
	}{
		{"right", "desk", "kim", "all", task, ""},
		{"with its type", "desk", "kim", "read", `{"type":"bcp_run","task":"x"}`, ""},
		{"no such kernel", "else", "kim", "all", task, kernel.UnknownKernel},
		{"no such requester", "desk", "eve", "all", task, kernel.UnknownGrant},
		{"no such grant", "desk", "kim", "root", task, kernel.UnknownGrant},
		{"a grant of others", "desk", "kim", "*", task, kernel.UnknownGrant},
		{"no message", "desk", "kim", "all", `do it`, kernel.Malformed},
		{"no task", "desk", "kim", "all", `{}`, kernel.Malformed},
		{"a task that is a list", "desk", "kim", "all", `{"task":["x"]}`, kernel.Malformed},
		{"another key", "desk", "kim", "all", `{"task":"x","grant":"root"}`, kernel.Malformed},
		{"a run id of its own", "desk", "kim", "all", `{"task":"x","run_id":"r"}`, kernel.Malformed},
		{"another type", "desk", "kim", "all", `{"type":"bcp_plan","task":"x"}`, kernel.Malformed},
		{"a bad request id", "desk", "kim", "all", `{"task":"x","request_id":"a b"}`, kernel.Malformed},
		{"a task too large", "desk", "kim", "all", `{"task":"` + strings.Repeat("x", kernel.MaxTask+1) + `"}`, kernel.TooLarge},
		{"a message too large", "desk", "kim", "all", strings.Repeat(" ", 1<<20) + task, kernel.TooLarge},
		{"a rule of its own", "desk", "kim", "all", `{"task":"x","forbid":[{"tool":"send_email","when":"args.to.tainted"}]}`, ""},
		{"a rule for all", "desk", "kim", "all", `{"task":"x","forbid":[{"tool":"*","when":"run.depth > 0"}]}`, ""},
		{"a rule that is no CEL", "desk", "kim", "all", `{"task":"x","forbid":[{"tool":"send_email","when":"args.to ="}]}`, kernel.BadRule},
		{"a rule for no tool", "desk", "kim", "all", `{"task":"x","forbid":[{"tool":"sendmail","when":"true"}]}`, kernel.BadRule},
		{"a rule that allows", "desk", "kim", "all", `{"task":"x","forbid":[{"tool":"send_email","when":"true","effect":"declassify"}]}`, kernel.Malformed},
		{"the largest task", "desk", "kim", "all", `{"task":"` + strings.Repeat("x", kernel.MaxTask) + `"}`, ""},
		{"eight rules", "desk", "kim", "all", `{"task":"x","forbid":[` + strings.Repeat(`{"tool":"*","when":"true"},`, 7) + `{"tool":"*","when":"true"}]}`, ""},
		{"nine rules", "desk", "kim", "all", `{"task":"x","forbid":[` + strings.Repeat(`{"tool":"*","when":"true"},`, 8) + `{"tool":"*","when":"true"}]}`, kernel.Malformed},
	} {
		got := run(c.kernel, c.who, c.grant, c.ask)
		expect(t, got.Code, c.code, "%s", c.name)
		if releases := g.state.Releases(&got); releases[0].Kind != kernel.ReleaseReply || releases[0].Code != c.code || (len(releases) == 1) != (c.code != "") {
			t.Errorf("%s: released %+v", c.name, releases)
		}
	}

	// The same message again is the same run; the same id for another is malformed.
	first := run("desk", "kim", "all", `{"task":"x","request_id":"a"}`)
	again := run("desk", "kim", "all", `{"task":"x","request_id":"a"}`)
	failIf(t, again.Code != kernel.Repeated || again.Run != first.Run, "got %+v", again)
	expect(t, run("desk", "kim", "all", `{"task":"y","request_id":"a"}`).Code, kernel.Malformed, "another task with the same id")
	refused := run("desk", "kim", "root", `{"task":"x","request_id":"b"}`)
	again = run("desk", "kim", "root", `{"task":"x","request_id":"b"}`)
	failIf(t, again.Code != refused.Code || refused.Code != kernel.UnknownGrant, "got %+v", again)
	g.now = g.now.Add(25 * 3600e9)
	for g.state.NextDue() > 0 && g.state.NextDue() <= g.now.UnixNano() {
		c, _ := g.state.DecideDue(g.moment())
		g.store(c)
	}
	expect(t, run("desk", "kim", "all", `{"task":"y","request_id":"a"}`).Code, "", "after a day")
}

// How long the gateway compiles rules of a requester does not depend on how many tools
// there are.
func TestRunRulesOfManyTools(t *testing.T) {
	t.Parallel()
	for tools, want := range map[int]kernel.Code{8: "", 9: kernel.TooLarge, kernel.MaxTools: kernel.TooLarge} {
		g := newGateway(t, mustKernel(t, func(d *kernel.Definition) {
			d.Tools, d.Rules = nil, nil
			d.Grants = map[string][]kernel.Capability{"all": caps("mail.send"), "read": nil}
			for i := range tools {
				tool := sendEmail
				tool.Name = fmt.Sprintf("send%d", i)
				d.Tools = append(d.Tools, tool)
			}
		}))
		run := func(grant string) kernel.Code {
			body := `{"task":"x","forbid":[` + strings.Repeat(`{"tool":"*","when":"true"},`, 7) + `{"tool":"*","when":"true"}]}`
			return g.state.DecideRun(g.moment(), "desk", kim, grant, kernel.Trusted(), []byte(body)).Code
		}
		expect(t, run("all"), want, "%d tools", tools)
		if got := run("read"); got != "" { // no tool of the run
			t.Errorf("%d tools that are not granted: got %q", tools, got)
		}
	}
}

// Ended runs are known for outcomes that come late, and not without bound: requesters
// decide how many there are. A tool whose run was forgotten forged nothing.
//
// covers P16.2
func TestEndedRunsAreBounded(t *testing.T) {
	t.Parallel()
	const known = 1 << 14
	g := newGateway(t, mustKernel(t, nil))
	ask := func() kernel.Change {
		return g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(`{"task":"Do it.","request_id":"a"}`))
	}
	begun := g.store(ask())
	first := begun.Run
	g.plan(steps(inbox))
	call := g.next(kernel.ReleaseCall).Wait.ID
	g.replay = false
	stop := func(run kernel.RunID) { g.store(g.state.DecideStop(g.moment(), run, kernel.Cancelled)) }
	late := func() kernel.Code {
		c := g.state.DecideOutcome(g.moment(), "mail", call, 1, []byte(`{"call_id":"`+call+`","result":true}`))
		if seen := apply(t, g.state, c); len(seen) > 0 { // a requester cannot have a slow tool suspected
			t.Errorf("%s is seen: %+v", c.Code, seen)
		}
		return c.Code
	}
	stop(first)
	for now, i := g.now, 1; i < known; i, g.now = i+1, now { // all in one moment
		stop(g.begin("read"))
		g.changes, g.sent, g.todo = nil, nil, nil
	}
	got := late()
	stopIf(t, got != kernel.LateOutcome, "the oldest run that is known: got %q", got)
	stop(g.begin("read"))
	expect(t, late(), kernel.UnknownCall, "a run too many")
	c := ask()
	failIf(t, c.Code != kernel.Repeated || c.Run != first || c.End == nil || c.End.Status != kernel.Stopped, "who asked for it hears %+v", c)
}

// Each requester has its newest request ids known, and takes none from others. A state that
// is restored forgets the same.
//
// covers KER-102
func TestRequestIDsAreBounded(t *testing.T) {
	t.Parallel()
	s := kernel.NewState(mustKernel(t, nil))
	ask := func(who string, id int) kernel.Change { // refused, and remembered
		return s.DecideRun(bcp.Moment{Now: start.Add(time.Duration(id / 64)), Fresh: fmt.Sprint(who, id)}, "desk", kernel.Requester{Name: who}, "none", kernel.Trusted(), fmt.Appendf(nil, `{"task":"x","request_id":"a%d"}`, id))
	}
	apply := func(c kernel.Change) {
		noError(t, s.Apply(&c))
	}
	known := func(who string, id int) bool { // the same id for another task is malformed
		c := s.DecideRun(bcp.Moment{Now: start, Fresh: "x"}, "desk", kernel.Requester{Name: who}, "none", kernel.Trusted(), fmt.Appendf(nil, `{"task":"y","request_id":"a%d"}`, id))
		return c.Code == kernel.Malformed
	}
	apply(ask("eve", 0))
	for id := range kernel.MaxRequests {
		apply(ask("kim", id))
	}
	oldest := func() (n int) { // of those of one moment, by id
		for !known("kim", n) {
			n++
		}
		return n
	}
	stopIf(t, !known("kim", 0) || !known("kim", kernel.MaxRequests-1), "an id is not known")
	restored := must(kernel.Restore(s.Save(), mustKernel(t, nil)))
	apply(ask("kim", kernel.MaxRequests))
	n := oldest()
	failIf(t, n != 1 || !known("kim", kernel.MaxRequests) || !known("eve", 0), "the oldest id that is known is %d", n)
	want := savedText(s)
	s = restored
	apply(ask("kim", kernel.MaxRequests))
	expect(t, savedText(s), want, "a state that was restored knows others")
}

// Definitions that change while a run goes on: it goes on under them, or ends.
func TestReload(t *testing.T) {
	t.Parallel()
	old := mustKernel(t, nil)
	for _, c := range []struct {
		name   string
		now    []*kernel.Kernel
		play   func(*gateway)
		status kernel.Status
		code   kernel.Code
	}{
		{"the same", []*kernel.Kernel{mustKernel(t, nil)}, moves(results(mail), answers(`{"text":"x"}`), results(sent)), kernel.Committed, ""},
		{"no kernel", nil, func(g *gateway) { g.stop() }, kernel.Stopped, kernel.Cancelled},
		{"no kernel, and an outcome", nil, func(g *gateway) {
			g.store(g.state.DecideOutcome(g.moment(), "mail", g.changes[1].Wait.ID, 1, []byte(`{"call_id":"`+g.changes[1].Wait.ID+`","result":`+mail+`}`)))
		}, kernel.Errored, kernel.UnknownKernel},
		{"the tool is gone", []*kernel.Kernel{mustKernel(t, func(d *kernel.Definition) { d.Tools = d.Tools[1:] })}, results(mail), kernel.Errored, kernel.ToolChanged},
		{"a rule is gone", []*kernel.Kernel{mustKernel(t, func(d *kernel.Definition) { d.Rules = nil })}, moves(results(mail), answers(`{"text":"x"}`)), kernel.Blocked, kernel.NotDeclassified},
		{"a schema is gone", []*kernel.Kernel{mustKernel(t, func(d *kernel.Definition) { d.Schemas = d.Schemas[1:] })}, moves(results(mail), plans(steps(constX))), kernel.Committed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := planned(t, old, mailPlan)
			g.kernels = c.now
			g.state.Define(c.now...)
			c.play(g)
			for len(g.todo) > 1 {
				g.todo = g.todo[1:]
			}
			g.end(c.status, c.code)
		})
	}
}

// One requester cannot have more runs open than it may; one that ends makes room for
// another, and others have theirs.
//
// covers KER-102
func TestOpenRunsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGateway(t, mustKernel(t, nil))
	g.replay = false
	var runs []kernel.RunID
	for range kernel.MaxOpenRuns {
		runs = append(runs, g.begin("all"))
	}
	refused := func() kernel.Code {
		return g.store(g.state.DecideRun(g.moment(), "desk", kim, "all", g.task, []byte(`{"task":"x"}`))).Code
	}
	expect(t, refused(), kernel.LimitOpenRuns, "one more")
	g.store(g.state.DecideStop(g.moment(), runs[0], kernel.Cancelled))
	restored := must(kernel.Restore(g.state.Save(), g.kernels...))
	g.state = restored
	expect(t, refused(), "", "after an end, one more")
	expect(t, refused(), kernel.LimitOpenRuns, "and another")
}
