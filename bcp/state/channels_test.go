package state

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// channelsOf is what planner hears of its channel to mail.
func (w *world) channelOfPlanner() bcp.ChannelView {
	w.t.Helper()
	for _, v := range w.state.Channels("planner", w.now).Channels {
		if v.Reader == "mail" {
			return v
		}
	}
	w.t.Fatal("planner has no channel to mail")
	return bcp.ChannelView{}
}

// A Controller that looks at its channels learns what an ask in the same moment
// would have told it, and no more: not what happened within a release slot. What
// a question is said to cost is what it costs.
//
// covers P9.6, P4.1, P5, P6.1
func TestChannelsTellWhatAnAskWould(t *testing.T) {
	t.Parallel()
	slots := func(c *bcp.Channel) { c.ReleaseInterval = time.Minute }
	for _, tt := range []struct {
		name    string
		edit    func(*bcp.Channel)
		history string
	}{
		{"fresh", func(*bcp.Channel) {}, ""},
		{"open queries", func(*bcp.Channel) {}, "ask planner mail num\nask planner mail name"},
		{"a push", func(*bcp.Channel) {}, `push mail planner alarm {"ok":true}`},
		{"a push within the slot", slots, `push mail planner alarm {"ok":true}`},
		{"own asks and a push within the slot", slots, "ask planner mail num\n" + `push mail planner alarm {"ok":true}` + "\nask planner mail num"},
		{"a push of the slot before", slots, `push mail planner alarm {"ok":true}` + "\nwait 1m"},
		{"an answer within the slot", slots, "ask planner mail num\nwait 2m\nanswer mail 1 {\"n\":1}"},
		{"an unanswered question", func(*bcp.Channel) {}, "ask planner mail yes\nanswer mail 1 nei"},
		{"an unanswered question within the slot", slots, "ask planner mail yes\nanswer mail 1 nei"},
		{"another session is due", func(*bcp.Channel) {}, "ask planner mail num\nanswer mail 1 {\"n\":1}\nwait 2h"},
		{"base category 1", func(c *bcp.Channel) { c.BaseCategory = 1 }, ""},
		{"category 1 alone", func(c *bcp.Channel) { c.MaxCategory, c.Subscriptions = 1, c.Subscriptions[:1] }, ""},
		{"a lowered budget", func(c *bcp.Channel) { c.Budget, c.PushBudget = 2*bcp.Bit, 2*bcp.Bit }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mesh := edited(tt.edit)
			w := newWorld(t, mesh).play(tt.history)
			before := dump(w.state)
			view := w.channelOfPlanner()
			same(t, before, dump(w.state), "looking changed the state")
			channel := channelIn(mesh, plannerMail)
			failIf(t, view.Budget != channel.Budget || view.MaxCategory != channel.MaxCategory || len(view.Subscriptions) != len(channel.Subscriptions),
				"got %+v", view)
			d := w.commit(w.state.DecideAsk(w.moment(), "planner", "mail", askBytes("yes", "", "")))
			stopIf(t, !d.Accepted(), "the ask is refused: %s", d.Code)
			got, want := d.Remaining, max(0, view.Remaining-d.Nominal)
			failIf(t, got != want, "the ask says that %s remain, the list %s before it", got, view.Remaining)
			for _, cost := range view.Costs {
				again := newWorld(t, mesh).play(tt.history)
				failIf(t, cost.Category > channel.MaxCategory, "category %d is no use", cost.Category)
				d := again.askForm(cost.Form)
				failIf(t, d.Accepted() && (d.Nominal != cost.Nominal || d.Capacity != cost.Capacity) || d.Escalation != cost.Escalation && d.Code == "",
					"%+v: charged %s and %s, escalation %t", cost, d.Nominal, d.Capacity, d.Escalation)
			}
		})
	}
}

// askForm asks a query of one of the forms.
func (w *world) askForm(name string) bcp.Decision {
	w.t.Helper()
	for _, form := range queryForms {
		if form.name == name {
			spec := must(json.Marshal(form.spec))
			body := strings.TrimSuffix(string(spec), "}") + `,"escalation":{"justification":"The task needs it."}}`
			return w.commit(w.state.DecideAsk(w.moment(), "planner", "mail", []byte(body)))
		}
	}
	w.t.Fatalf("no such form: %s", name)
	return bcp.Decision{}
}

// A request for the list changes nothing and is no decision; one that is to be
// refused is left to the decision.
//
// covers P9.6, P4.7
func TestListsChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	for body, want := range map[string]bool{
		`{"verb":"channels"}`: true, `{"type":"bcp_session","verb":"channels"}`: true, `{"verb":"open"}`: false, `{"verb":"close"}`: false,
		`{"verb":"Channels"}`: false, `{"verb":"channels","taint":{"source":"web"}}`: false, `{"verb":"channels","x":1}`: false, ``: false,
	} {
		expect(t, w.state.ListsChannels(w.moment(), "planner", []byte(body)), want, "%s", body)
	}
	failIf(t, w.state.ListsChannels(w.moment(), "nobody", []byte(`{"verb":"channels"}`)), "somebody who is not there may ask")
	d := w.state.DecideSession(w.moment(), "planner", []byte(`{"verb":"channels"}`))
	failIf(t, d.Code != bcp.Malformed || d.SessionEnds, "decided: %+v", d)
	for range w.config.Mesh.MaxRefusals {
		w.play("say planner mail {} => invalid_query")
	}
	failIf(t, w.state.ListsChannels(w.moment(), "planner", []byte(`{"verb":"channels"}`)),
		"one that is refused for the rest of the minute is answered")
}

// covers P9.3
func TestProtocolTools(t *testing.T) {
	t.Parallel()
	a := bcp.Agent{Tools: []string{"Read", "bcppublish", "mcp__mesh__BCPRespond", "MCP__x__bcpRespond", "mcp__BCPQuery", "BCPPublishing", "mcp", ""}}
	same(t, []string{bcp.ToolPublish, bcp.ToolRespond}, a.ProtocolTools(), "tools of the protocol")
	failIf(t, (bcp.Agent{}).ProtocolTools() != nil, "an agent without tools has some")
}
