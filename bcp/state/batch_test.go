package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// batched returns a testMesh whose planner has names delivered by the hour.
func batched(more ...func(*bcp.Channel)) *bcp.Mesh {
	return edited(func(c *bcp.Channel) {
		c.Subscriptions[1].BatchWindow = time.Hour
		for _, edit := range more {
			edit(c)
		}
	})
}

func pushName(names ...string) string {
	var lines strings.Builder
	for _, name := range names {
		fmt.Fprintf(&lines, "push mail planner name {\"q\":%q} => accept silent bits:22.0 !begins\n", name)
	}
	return lines.String()
}

// The pushes of a window are one delivery at its end, sorted by their bytes, with
// the bits of all of them; nothing is seen before.
//
// covers SUB-146, P12.3, P4.3, P9.2
func TestBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batched()).play(pushName("zoe", "ada", "ada") + `
		push mail planner name {"q":"ada_bob_eve"} => validation_failed
		wait 59m59.999999999s
		due                                        => nothing`)
	end := w.now.Add(time.Nanosecond) // the world begins at a full hour
	if out := w.state.Outbox(plannerMail); len(out) != 0 {
		t.Fatalf("the Controller sees %+v", out)
	}
	w.play(`
		wait 1ns` + "\n" + pushName("eve") + `
		due                                        => batch delivers count:3 begins by-delivery prepaid bits:66.0 settled:88.0
		due                                        => nothing`)
	out := w.state.Outbox(plannerMail)
	stopIf(t, len(out) != 1 || !out[0].Release.Equal(end), "the outbox has %+v", out)
	each := w.state.channels[plannerMail].subscriptions["name"].Prices().Capacity + bcp.PushTiming(1)
	want := bcp.Delivery{Type: bcp.TypeResponseDelivery, DeliveryID: out[0].DeliveryID, SubscriptionID: "name", Category: 2, FromAgent: "mail",
		Batch:         []bcp.Pushed{{Response: []byte(`{"q":"ada"}`)}, {Response: []byte(`{"q":"ada"}`)}, {Response: []byte(`{"q":"zoe"}`)}},
		BandwidthBits: 66 * bcp.Bit, CapacityBits: 3 * each, Taint: bcp.TaintMedium, ChannelMode: "bcp"}
	same(t, want, out[0].Delivery, "delivery")
	b, err := bcp.Encode(out[0].Delivery, bcp.JSON)
	text := `"from_agent":"mail","batch":[{"response":{"q":"ada"}},{"response":{"q":"ada"}},{"response":{"q":"zoe"}}],"bandwidth_bits":66.0`
	failIf(t, err != nil || !strings.Contains(string(b), text), "on the wire: %s, %v", b, err)
	w.play(`
		ack planner => acknowledge
		wait 59m59.999999999s
		due         => nothing
		wait 1ns
		due         => batch delivers count:1
		ack planner => acknowledge
		wait 5h
		due         => nothing`) // an empty window is no delivery
}

// covers SUB-42, SUB-146, P12.3, P9.3
func TestReaderIsShownTheWindow(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Second: "90s", 48 * time.Hour: "2d", 0: ""} {
		w := newWorld(t, batched(func(c *bcp.Channel) { c.Subscriptions[1].BatchWindow = window }))
		expect(t, w.state.Subscriptions("mail").Subscriptions[2].BatchWindow, want, "%s is shown as", window)
	}
}

// What is in a delivery does not depend on the order or the times in which its
// pushes came.
//
// covers SUB-146, P12.3, P2.4, A-ORD, A-TIME
func TestBatchTellsNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"ada", "bob", "eve"}), 1, 6).Draw(r, "names")
		delivered := func(order []int) string {
			w := newWorld(t, batched(func(c *bcp.Channel) {
				c.ReleaseInterval, c.Budget, c.PushBudget = time.Minute, 1000*bcp.Bit, 1000*bcp.Bit
			}))
			w.act("event connect mail 0")
			left := 3600 - 60
			for _, i := range order {
				pause := rapid.IntRange(0, left/len(order)).Draw(r, "pause")
				w.act("wait " + (time.Duration(pause) * time.Second).String())
				w.act(fmt.Sprintf("push mail planner name {\"q\":%q}", names[i]))
			}
			w.act("wait 1h")
			for w.act("due")[0] != "nothing" {
			}
			out := w.state.Outbox(plannerMail)
			stopIf(r, len(out) != 1, "%d deliveries", len(out))
			out[0].DeliveryID = ""
			b := must(bcp.Encode(out[0].Delivery, bcp.JSON))
			return string(b)
		}
		places := make([]int, len(names))
		for i := range places {
			places[i] = i
		}
		a, b := delivered(places), delivered(rapid.Permutation(places).Draw(r, "order"))
		stopIf(r, a != b, "%s\n%s", a, b)
	})
}

// No push costs less in a window than it would by itself at the same time, so a
// Controller that saw each of them alone would be told less for more: a delivery
// of a window follows from those deliveries.
//
// covers SUB-146, P12.3, P4.1, A-TIME
func TestBatchCostsNoLessThanSingles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		window := time.Duration(rapid.IntRange(1, 30).Draw(r, "slots")) * time.Minute
		worlds := map[time.Duration]*world{}
		for _, length := range []time.Duration{0, window} {
			w := newWorld(t, batched(func(c *bcp.Channel) {
				c.ReleaseInterval, c.Subscriptions[1].BatchWindow, c.Budget, c.PushBudget = time.Minute, length, 1e6*bcp.Bit, 1e6*bcp.Bit
			}))
			w.act("event connect mail 0")
			worlds[length] = w
		}
		for range rapid.IntRange(1, 25).Draw(r, "pushes") {
			pause := time.Duration(rapid.IntRange(0, rapid.SampledFrom([]int{30, 300, 9000}).Draw(r, "scale")).Draw(r, "seconds")) * time.Second
			var cost [2]bcp.Bits
			for i, length := range []time.Duration{0, window} {
				w := worlds[length]
				w.now = w.now.Add(pause)
				for w.act("due")[0] != "nothing" {
				}
				w.act(`push mail planner name {"q":"ada"}`)
				cost[i] = w.last.Capacity
				stopIf(r, w.last.Verdict != bcp.Accept, "refused: %+v", w.last)
			}
			stopIf(r, cost[1] < cost[0], "by itself it costs %s, in a window of %s %s", cost[0], window, cost[1])
		}
	})
}

// A window takes as many pushes as it can, and one more waits for the next.
//
// covers SUB-146, P12.3
func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batched(func(c *bcp.Channel) { c.Budget, c.PushBudget = 1e6*bcp.Bit, 1e6*bcp.Bit }))
	w.act("wait 10m")
	for i := range bcp.MaxBatchPushes {
		w.act(`push mail planner name {"q":"ada"}`)
		stopIf(t, w.last.Verdict != bcp.Accept, "push %d: %+v", i+1, w.last)
	}
	w.play(`push mail planner name {"q":"ada"} => rate_limited
		push mail planner alarm {"ok":true} => accept`)
	wait := w.state.RetryAfter(w.now, "mail", "planner", "name")
	expect(t, wait, 50*time.Minute, "try again after")
	w.now = w.now.Add(wait)
	w.play(pushName("ada") + `due => batch count:` + fmt.Sprint(bcp.MaxBatchPushes))
	expect(t, w.state.RetryAfter(w.now, "mail", "planner", "name"), 0, "there is room, and it has to wait")
	b := &batch{count: 1, bytes: maxBatchBytes}
	failIf(t, !b.full(), "a window of the most bytes takes another push")
	b = &batch{count: 1, bytes: maxBatchBytes - 1}
	failIf(t, b.full(), "a window of a byte less takes none")
}

// What a person lets through goes with the window in which it was let through.
//
// covers SUB-92, SUB-146, P12.3, P7.3, P7.6
func TestHeldPushesAreBatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, edited(func(c *bcp.Channel) { c.Subscriptions[3].BatchWindow = time.Hour })).play(`
		push mail planner memo {"summary":"b"} => hold
		push mail planner memo {"summary":"a"} => hold
		push mail planner memo {"summary":"c"} => hold
		wait 90m
		approve 1                              => accept silent prepaid notice
		edit 2 {"summary":"d"}                 => accept silent prepaid notice
		reject 3 no                            => accept silent
		due                                    => nothing
		wait 30m
		due                                    => batch delivers count:2 bits:44.0 settled:66.0`)
	out := w.state.Outbox(plannerMail)
	failIf(t, len(out) != 1 || len(out[0].Batch) != 2 || string(out[0].Batch[0].Response) != `{"summary":"b"}` || string(out[0].Batch[1].Response) != `{"summary":"d"}`,
		"the outbox has %+v", out)
}

// A restart, and definitions that have the window no more, or the subscription,
// lose and double nothing of what waits.
//
// covers SUB-146, P12.3, P1.5, P4.5, A-CRASH
func TestBatchOverReloads(t *testing.T) {
	t.Parallel()
	for name, mesh := range map[string]*bcp.Mesh{
		"same": batched(), "other window": batched(func(c *bcp.Channel) { c.Subscriptions[1].BatchWindow = 7 * time.Minute }),
		"no window":       batched(func(c *bcp.Channel) { c.Subscriptions[1].BatchWindow = 0 }),
		"no subscription": batched(func(c *bcp.Channel) { c.Subscriptions = slices.Delete(c.Subscriptions, 1, 2) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, batched()).play(pushName("ada", "bob") + "wait 30m")
			w.reload(mesh)
			w.play(`
				due      => nothing
				wait 30m
				due      => batch delivers count:2 bits:44.0
				due      => nothing`)
			out := w.state.Outbox(plannerMail)
			failIf(t, len(out) != 1 || len(out[0].Batch) != 2, "the outbox has %+v", out)
		})
	}
	w := newWorld(t, batched()).play(pushName("ada"))
	w.reload(edited(func(c *bcp.Channel) { c.ChannelKey.Reader = "web"; c.Subscriptions = nil }))
	w.play(`wait 2h
		due => batch
		due => nothing`) // it waits for the channel to come back
}

// A window that ends while no gateway runs is closed by the next, and its pushes
// are not among those of a later one.
//
// covers SUB-146, P12.3, P9.5
func TestBatchOfALateGateway(t *testing.T) {
	t.Parallel()
	newWorld(t, batched()).play(pushName("ada") + "wait 5h\n" + pushName("bob", "eve") + `
		due      => batch count:1
		due      => nothing
		wait 1h
		due      => batch count:2`)
}

// covers SUB-146, P11.5
func TestErasureWaitsForTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batched(func(c *bcp.Channel) { c.Subscriptions[1].BatchWindow = 7 * 24 * time.Hour })).play(pushName("ada") + `
		wait 49h
		erase planner mail latest => refused`)
	failIf(t, !slices.Contains(w.reasons, "1 push of those days waits for the end of a window"), "refused because %q", w.reasons)
	w.play(`
		wait 168h
		due         => batch count:1
		ack planner => acknowledge
		wait 48h
		erase planner mail latest => !refused`)
}

// A journal that closes a window otherwise than its pushes say is refused.
//
// covers P4.5, P12.3
func TestForgedBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, batched()).play(pushName("ada", "bob") + "wait 1h")
	good, due := w.state.DecideDue(w.moment())
	stopIf(t, !due || good.Kind != bcp.KindBatch, "due is %+v", good)
	for name, forge := range map[string]func(*bcp.Decision){
		"count":        func(d *bcp.Decision) { d.Count++ },
		"bits":         func(d *bcp.Decision) { d.Nominal-- },
		"capacity":     func(d *bcp.Decision) { d.Capacity++ },
		"no delivery":  func(d *bcp.Decision) { d.Delivery = "" },
		"not prepaid":  func(d *bcp.Decision) { d.Prepaid = false },
		"another end":  func(d *bcp.Decision) { d.Release += int64(time.Hour) },
		"early":        func(d *bcp.Decision) { d.Time = d.Release - 1 },
		"epoch":        func(d *bcp.Decision) { d.Epoch++ },
		"subscription": func(d *bcp.Decision) { d.Subscription = "alarm" },
		"unknown":      func(d *bcp.Decision) { d.Subscription = "none" },
	} {
		s := w.replay()
		forged := good
		forge(&forged)
		fails(t, s.Apply(&forged, bcp.Digest{1}), ErrReplay, "%s", name)
	}
	expect(t, w.replay().Apply(&good, bcp.Digest{1}), nil, "the gateway's own")
}
