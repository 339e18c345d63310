package state

import (
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// wasTold is what a requester's words may carry of what it was told: -1 for nothing.
func wasTold(w *world, controller bcp.AgentName) bcp.Bits {
	bits, told := w.state.Told(controller, w.moment())
	if !told {
		return -1
	}
	return bits
}

// What a Controller was told counts once it is released, and not when it is decided: a
// label of its task would tell what happens within a release slot. So does its exposure.
//
// covers P4.1, P8.2, A-TIME
func TestToldFromTheReleaseOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ask, act string }{
		"a push":            {"", `push mail planner alarm {"ok":true} => accept`},
		"an answer":         {"ask planner mail yes => accept", `answer mail 1 {"ok":true} => accept`},
		"no answer":         {"ask planner mail yes => accept", `answer mail 1 nei => accept`},
		"a held answer":     {"ask planner mail text => accept", `answer mail 1 ` + answerWord(heldAnswer) + ` => hold`},
		"what time decides": {"ask planner mail yes => accept", "wait 15m \n due => expire"},
	} {
		w := newWorld(t, edited(func(c *bcp.Channel) { c.ReleaseInterval = time.Minute })).play(c.ask + "\n wait 1s \n" + c.act)
		out := w.state.Outbox(plannerMail)[0]
		for w.now = out.Release.Add(-1); ; w.now = out.Release {
			exposure, _ := w.state.agents["planner"].learnt(w.now.UnixNano())
			want, exposed := bcp.Bits(-1), bcp.TaintLow
			if !w.now.Before(out.Release) {
				want, exposed = w.last.Capacity, bcp.TaintMedium
			}
			if got := wasTold(w, "planner"); got != want || exposure != exposed {
				t.Errorf("%s, at %s: told %s and %s, want %s and %s", name, w.now.Format(time.TimeOnly), got, exposure, want, exposed)
			}
			if exposed == bcp.TaintMedium {
				break
			}
		}
	}
}

// Each bit is told once: an answer that is held is charged when it is, and what becomes of
// it is a part of that. Nobody is told of a held push.
//
// covers P4.1, P7.6
func TestToldOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history string
		want    bcp.Bits // 0: the charge of the newest item
	}{
		"nothing":               {"ask planner mail yes => accept", -1},
		"a gate":                {"ask planner mail three why=so => hold", -1},
		"a held push":           {`push mail planner memo {"summary":"a_b"} => hold`, -1},
		"one let through":       {"push mail planner memo {\"summary\":\"a_b\"} => hold \n approve 1 => accept delivers", 0},
		"a held answer":         {"ask planner mail text => accept \n answer mail 1 " + answerWord(heldAnswer) + " => hold", 0},
		"one approved":          {"ask planner mail text => accept \n answer mail 1 " + answerWord(heldAnswer) + " => hold \n approve 1 => accept delivers", 0},
		"one rejected":          {"ask planner mail text => accept \n answer mail 1 " + answerWord(heldAnswer) + " => hold \n reject 1 no => accept", 0},
		"a summary":             {"ask planner mail three why=so => hold \n approve 1 => accept \n answer mail 1 {\"summary\":\"a_b\"} => hold", -1},
		"a summary let through": {"ask planner mail three why=so => hold \n approve 1 => accept \n answer mail 1 {\"summary\":\"a_b\"} => hold \n approve 2 => accept delivers", 0},
	} {
		w := newWorld(t, testMesh())
		w.play(c.history)
		want := c.want
		if want == 0 {
			for _, record := range w.journal {
				if d, err := decodeOpen(record); err == nil && d.Verdict == bcp.Hold && d.Kind != bcp.KindAsk {
					want = d.Capacity
				}
			}
		}
		expect(t, wasTold(w, "planner"), want, "%s: told", name)
	}
}

// What was told adds up over deliveries and sessions, and never falls. A requester that may
// have read content itself, or that nobody knows, may have been told anything.
//
// covers P8.2
func TestToldAddsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	var sum bcp.Bits
	for range 3 {
		w.play(`push mail planner alarm {"ok":true} => accept`)
		sum += w.last.Capacity
		expect(t, wasTold(w, "planner"), sum, "told")
	}
	expect(t, wasTold(w, "clerk"), -1, "another was told")
	w.state.agents["planner"].learn(&arrival{told: bcp.MaxBits * bcp.Bit})
	expect(t, wasTold(w, "planner"), bcp.MaxBits*bcp.Bit, "more than everything")
	w = newWorld(t, testMesh()).play("report planner web")
	got, nobody := wasTold(w, "planner"), wasTold(w, "nobody")
	failIf(t, got != bcp.MaxBits*bcp.Bit || nobody != got, "one that read content was told %s, nobody %s", got, nobody)
}

// Who opens a session says that it knows nothing of what it was told. Asking says nothing
// of the kind, nor closing alone; and what still waits for its acknowledgement it hears in
// the new session. What is held over the border counts whole when it comes.
//
// covers P9.2
func TestToldInItsSession(t *testing.T) {
	t.Parallel()
	const told = "ask planner mail yes => accept \n answer mail 1 {\"ok\":true} => accept \n"
	held := "ask planner mail text => accept \n answer mail 1 " + answerWord(heldAnswer) + " => hold \n"
	for name, c := range map[string]struct {
		history string
		want    bool // it was told something
	}{
		"told":                           {told + "ack planner 1", true},
		"closed":                         {told + "ack planner 1 \n close planner => accept", true},
		"closed, and asks":               {told + "ack planner 1 \n close planner => accept \n ask planner mail yes => accept", true},
		"opened while it is open":        {told + "ack planner 1 \n open planner => accept", true},
		"opened anew":                    {told + "ack planner 1 \n close planner => accept \n open planner => accept", false},
		"opened, and not heard before":   {told + "close planner => accept \n open planner => accept", true},
		"opened anew, and told again":    {told + "ack planner 1 \n close planner => accept \n open planner => accept \n ask planner mail yes => accept \n answer mail 2 nei => accept", true},
		"what was held counts afterward": {held + "ack planner 1 \n close planner => accept \n open planner => accept \n approve 1 => accept delivers", true},
	} {
		w := newWorld(t, testMesh()).play(c.history)
		expect(t, wasTold(w, "planner") >= 0, c.want, "%s: told", name)
	}
}
