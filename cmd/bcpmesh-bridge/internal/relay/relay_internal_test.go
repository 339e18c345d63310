package relay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var testRoute = Route{"sensor", "readings", "main", "site"}

// above is a mesh above that says what it is told to, and keeps what it was asked.
type above struct {
	says []error // one after the other; then nil
	ids  []bcp.ClientID
	did  []string
}

func (a *above) push(_ context.Context, c bcp.AgentName, id bcp.SubscriptionID, response any, o agents.PushOptions) (bcp.ValidationResult, error) {
	a.did = append(a.did, "push")
	a.ids = append(a.ids, o.PushID)
	if len(a.says) == 0 {
		return bcp.ValidationResult{Success: true}, nil
	}
	err := a.says[0]
	a.says = a.says[1:]
	return bcp.ValidationResult{}, err
}

func newRelay(t *testing.T, a *above, dir string, change func(*Config)) *Relay {
	t.Helper()
	c := Config{Routes: []Route{testRoute}, Folder: dir, Push: a.push, Connected: func() bool { return true }, Logger: hclog.NewNullLogger()}
	if change != nil {
		change(&c)
	}
	return must(New(c))(t)
}

func reading(id bcp.DeliveryID) bcp.Delivery {
	return bcp.Delivery{DeliveryID: id, FromAgent: "sensor", SubscriptionID: "readings", Category: 1, Response: []byte(`{"n":1}`), Taint: bcp.TaintMedium}
}

// A delivery that comes again is pushed with the same id, as long as nobody knows what
// became of it, and not at all when it is known to be above, also by a relay that was
// killed. A refusal that says nothing was kept has the same id tried again, any other a
// new one.
//
// covers P2.6
func TestIDs(t *testing.T) {
	t.Parallel()
	lost, limited, spent := errors.New("the answer was lost"), &agents.RefusedError{Code: bcp.RateLimited}, &agents.RefusedError{Code: bcp.BudgetExhausted}
	for name, c := range map[string]struct {
		says []error
		same bool
	}{"an answer that is lost": {[]error{lost}, true}, "rate_limited": {[]error{limited}, true}, "budget_exhausted": {[]error{spent}, false}} {
		a := &above{says: c.says}
		r := newRelay(t, a, t.TempDir(), nil)
		err := r.Deliver(t.Context(), reading("d1"))
		failIf(t, err != nil || len(a.ids) != 2 || (a.ids[0] == a.ids[1]) != c.same, "%s: %v, ids %q", name, err, a.ids)
		for _, id := range a.ids {
			_, err := bcp.ParseClientID(string(id))
			failIf(t, err != nil, "%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	a := &above{says: []error{lost}}
	ctx, kill := context.WithCancel(t.Context())
	dying := newRelay(t, a, dir, nil)
	push := dying.config.Push
	dying.config.Push = func(ctx context.Context, c bcp.AgentName, id bcp.SubscriptionID, response any, o agents.PushOptions) (bcp.ValidationResult, error) {
		defer kill()
		return push(ctx, c, id, response, o)
	}
	err := dying.Deliver(ctx, reading("d1"))
	failIf(t, !errors.Is(err, context.Canceled), "a relay that ends says %v", err)
	for range 2 { // it comes again twice: the first acknowledgement was lost
		err := newRelay(t, a, dir, nil).Deliver(t.Context(), reading("d1"))
		failIf(t, err != nil, "%v", err)
	}
	failIf(t, len(a.ids) != 2 || a.ids[0] != a.ids[1], "ids %q", a.ids)
	other := testRoute
	other.To = "elsewhere"
	failIf(t, pushID(testRoute, "d1", 0) == pushID(testRoute, "d2", 0) || pushID(testRoute, "d1", 0) == pushID(other, "d1", 0) || pushID(testRoute, "d1", 1) == pushID(testRoute, "d1", 0),
		"two pushes have one id")
}

// As many deliveries as may be on their way are known when they come again, and one more
// is not.
func TestDone(t *testing.T) {
	t.Parallel()
	a := &above{}
	r := newRelay(t, a, t.TempDir(), nil)
	id := func(n int) bcp.DeliveryID { return bcp.DeliveryID("d" + strings.Repeat("x", n+1)) }
	for n := range maxDone + 1 {
		noError(t, r.Deliver(t.Context(), reading(id(n))))
	}
	for n, pushed := range []int{maxDone + 2, maxDone + 2} { // the oldest is not known, the second is not known any more then
		err := r.Deliver(t.Context(), reading(id(n)))
		failIf(t, err != nil || n == 0 && len(a.ids) != pushed, "%d: %v, %d pushes, want %d", n, err, len(a.ids), pushed)
	}
	before := len(a.ids)
	for n := 3; n <= maxDone; n++ {
		err := r.Deliver(t.Context(), reading(id(n)))
		stopIf(t, err != nil || len(a.ids) != before, "delivery %d of the window is pushed twice: %v", n, err)
	}
	failIf(t, r.Carried() != uint64(before), "%d carried, %d pushed", r.Carried(), before)
}

// A push whose answer was lost is in doubt when the mesh above may have forgotten its id:
// then nothing goes on until somebody says what to do. So it is when the clock went back,
// as on a machine that has none of its own.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after  time.Duration
		way    InDoubt
		want   error
		pushes int
		same   bool
	}{
		"within its time": {idLife - 1, Stop, nil, 2, true},
		"past it":         {idLife, Stop, errDoubt, 1, true},
		"repeated":        {idLife, Repeat, nil, 2, false},
		"skipped":         {idLife, Skip, nil, 1, true},
		"repeated before": {idLife - 1, Repeat, nil, 2, true},
		"set back":        {-clockStep, Stop, nil, 2, true},
		"set back more":   {-clockStep - 1, Stop, errDoubt, 1, true},
	} {
		dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
		a := &above{says: []error{errors.New("the answer was lost")}}
		ctx, kill := context.WithCancel(t.Context())
		first := newRelay(t, a, dir, nil)
		first.now = func() time.Time { return now }
		push := first.config.Push
		first.config.Push = func(ctx context.Context, c bcp.AgentName, id bcp.SubscriptionID, response any, o agents.PushOptions) (bcp.ValidationResult, error) {
			defer kill()
			return push(ctx, c, id, response, o)
		}
		err := first.Deliver(ctx, reading("d1"))
		stopIf(t, !errors.Is(err, context.Canceled), "%v", err)
		second := newRelay(t, a, dir, func(of *Config) { of.InDoubt = c.way })
		second.now = func() time.Time { return now.Add(c.after) }
		if err := second.Deliver(t.Context(), reading("d1")); !errors.Is(err, c.want) || len(a.ids) != c.pushes || a.ids[0] == a.ids[len(a.ids)-1] != c.same {
			t.Errorf("%s: %v, pushes %q", name, err, a.ids)
		}
		if c.want == nil {
			err := second.Deliver(t.Context(), reading("d1"))
			failIf(t, err != nil || len(a.ids) != c.pushes, "%s, again: %v, pushes %q", name, err, a.ids)
		}
	}
}

// What was refused before the answer of a later attempt was lost is no doubt of its own:
// time counts from the attempt.
func TestRefusalsAreNoDoubt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	a := &above{says: []error{&agents.RefusedError{Code: bcp.RateLimited}}}
	r := newRelay(t, a, t.TempDir(), nil)
	r.now = func() time.Time { now = now.Add(idLife / 2); return now }
	err := r.Deliver(t.Context(), reading("d1"))
	failIf(t, err != nil || len(a.ids) != 2, "%v, %q", err, a.ids)
}

// What cannot be carried stays below, with an error that says why; what is no push of a
// Reader is not carried, and stops nothing.
//
// covers P8.2
func TestNotCarried(t *testing.T) {
	t.Parallel()
	change := func(do func(*bcp.Delivery)) bcp.Delivery { d := reading("d1"); do(&d); return d }
	for name, c := range map[string]struct {
		d    bcp.Delivery
		want error
	}{
		"another subscription":   {change(func(d *bcp.Delivery) { d.SubscriptionID = "other" }), errNoRoute},
		"another Reader":         {change(func(d *bcp.Delivery) { d.FromAgent = "other" }), errNoRoute},
		"a batch":                {change(func(d *bcp.Delivery) { d.Batch = []bcp.Pushed{{}} }), errBatch},
		"more taint than above":  {change(func(d *bcp.Delivery) { d.Taint = bcp.TaintHigh }), errTaint},
		"no taint":               {change(func(d *bcp.Delivery) { d.Taint = bcp.TaintUnknown }), errTaint},
		"an answer to a query":   {change(func(d *bcp.Delivery) { d.SubscriptionID, d.QueryID = "", "q1" }), nil},
		"nothing that was said":  {change(func(d *bcp.Delivery) { d.Response, d.Outcome = nil, bcp.ApprovalExpired }), nil},
		"the end of a run's ask": {change(func(d *bcp.Delivery) { d.SubscriptionID, d.RunID = "", "r1" }), nil},
	} {
		a := &above{}
		r := newRelay(t, a, t.TempDir(), nil)
		err := r.Deliver(t.Context(), c.d)
		failIf(t, !errors.Is(err, c.want) || len(a.ids) > 0 || r.Carried() > 0, "%s: %v, pushes %q", name, err, a.ids)
	}
}

// A file that cannot be read or written stops its channel before anything is sent.
func TestMemoryIsNeeded(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"cut": `{"done":["d`, "another member": `{"x":1}`, "too long": strings.Repeat(" ", maxFile+1)} {
		dir, a := t.TempDir(), &above{}
		noError(t, os.WriteFile(filepath.Join(dir, "sensor.json"), []byte(content), 0o600))
		err := newRelay(t, a, dir, nil).Deliver(t.Context(), reading("d1"))
		failIf(t, err == nil || len(a.ids) > 0, "%s: %v, pushes %q", name, err, a.ids)
	}
	a := &above{}
	err := newRelay(t, a, filepath.Join(t.TempDir(), "gone"), nil).Deliver(t.Context(), reading("d1"))
	failIf(t, err == nil || len(a.ids) > 0, "no folder: %v, pushes %q", err, a.ids)
	all := memory{Doing: bcp.DeliveryID(strings.Repeat("d", 64)), Attempt: 1 << 40, Since: time.Now()}
	for range maxDone {
		all.Done = append(all.Done, all.Doing)
	}
	r := newRelay(t, a, t.TempDir(), nil)
	noError(t, r.write("sensor", all))
	_, err = r.remember("sensor")
	failIf(t, err != nil, "as much as is ever written: %v", err)
}

// Taint is reported before each push of what is tainted below, and where it cannot be,
// nothing is pushed.
//
// covers P8.1, P8.2
func TestReports(t *testing.T) {
	t.Parallel()
	a := &above{}
	var failing error
	report := func(context.Context) error {
		a.did = append(a.did, "report")
		err := failing
		failing = nil
		return err
	}
	r := newRelay(t, a, t.TempDir(), func(c *Config) { c.Report = report })
	clean := reading("d1")
	clean.Taint = bcp.TaintLow
	for _, d := range []bcp.Delivery{clean, reading("d2")} {
		noError(t, r.Deliver(t.Context(), d))
	}
	failing = errors.New("not heard")
	noError(t, r.Deliver(t.Context(), reading("d3")))
	got := strings.Join(a.did, " ")
	failIf(t, got != "push report push report report push", "it did %s", got)
}

// Routes say what they are for, and which of them the mesh below has no use for.
func TestRoutes(t *testing.T) {
	t.Parallel()
	if r, err := ParseRoute("sensor/readings=main/site"); err != nil || r != testRoute || r.String() != "sensor/readings=main/site" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", "sensor/readings", "sensor=main", "sensor/readings=main", "a b/readings=main/site", "sensor/readings=main/site/x", "sensor/=main/site", "=", "sensor/readings=main/site=x"} {
		r, err := ParseRoute(text)
		failIf(t, err == nil || r != (Route{}), "%q is %+v", text, r)
	}
	_, err := New(Config{Routes: []Route{testRoute, {"sensor", "readings", "main", "other"}}})
	failIf(t, err == nil, "two routes begin at one subscription")
	r := newRelay(t, &above{}, t.TempDir(), nil)
	subscriptions := func(list ...bcp.ActiveSubscription) []bcp.ChannelView {
		return []bcp.ChannelView{{Reader: "sensor", Subscriptions: list}}
	}
	one := bcp.ActiveSubscription{SubscriptionID: "readings"}
	batch := bcp.ActiveSubscription{SubscriptionID: "readings", BatchWindow: "1m"}
	for name, c := range map[string]struct {
		below []bcp.ChannelView
		want  string
	}{
		"it fits":                        {subscriptions(one), ""},
		"nothing there":                  {nil, "there is no subscription sensor/readings below"},
		"a batch":                        {subscriptions(batch), "batch_window"},
		"a subscription without a route": {subscriptions(one, bcp.ActiveSubscription{SubscriptionID: "alarms"}), "no route begins"},
	} {
		err := r.Check(c.below)
		failIf(t, (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
