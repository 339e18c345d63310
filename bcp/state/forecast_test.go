package state

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A forecast is what happens: as many queries and pushes of each form are
// accepted as it says, and the next is refused by the check that it names.
//
// covers P4.2, P4.4, P4.7, P6.2
func TestForecastComesTrue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		edit    func(*bcp.Channel)
		history string
	}{
		{"fresh", func(*bcp.Channel) {}, ""},
		{"no budget", func(c *bcp.Channel) { c.Budget = 0 }, ""},
		{"a budget lowered below what is spent", func(c *bcp.Channel) { c.Budget, c.PushBudget = 5*bcp.Bit, 5*bcp.Bit }, "push mail planner alarm {\"ok\":true}"},
		{"spent a little", func(*bcp.Channel) {}, "ask planner mail num\nask planner mail name\npush mail planner alarm {\"ok\":true}"},
		{"another session is due", func(*bcp.Channel) {}, "ask planner mail num\nanswer mail 1 {\"n\":1}\nwait 2h"},
		{"push budget", func(c *bcp.Channel) { c.PushBudget = 7 * bcp.Bit }, "push mail planner alarm {\"ok\":true}"},
		{"window", func(c *bcp.Channel) { c.WindowBudget = 150 * bcp.Bit }, "ask planner mail text\nanswer mail 1 {\"q\":\"one_two\"}\nwait 20h\nopen planner\nask planner mail num"},
		{"capacity", func(c *bcp.Channel) {
			c.CapacityBudget, c.ReleaseInterval = 300*bcp.Bit, time.Minute
		}, "push mail planner alarm {\"ok\":true}\nwait 10m"},
		{"cat 2 queries", func(c *bcp.Channel) { c.MaxCat2Queries = 2 }, "ask planner mail name"},
		{"base category", func(c *bcp.Channel) { c.BaseCategory, c.MaxEscalations = 1, 3 }, "ask planner mail name why=because_I_must"},
		{"one armed", func(*bcp.Channel) {}, "ask planner mail yes\nanswer mail 1 nei"},
		{"more armed than escalations", func(c *bcp.Channel) { c.MaxEscalations = 1 }, "ask planner mail yes\nanswer mail 1 nei\nask planner mail yes\nanswer mail 2 nei"},
		{"no escalations", func(c *bcp.Channel) { c.MaxEscalations = 0 }, "ask planner mail yes\nanswer mail 1 nei"},
		{"a failed session", func(c *bcp.Channel) { c.MaxEscalations = 1 }, "ask planner mail three why=because_I_must\nask planner mail three why=because_I_must"},
		{"pending items", func(c *bcp.Channel) { c.MaxPendingApprovals, c.Budget, c.PushBudget = 2, 1000*bcp.Bit, 1000*bcp.Bit }, "push mail planner memo {\"summary\":\"x\"}"},
		{"a reader that is away", func(*bcp.Channel) {}, "process mail unavailable"},
		{"a controller that is away", func(*bcp.Channel) {}, "process planner unavailable"},
		{"category 1 only", func(c *bcp.Channel) {
			c.MaxCategory, c.Subscriptions = 1, c.Subscriptions[:1]
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mesh := edited(tt.edit)
			start := newWorld(t, mesh).play(tt.history)
			var f bcp.Forecast
			for _, one := range start.state.Forecasts(start.now) {
				if one.Controller == plannerMail.Controller && one.Reader == plannerMail.Reader {
					f = one
				}
			}
			fits := append(f.Queries.Fits, f.Pushes.Fits...)
			if want := len(channelIn(mesh, plannerMail).Subscriptions); len(f.Pushes.Fits) != want || len(f.Queries.Fits) == 0 {
				t.Fatalf("the forecast has %d queries and %d pushes", len(f.Queries.Fits), len(f.Pushes.Fits))
			}
			for _, fit := range fits {
				if fit.Until == bcp.CheckOutbox && tt.name != "fresh" {
					continue // it takes thousands
				}
				w := newWorld(t, mesh).play(tt.history)
				times, last := 0, bcp.Decision{}
				for ; times <= fit.Times+1; times++ {
					if last = w.once(fit); !last.Accepted() {
						break
					}
					if epoch := map[bool]uint64{true: f.Queries.Epoch, false: f.Pushes.Epoch}[fit.Form != ""]; last.Epoch != epoch || last.Nominal != fit.Nominal || last.Capacity != fit.Capacity {
						t.Fatalf("%+v: charged %s and %s to epoch %d, forecast for %d", fit, last.Nominal, last.Capacity, last.Epoch, epoch)
					}
				}
				if times != fit.Times || last.Check != fit.Until {
					t.Errorf("%+v: refused by %s after %d", fit, last.Check, times)
				}
			}
		})
	}
}

// once asks or pushes what a forecast is about.
func (w *world) once(f bcp.Fit) bcp.Decision {
	w.t.Helper()
	if f.Subscription != "" {
		value := map[bcp.SubscriptionID]string{"alarm": `{"ok":true}`, "name": `{"q":"ada"}`, "note": `{"q":"fine"}`, "memo": `{"summary":"x"}`, "zero": `{"x":"x"}`}[f.Subscription]
		return w.commit(w.state.DecidePush(w.moment(), "mail", "planner", f.Subscription, pushBytes("planner", string(f.Subscription), value, "")))
	}
	for _, form := range queryForms {
		if form.name == f.Form {
			spec, err := json.Marshal(form.spec)
			if err != nil {
				w.t.Fatal(err)
			}
			body := strings.TrimSuffix(string(spec), "}") + `,"escalation":{"justification":"The task needs it."}}`
			return w.commit(w.state.DecideAsk(w.moment(), "planner", "mail", []byte(body)))
		}
	}
	w.t.Fatalf("no such form: %s", f.Form)
	return bcp.Decision{}
}

// What the window gives back, it gives back then and not before.
//
// covers P4.4
func TestForecastOfTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.WindowBudget = 10 * bcp.Bit }))
	w.play("push mail planner alarm {\"ok\":true} => accept\nwait 1h\nask planner mail yes => accept\nanswer mail 1 {\"ok\":true} => accept")
	left := func() bcp.Bits {
		for _, b := range w.state.forecast(bcp.Moment{Now: w.now}, w.state.channels[plannerMail]).Pushes.Budgets {
			if b.Key == "window_budget_bits" {
				return b.Left
			}
		}
		t.Fatal("no window")
		return 0
	}
	frees := w.state.forecast(bcp.Moment{Now: w.now}, w.state.channels[plannerMail]).Frees
	if len(frees) != 2 || frees[0].Bits != bcp.Bit || frees[1].Bits != bcp.Bit || left() != 8*bcp.Bit {
		t.Fatalf("frees %+v, left %s", frees, left())
	}
	for i, want := range []bcp.Bits{9 * bcp.Bit, 10 * bcp.Bit} {
		w.now = frees[i].At.Add(-1)
		if got := left(); got != want-bcp.Bit {
			t.Errorf("before %s: %s left", frees[i].At, got)
		}
		w.now = frees[i].At
		if got := left(); got != want {
			t.Errorf("at %s: %s left, want %s", frees[i].At, got, want)
		}
	}
}
