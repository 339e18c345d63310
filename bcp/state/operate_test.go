package state

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const relayed = "push relay planner alarm {\"ok\":true} => delivers "

// Whatever an agent reads from outside taints it, the operator or the agent
// itself reports it, and only the operator takes it back. It outlives sessions,
// connections and gateways. What an agent's answers bear follows.
//
// covers BCP-12, BCP-13, BCP-14, P8.1, P8.2, P8.3, A-SELFLOW
func TestTaintReports(t *testing.T) {
	t.Parallel()
	for _, source := range bcp.TaintSources() {
		for _, act := range []string{"report", "taint"} {
			newWorld(t, testMesh()).play(fmt.Sprintf(`
				%s
				%s relay %s  => taint accept event:%s taint:high
				%s`, relayed+"taint:low", act, source, source, relayed+"taint:medium"))
		}
	}
	plays(t, testMesh, "", map[string]string{
		"raises and never lowers": `
			report relay web       => taint:high
			report relay agent     => taint:high
			` + relayed + `taint:medium`,
		"outlives everything but the operator": `
			report relay database  => accept
			close relay
			event connect relay 1
			start
			reload
			process relay started
			wait 100h
			due                    => nothing
			` + relayed + `taint:medium
			reset relay            => taint event:reset taint:low
			` + relayed + `taint:low`,
		"only about itself": `
			report planner web     => accept
			` + relayed + `taint:low`,
		"what it is told does not count as its own": `
			report planner web
			ask planner relay yes  => accept
			answer relay 1 nei     => taint:low`,
		"its base stays when the operator forgets": `
			taint mail web
			reset mail
			push mail planner alarm {"ok":true} => taint:medium`,
	})
}

// A message that is not exactly one of the acts changes nothing.
//
// covers BCP-12, P2.2, P8.1
func TestMalformedReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play("report relay web\nreset relay")
	before := fmt.Sprint(w.state.Sessions(w.now))
	for _, body := range []string{
		`{"verb":"taint"}`, `{"verb":"taint","taint":{}}`, `{"verb":"taint","taint":{"source":""}}`, `{"verb":"taint","taint":{"source":"Web"}}`,
		`{"verb":"taint","taint":{"source":"mail"}}`, `{"verb":"taint","taint":{"source":"reset"}}`, `{"verb":"taint","taint":{"source":"web","agent":"mail"}}`,
		`{"verb":"taint","agent":"mail","taint":{"source":"web"}}`, `{"verb":"open","taint":{"source":"web"}}`, `{"verb":"close","taint":{"source":"web"}}`,
		`{"verb":"reset-taint"}`, `{"verb":"renew"}`, `{"verb":"taint","taint":"web"}`, `{"verb":"taint","taint":null}`, `{}`, ``,
	} {
		d := w.commit(w.state.DecideSession(w.moment(), "relay", []byte(body)))
		failIf(t, d.Code != bcp.Malformed || d.Kind != bcp.KindSession, "%s: %+v", body, d)
	}
	for act, bodies := range map[string][]string{
		bcp.ControlTaint: {`{"agent":"relay"}`, `{"agent":"relay","taint":{"source":"unknown"}}`, `{"agent":"nobody","taint":{"source":"web"}}`, `{"taint":{"source":"web"}}`,
			`{"agent":"mia","taint":{"source":"web"}}`, `{"agent":"gateway","taint":{"source":"web"}}`},
		bcp.ControlResetTaint: {`{}`, `{"agent":"nobody"}`, `{"agent":"relay","taint":{"source":"web"}}`, `{"agent":"relay","taint":{"source":"bogus"}}`, `{"agent":"relay","all":true}`},
		bcp.ControlRenew:      {`{}`, `{"agent":""}`, `{"agent":"mail"}`, `{"agent":"mia"}`, `{"agent":"nobody"}`, `{"agent":"planner","taint":{"source":"bogus"}}`, `{"agent":"PLANNER"}`},
		bcp.ControlReload:     {`{"agent":"planner"}`, `{}`},
		bcp.ControlSessions:   {`{"agent":"planner"}`},
		bcp.ControlStorage:    {`{"agent":"planner"}`},
		"":                    {`{"agent":"planner"}`},
		"stop":                {`{"agent":"planner"}`},
	} {
		for _, body := range bodies {
			d := w.commit(w.state.DecideControl(w.moment(), act, []byte(body)))
			failIf(t, d.Code != bcp.Malformed || d.Verdict != bcp.Reject || d.SessionRenews, "%s %s: %+v", act, body, d)
		}
	}
	expect(t, fmt.Sprint(w.state.Sessions(w.now)), before, "the sessions")
	w.play(relayed + "taint:low")
}

// An operator's renew opens new epochs whatever the session; it is the operator's
// act and nobody else can bring it about.
//
// covers P4.4
func TestRenew(t *testing.T) {
	t.Parallel()
	spent := "ask planner mail num => accept epoch:1\n"
	provoked := `push mail planner alarm {"ok":true} => delivers begins by-delivery epoch:1` + "\n"
	plays(t, testMesh, "", map[string]string{
		"in an open session": spent + `
			renew planner           => session accept renews !begins
			ask planner mail num    => epoch:2 reserved:10.0 !begins`,
		"in a session of a delivery": provoked + `
			renew planner           => renews !begins
			ask planner mail num    => epoch:2 !begins
			wait 59m59s
			ask planner mail num    => epoch:2 begins !renews  # that session counts as provoked still`,
		"without a session": provoked + `
			close planner
			renew planner           => renews begins !by-delivery
			ask planner mail num    => epoch:2 !begins`,
		"a session that it began is nobody's provocation": provoked + `
			close planner
			renew planner           => begins
			close planner
			ask planner mail num    => epoch:2 begins renews`,
		"of all channels": spent + `ask planner web num => epoch:1
			renew planner
			ask planner web num     => epoch:2
			push mail planner alarm {"ok":true} => epoch:2`,
		"and not of another Controller": spent + `ask clerk mail num => epoch:1
			renew planner
			ask clerk mail num      => epoch:1`,
		"twice is once": spent + `
			renew planner
			renew planner
			ask planner mail num    => epoch:2`,
		"what is open stays in its epoch": spent + `
			renew planner
			answer mail 1 {"n":1}   => delivers epoch:1 settled:10.0
			ask planner mail num    => epoch:2`,
		"escalations belong to the session": `
			ask planner mail three why=so => hold
			ask planner web three why=so  => hold
			reject 1
			reject 2
			ask planner mail three why=so => hold
			reject 3
			ask planner mail three why=so => escalation_limit_reached
			renew planner
			ask planner mail three why=so => escalation_limit_reached`,
	})
}

// An agent whose command could not be started: pushes to it are refused free of
// charge, asks about it too, its refusals count against nobody, and it is there
// again when it connects, is started, or a gateway starts.
//
// covers SUB-117, P4.3, P4.7, P9.2, P10
func TestUnavailable(t *testing.T) {
	t.Parallel()
	push := `push mail planner alarm {"ok":true} `
	plays(t, testMesh, "", map[string]string{
		"a Controller": `
			process planner unavailable    => process event:unavailable
			` + push + `=> controller_unavailable bits:0.0 cap:0.0 settled:0.0 silent
			push mail planner memo {"summary":"a"} => controller_unavailable !item
			push mail clerk alarm {"n":1}  => delivers
			ask planner mail yes           => accept       # it asks, so it is there
			answer mail 1 {"ok":true}      => delivers`,
		"a Reader": `
			process mail unavailable
			ask planner mail yes           => reader_unavailable bits:0.0 reserved:0.0 !begins
			ask planner mail three why=so  => reader_unavailable !item
			ask planner web yes            => accept
			` + push + `=> delivers`,
		"what is open stays": `
			ask planner mail yes           => accept
			process mail unavailable
			answer mail 1 {"ok":true}      => delivers`,
		"what is held is delivered": `
			push mail planner memo {"summary":"a"} => hold
			process planner unavailable
			approve 1                      => delivers`,
		"until it connects":            "process planner unavailable\nevent connect planner 1\n" + push + "=> delivers",
		"until it is started":          "process planner unavailable\nprocess planner started\n" + push + "=> delivers",
		"until a gateway starts":       "process planner unavailable\nstart\n" + push + "=> delivers",
		"and no reload":                "process planner unavailable\nreload\n" + push + "=> controller_unavailable",
		"nor another agent":            "process planner unavailable\nprocess mail started\nevent connect mail 1\n" + push + "=> controller_unavailable",
		"what is wrong is heard first": "process planner unavailable\npush mail planner alarm {} => validation_failed\npush mail planner none {} => subscription_not_found",
		"so is a budget": `
			process mail unavailable
			ask planner mail text          => reader_unavailable
			ask planner mail three         => escalation_required
			say planner mail {"category":1,"fields":[]} => invalid_query`,
	})
	w := newWorld(t, testMesh()).play("process planner unavailable\n" + push)
	if r := w.last.Result(); r.Detail != "Controller 'planner' is unavailable" || r.Code != bcp.ControllerUnavailable || r.Success {
		t.Errorf("the Reader hears %+v", r)
	}
	mesh := testMesh()
	mesh.MaxRefusals = 1
	newWorld(t, mesh).play("process mail unavailable\n" + strings.Repeat("ask planner mail yes => reader_unavailable\n", 3))
	newWorld(t, edited(func(c *bcp.Channel) { c.Budget, c.MaxPendingApprovals, c.PushBudget = 22*bcp.Bit, 0, 22*bcp.Bit })).play(`
		process planner unavailable
		process mail unavailable
		push mail planner memo {"summary":"a"} => approval_queue_full
		push mail planner note {"q":"fine"}    => budget_exhausted
		ask planner mail text                  => budget_exhausted`)
}

// The operator's list shows each Controller's newest session, and of its
// channels what it has left.
//
// covers P8.3, P9.2
func TestListOfSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	view := func() bcp.SessionView {
		views := w.state.Sessions(w.now)
		stopIf(t, len(views) != 3 || views[0].Controller != "clerk" || views[1].Controller != "planner" || views[2].Controller != "relay",
			"the list is %+v", views)
		return views[1]
	}
	begun := w.now.UTC()
	want := bcp.SessionView{Controller: "planner", Status: "none", Taint: bcp.TaintLow, Exposure: bcp.TaintLow}
	for _, reader := range []bcp.AgentName{"mail", "relay", "web"} {
		want.Channels = append(want.Channels, bcp.SessionChannel{Reader: reader, Epoch: 1, Remaining: 100 * bcp.Bit, MaxEscalations: 2})
	}
	check := func(after string) {
		t.Helper()
		same(t, want, view(), "after %s", after)
	}
	check("nothing")
	w.play(`ask planner mail three why=so => hold
		report planner web`)
	want.Session, want.Status, want.BegunBy, want.Since, want.Touched = "s000001", "open", "controller", begun, begun
	want.Taint, want.Sources = bcp.TaintHigh, []string{"web"}
	want.Channels[0] = bcp.SessionChannel{Reader: "mail", Epoch: 1, Remaining: 78 * bcp.Bit, MaxEscalations: 2, Escalations: 1, Open: 1, Held: 1, Waiting: 1}
	check("an escalation")
	w.play("reject 1 => accept")
	want.Exposure = bcp.TaintMedium
	want.Channels[0] = bcp.SessionChannel{Reader: "mail", Epoch: 1, Remaining: 99 * bcp.Bit, MaxEscalations: 2, Escalations: 1, Waiting: 2}
	check("its end")
	w.play("wait 29m59.999999999s")
	check("less than idle_timeout")
	w.play("wait 1ns")
	want.Status = "idle"
	check("idle_timeout")
	w.play(`push mail planner alarm {"ok":true} => begins`)
	want.Session, want.Status, want.BegunBy, want.Since, want.Touched = "s000004", "open", "delivery", w.now.UTC(), w.now.UTC()
	want.Channels[0] = bcp.SessionChannel{Reader: "mail", Epoch: 1, Remaining: 98 * bcp.Bit, MaxEscalations: 2, Waiting: 3}
	check("a push")
	w.play("close planner\nwait 1h")
	want.Status = "closed"
	check("its close")
}

// What an approver is shown of the session is bounded, whatever is delivered.
//
// covers P7.1
func TestReleasesAreBounded(t *testing.T) {
	t.Parallel()
	var session sessionState
	for n := range 3 * maxReleases {
		shown := session.releases // by a view that is still looked at
		before := slices.Clone(shown)
		session.addRelease(bcp.Release{Time: time.Unix(0, int64(n))})
		oldest := session.releases[0].Time.UnixNano()
		stopIf(t, len(session.releases) != min(n+1, maxReleases) || oldest != int64(max(0, n+1-maxReleases)) || !reflect.DeepEqual(shown, before),
			"after %d deliveries there are %d, the oldest of %d", n+1, len(session.releases), oldest)
	}
}
