package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// proposing sends what a Controller proposes and returns the decision.
func (w *world) propose(controller bcp.AgentName, reader, subscription string) bcp.Decision {
	w.t.Helper()
	body := fmt.Appendf(nil, `{"verb":"propose","proposal":{"reader":%q,"subscription":{%s}}}`, reader, subscription)
	return w.commit(w.state.DecideSession(w.moment(), controller, w.said(body)))
}

const proposedNew = `"id":"new","max_rate":"2/h","publish_when":"ok","category":1,"fields":[{"name":"ok","type":"boolean"}]`

// A proposal waits for a person and changes nothing; approved, it is something to
// write into a definition, and still changes nothing. It works once, expires, and
// is forgotten a day later.
//
// covers SUB-148, SUB-127, P12.4, P1.5, P7.3
func TestProposal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	before := w.state.Subscriptions("mail")
	d := w.propose("planner", "mail", proposedNew)
	stopIf(t, d.Verdict != bcp.Hold || d.Item == "" || d.Kind != bcp.KindPropose || d.Nominal != 0 || d.SessionBegins || d.Taint != bcp.TaintLow,
		"decided %+v", d)
	if public := d.Public(); public.Subscription != "" || public.Reader != "mail" {
		t.Errorf("the audit shows the Controller's words: %q, %q", public.Reader, public.Subscription)
	}
	view, code := w.state.View("mia", d.Item)
	if code != "" || view.Kind != bcp.ItemProposal || view.Subscription != "new" || view.Source.Agent != "planner" || len(view.Spec.Fields) != 1 ||
		!strings.Contains(string(view.Content), `"publish_when":"ok"`) {
		t.Errorf("shown as %+v, %s", view, code)
	}
	w.play(`
		edit 1 {"reader":"mail"}   => malformed
		reject 1 no as=eve until=1h => not_permitted
		approve 1 by=eve over=x    => not_permitted
		approve 1                  => accept silent !notice !prepaid bits:0.0
		approve 1                  => already_decided
		push mail planner new {"ok":true} => subscription_not_found`)
	same(t, before, w.state.Subscriptions("mail"), "the mesh changed")
	approved := w.state.Approved()
	stopIf(t, len(approved) != 1 || approved[0].Item != d.Item || approved[0].Controller != "planner" || approved[0].Reader != "mail",
		"approved are %+v", approved)
	sub, err := approved[0].Subscription.Subscription()
	stopIf(t, err != nil || sub.ID != "new" || sub.MaxRate != (bcp.Rate{Count: 2, Span: time.Hour}) || sub.PublishWhen != "ok",
		"it is %+v, %v", sub, err)
	w.reload(edited(func(c *bcp.Channel) { c.Subscriptions = append(c.Subscriptions, sub) }))
	w.play(`push mail planner new {"ok":true} => accept`)
	failIf(t, len(w.state.Approved()) != 0, "what the definitions have is still proposed")
	w.reload(testMesh())
	expect(t, len(w.state.Approved()), 1, "what the definitions lost is not there any more")
	w.play("wait 24h\nask planner mail yes => accept")
	failIf(t, len(w.state.Approved()) != 0, "it is not forgotten")
	w.propose("planner", "mail", proposedNew)
	w.play("reject 2 no => accept silent !notice")
	w.propose("planner", "mail", proposedNew)
	w.play(`wait 24h
		due => expire        # the ask
		due => expire silent !notice
		approve 3 => item_expired`)
	failIf(t, len(w.state.Approved()) != 0 || len(w.state.Items()) != 0, "rejected or expired, it is there")
}

// What a Controller may not propose: for a channel that it does not control, above
// its category, what no definition would take, or what there is already.
//
// covers SUB-148, P12.4, P1.4, P10
func TestProposalsAreRefused(t *testing.T) {
	t.Parallel()
	ok := `"category":1,"fields":[{"name":"ok","type":"boolean"}]`
	for _, tt := range []struct {
		name, controller, reader, subscription string
		want                                   bcp.Code
	}{
		{"nobody", "planner", "kanarienvogel", `"id":"new",` + ok, bcp.NoChannel},
		{"no channel", "planner", "clerk", `"id":"new",` + ok, bcp.NoChannel},
		{"a Reader's own channel", "mail", "planner", `"id":"new",` + ok, bcp.NoChannel},
		{"the other end", "relay", "planner", `"id":"new",` + ok, bcp.NoChannel},
		{"category", "planner", "mail", `"id":"new","category":3,"directive":"Tell.","max_words":2`, bcp.CategoryDenied},
		{"there is one", "planner", "mail", `"id":"alarm",` + ok, bcp.InvalidQuery},
		{"id", "planner", "mail", `"id":"a_b",` + ok, bcp.InvalidQuery},
		{"no id", "planner", "mail", ok, bcp.InvalidQuery},
		{"spec", "planner", "mail", `"id":"new","category":1,"fields":[]`, bcp.InvalidQuery},
		{"condition", "planner", "mail", `"id":"new","publish_when":"none",` + ok, bcp.InvalidQuery},
		{"rate", "planner", "mail", `"id":"new","max_rate":"1001/h",` + ok, bcp.InvalidQuery},
		{"no rate", "planner", "mail", `"id":"new","max_rate":"0/h",` + ok, bcp.Malformed},
		{"window", "planner", "mail", `"id":"new","batch_window":"8d",` + ok, bcp.InvalidQuery},
		{"window of two units", "planner", "mail", `"id":"new","batch_window":"1h30m",` + ok, bcp.InvalidQuery},
		{"window beside the slots", "planner", "mail", `"id":"new","batch_window":"90s",` + ok, bcp.InvalidQuery},
		{"empty", "planner", "mail", `"id":"new","publish_when":"",` + ok, bcp.Malformed},
		{"unknown key", "planner", "mail", `"id":"new","budget_bits":1000,` + ok, bcp.Malformed},
		{"window in the slots", "planner", "mail", `"id":"new","batch_window":"2m",` + ok, ""},
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) {
			c.ReleaseInterval, c.MaxCategory, c.Subscriptions = time.Minute, 2, c.Subscriptions[:1]
		}))
		d := w.propose(bcp.AgentName(tt.controller), tt.reader, tt.subscription)
		failIf(t, d.Code != tt.want || (d.Item != "") != (tt.want == "") || tt.want != "" && len(w.state.Items()) != 0,
			"%s: %+v", tt.name, d)
		if named := d.Public(); named.Subscription != "" || (named.Reader != "") != (tt.want != bcp.NoChannel && tt.want != bcp.Malformed) {
			t.Errorf("%s: the audit shows %q, %q", tt.name, named.Reader, named.Subscription)
		}
		w.play("due => nothing")
	}
	w := newWorld(t, testMesh())
	for _, body := range []string{`{"verb":"propose"}`, `{"verb":"open","proposal":{"reader":"mail","subscription":{"id":"n",` + ok + `}}}`,
		`{"verb":"propose","taint":{"source":"web"},"proposal":{"reader":"mail","subscription":{"id":"n",` + ok + `}}}`} {
		expect(t, w.state.DecideSession(w.moment(), "planner", []byte(body)).Code, bcp.Malformed, "%s", body)
	}
}

// So many of a channel's proposals wait and no more; the same again is the same.
// Those beyond count as refusals.
//
// covers SUB-148, P12.4, P4.7, A-FLOODRESP
func TestProposalsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	mesh.MaxRefusals = 2
	w := newWorld(t, mesh)
	id := func(n int) string { return strings.Replace(proposedNew, "new", fmt.Sprintf("new-%d", n), 1) }
	for n := range bcp.MaxProposals {
		d := w.propose("planner", "mail", id(n))
		stopIf(t, d.Verdict != bcp.Hold, "proposal %d: %+v", n+1, d)
	}
	d := w.propose("planner", "mail", id(0))
	failIf(t, !d.Repeat || d.Item != w.items[0], "the same again: %+v", d)
	expect(t, w.propose("planner", "web", id(0)).Verdict, bcp.Hold, "another channel")
	for range 2 {
		expect(t, w.propose("planner", "mail", id(bcp.MaxProposals)).Code, bcp.ApprovalQueueFull, "one more")
	}
	expect(t, w.state.DecideSession(w.moment(), "planner", []byte(`{"verb":"open"}`)).Code, bcp.RateLimited, "beyond max_refusals")
	w.play("wait 1m\nreject 1 no => accept")
	expect(t, w.propose("planner", "mail", id(bcp.MaxProposals)).Verdict, bcp.Hold, "with room again")
}

// What definitions of today would refuse cannot be approved, and an approver sees
// how tainted its Controller is.
//
// covers SUB-148, P12.4, P1.5, P8.1
func TestProposalOfATaintedController(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`push mail planner alarm {"ok":true} => accept
		report planner web`)
	expect(t, w.propose("planner", "mail", proposedNew).Taint, bcp.TaintHigh, "its taint")
	w.reload(edited(func(c *bcp.Channel) { c.Subscriptions[0].ID = "new" }))
	w.play(`approve 1 => not_permitted
		reject 1 no => accept`)
}

// covers SUB-148, P12.4, P2.2
func TestProposedSubscriptionIsReadStrictly(t *testing.T) {
	t.Parallel()
	const sound = `{"id":"news","category":1,"fields":[{"name":"any","type":"boolean"}],"max_rate":"1000/h","batch_window":"7d","publish_when":"any"}`
	p, err := bcp.ParseProposedSubscription([]byte(sound))
	failIf(t, err != nil || p.ID != "news" || p.MaxRate.Count != bcp.MaxRateCount || p.BatchWindow != "7d" || p.PublishWhen != "any" || len(p.Fields) != 1,
		"%+v, %v", p, err)
	for _, change := range [][2]string{
		{`"news"`, `"a b"`}, {`"news"`, `"news","id":"other"`}, {`"news"`, `"news","budget_bits":1`}, {`"id":"news",`, ``}, {`1000/h`, `1001/h`},
		{`7d`, `8d`}, {`"7d"`, `""`}, {`{"id"`, `[{"id"`}, {`"any"}`, `"any"} x`}, {`"category":1`, `"category":1,"max_words":0`},
	} {
		got, err := bcp.ParseProposedSubscription([]byte(strings.Replace(sound, change[0], change[1], 1)))
		failIf(t, err == nil, "%s for %s is taken as %+v", change[1], change[0], got)
	}
	pad := func(n int) []byte {
		return []byte(strings.Replace(sound, "{", "{"+strings.Repeat(" ", n-len(sound)), 1))
	}
	expect(t, errorOf(bcp.ParseProposedSubscription(pad(bcp.MaxControllerMessage))), nil, "at the limit")
	fails(t, errorOf(bcp.ParseProposedSubscription(pad(bcp.MaxControllerMessage+1))), nil, "one byte past the limit is taken")
}
