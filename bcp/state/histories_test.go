package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

var modelValues = map[string]map[string]string{
	"yes":  {"good": `{"ok":true}`, "bad": `{"ok":1}`, "odd": `{"ok":true}`, "no": `{"ok":false}`},
	"num":  {"good": `{"n":7}`, "bad": `{"n":1024}`, "odd": `{"n":7}`},
	"name": {"good": `{"q":"ada"}`, "bad": `{}`},
	"text": {"good": `{"q":"fine"}`, "bad": `{}`, "odd": answerWord(heldAnswer), "url": `{"q":"see_evil.com"}`},
}

// modelMesh is small in everything, so that every limit is met.
func modelMesh() *bcp.Mesh {
	mesh := testMesh()
	mesh.MaxRefusals = 1 << 30
	mesh.Channels = slices.DeleteFunc(mesh.Channels, func(c bcp.Channel) bool { return c.Reader == "relay" || c.Controller == "relay" })
	for _, key := range []bcp.ChannelKey{{Controller: "clerk", Reader: "web"}} {
		mesh.Channels = append(mesh.Channels, testChannel(key.Controller, key.Reader))
	}
	for i := range mesh.Channels {
		c := &mesh.Channels[i]
		c.MaxEscalations, c.MaxRetries, c.MaxCat2Queries, c.MaxPendingApprovals = 1<<30, 2, 3, 2
		c.Budget, c.PushBudget, c.ApprovalTTL, c.CapacityBudget = bcp.Bits(120+60*i)*bcp.Bit, 100*bcp.Bit, 2*time.Hour, bcp.Bits(4000*(i+1))*bcp.Bit
		c.Subscriptions = testMesh().Channels[1].Subscriptions[:4]
		c.Subscriptions[0].MaxRate, c.Subscriptions[0].PublishWhen = bcp.Rate{Count: modelRate, Span: time.Hour}, "ok"
		c.Subscriptions[1].BatchWindow = modelWindow
		c.Endorse = bcp.EndorseRule{People: []bcp.AgentName{"mia"}, MaxUses: 3, MaxTime: 3 * time.Hour, MaxBits: 8000 * bcp.Bit}
	}
	return mesh
}

// covers BCP-60, BCP-78, BCP-145, BCP-174, SUB-94, P3.10, P4.3, P4.4, P4.5, P7.4, P7.6, P9.2, P11.3, P12.1, A-RACE, A-RDRRESET
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		mesh := modelMesh()
		w := newWorld(t, mesh)
		m := newModel(mesh)
		replica, replayed := w.fresh(), 0
		keys := make([]bcp.ChannelKey, 0, len(mesh.Channels))
		for _, c := range mesh.Channels {
			keys = append(keys, c.ChannelKey)
		}
		var told, untold bcp.Bits // what deliveries say, and what was charged and nobody told of
		var history []string
		released := 0
		fail := func(format string, args ...any) {
			r.Helper()
			r.Fatalf("%s\n%s", strings.Join(history, "\n"), fmt.Sprintf(format, args...))
		}
		note := func(d *bcp.Decision) {
			out, delivers := d.Message()
			told += out.BandwidthBits
			switch {
			case d.Verdict == bcp.Hold && d.Kind != bcp.KindAsk, d.Kind == bcp.KindPush && d.Gathered():
				untold += d.Nominal
			case d.Prepaid && delivers:
				untold -= d.Nominal
			}
			for i, it := range m.items {
				if it.id == "" {
					it.id = w.items[i]
				}
			}
		}
		for step := range rapid.IntRange(20, 250).Draw(r, "steps") {
			m.event = step + 1
			key := rapid.SampledFrom(keys).Draw(r, "channel")
			c := m.channels[key]
			act := rapid.SampledFrom([]string{"ask", "ask", "answer", "answer", "answer", "push", "wait", "wait", "open", "close", "ack", "decide", "decide", "renew", "process", "notice", "endorse", "endorse", "revoke"}).Draw(r, "act")
			var line string
			var want bcp.Code
			var outcome bcp.Code
			switch act {
			case "ask":
				spec := rapid.SampledFrom([]string{"yes", "num", "name", "text", "three"}).Draw(r, "spec")
				v := w.compiled(key, spec)
				line = fmt.Sprintf("ask %s %s %s why=so", key.Controller, key.Reader, spec)
				var q *modelQuery
				if want, q = m.ask(c, spec, v.Spec().Category, v.Prices()); q != nil {
					q.id = bcp.QueryID(fmt.Sprintf("q%06d", w.moments+1))
					if v.Spec().Category == 3 {
						outcome = bcp.Held
					}
				}
			case "answer":
				if len(m.queries) == 0 {
					continue
				}
				from := max(0, len(m.queries)-8) // mostly recent ones
				if rapid.IntRange(0, 9).Draw(r, "old") == 0 {
					from = 0
				}
				n := rapid.IntRange(from, len(m.queries)-1).Draw(r, "query")
				q := m.queries[n]
				reader := q.ch.Reader
				if rapid.IntRange(0, 9).Draw(r, "foreign") == 0 {
					reader = "web"
				}
				kind := rapid.SampledFrom([]string{"good", "good", "bad", "nei", "junk", "odd", "url", "url", "url"}).Draw(r, "value")
				value := modelValues[q.spec][kind]
				if kind == "nei" || kind == "junk" {
					value = kind
				} else if value == "" {
					value, kind = `{"summary":1}`, "bad"
				} else if (kind == "odd" || kind == "url") && q.spec != "text" {
					kind = "good"
				}
				try := q.tries + rapid.IntRange(-1, 1).Draw(r, "try")
				line = fmt.Sprintf("answer %s %d %s try=%d", reader, n+1, value, try)
				want, outcome = m.answer(q, reader, kind, try)
			case "push":
				sub := rapid.SampledFrom([]string{"alarm", "name", "note", "memo"}).Draw(r, "subscription")
				spec, kind := map[string]string{"alarm": "yes", "name": "name", "note": "text", "memo": "three"}[sub], rapid.SampledFrom([]string{"good", "good", "bad", "odd", "url", "url", "no"}).Draw(r, "value")
				value := modelValues[spec][kind]
				switch {
				case sub == "memo":
					if value, kind = `{"summary":"a_b"}`, "odd"; step%5 == 0 {
						value, kind = answerWord(longSum), "bad"
					}
				case kind == "odd" && sub == "alarm":
					kind = "good"
				case kind == "odd" && sub == "name", kind == "url" && sub != "note", kind == "no" && sub != "alarm":
					value, kind = modelValues[spec]["good"], "good"
				}
				line = fmt.Sprintf("push %s %s %s %s", key.Reader, key.Controller, sub, value)
				p := w.state.channels[key].subscriptions[bcp.SubscriptionID(sub)].Prices()
				want = m.push(c, spec, kind, p.Nominal, p.Capacity+bcp.PushTiming(1))
			case "wait":
				d := rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, 61 * time.Minute, 3 * time.Hour, 25 * time.Hour}).Draw(r, "time")
				m.now = m.now.Add(d)
				history = append(history, "wait "+d.String())
				w.act("wait " + d.String())
				m.event++
				ended, pushes, windows := m.expire()
				for w.act("due")[0] != "nothing" {
					switch d := &w.last; {
					case d.Kind == bcp.KindAlert:
						continue
					case d.Kind == bcp.KindBatch:
						windows--
					case d.Query == "" && d.Outcome == "":
						pushes--
					case ended[d.Query] != d.Outcome:
						fail("%s ends as %q, want %q", d.Query, d.Outcome, ended[d.Query])
					default:
						delete(ended, d.Query)
					}
					note(&w.last)
				}
				if len(ended) > 0 || pushes != 0 || windows != 0 {
					fail("%v, %d pushes and %d windows are due and were not decided", ended, pushes, windows)
				}
			case "decide":
				if len(m.items) == 0 {
					continue
				}
				n := rapid.IntRange(max(0, len(m.items)-5), len(m.items)-1).Draw(r, "item")
				it := m.items[n]
				act := rapid.SampledFrom([]bcp.Act{bcp.Approve, bcp.RejectItem, bcp.EditItem}).Draw(r, "decision")
				value, valid := "no", true
				if act == bcp.EditItem {
					value = map[string]string{"three": `{"summary":"so_be"}`, "text": `{"q":"so_be_it"}`}[it.q.spec]
					if valid = rapid.Bool().Draw(r, "valid"); !valid {
						value = `{"x":1}`
					}
				}
				line = fmt.Sprintf("%s %d %s", act, n+1, value)
				want, outcome = m.decide(it, act, valid)
			case "endorse":
				given := modelEndorsement{id: fmt.Sprintf("e%025d", rapid.IntRange(1, 12).Draw(r, "id")), ch: c, sub: rapid.SampledFrom([]string{"", "note"}).Draw(r, "of"),
					uses: rapid.IntRange(1, 4).Draw(r, "uses"), bits: bcp.Bits(rapid.SampledFrom([]int{3000, 4000, 7000, 8000, 8001}).Draw(r, "bits")) * bcp.Bit}
				length := rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, time.Hour, 3 * time.Hour, 4 * time.Hour}).Draw(r, "length")
				line = fmt.Sprintf("endorse controller=%s reader=%s id=%s sub=%s uses=%d bits=%d for=%s", key.Controller, key.Reader, given.id, given.sub, given.uses, given.bits/bcp.Bit, length)
				want = m.endorse(given, length)
			case "revoke":
				id := fmt.Sprintf("e%025d", rapid.IntRange(1, 12).Draw(r, "id"))
				line, want = fmt.Sprintf("revoke controller=%s reader=%s id=%s", key.Controller, key.Reader, id), m.revoke(c, id)
			case "renew":
				line = "renew " + string(key.Controller)
				m.touch(m.sessions[key.Controller], "operator")
			case "open":
				line = "open " + string(key.Controller)
				m.touch(m.sessions[key.Controller], "controller")
			case "close":
				line = "close " + string(key.Controller)
				m.close(m.sessions[key.Controller], key.Controller)
			case "process":
				agent := rapid.SampledFrom([]bcp.AgentName{key.Controller, key.Reader}).Draw(r, "agent")
				event := rapid.SampledFrom([]string{bcp.ProcessUnavailable, bcp.ProcessStarted, bcp.ProcessEnded}).Draw(r, "event")
				line = fmt.Sprintf("process %s %s", agent, event)
				m.away[agent] = event == bcp.ProcessUnavailable
			case "notice":
				history = append(history, "notice "+string(key.Reader))
				if got, want := w.act("notice " + string(key.Reader))[0], m.results[key.Reader]; (got == "nothing") != (want == 0) {
					fail("%s acknowledges: %s, and %d results wait", key.Reader, got, want)
				}
				m.results[key.Reader] = max(0, m.results[key.Reader]-1)
			case "ack":
				history = append(history, "ack")
				w.act("ack " + string(key.Controller))
			}
			if line != "" {
				history = append(history, line)
				words := w.act(line)
				if want == bcp.RateLimited {
					if !slices.Contains(words, string(want)) {
						fail("want %s, got %v", want, words)
					}
					continue
				}
				note(&w.last)
				if d := &w.last; d.Endorsed != nil && d.Kind != bcp.KindEndorse {
					if released++; d.Flagged {
						fail("its codes are delivered")
					}
				}
				if released != m.without {
					fail("%d answers were released without a person, want %d", released, m.without)
				}
				if d := &w.last; d.Code != want || d.Outcome != outcome || want == "" && d.Verdict == bcp.Reject {
					fail("want %q %q, got %v", want, outcome, words)
				}
			}
			for _, key := range keys {
				if got := len(w.state.Notices(key.Reader, bcp.RoleReader)); got != m.results[key.Reader] {
					fail("%d results wait for %s, want %d", got, key.Reader, m.results[key.Reader])
				}
				epoch, got, _ := w.state.Balance(key)
				c := m.channels[key]
				if want := c.balance(c.epoch); epoch != c.epoch || got != want {
					fail("%v: epoch %d holds %+v, want %d %+v", key, epoch, got, c.epoch, want)
				}
				for e := uint64(1); e <= c.epoch; e++ {
					if b := c.balance(e); b.Spent() > c.Budget || b.Pushed > c.PushBudget || b.SpentCapacity() > c.CapacityBudget || b.Reserved < 0 {
						fail("%v: epoch %d spent %+v", key, e, b)
					}
				}
				if s := m.sessions[key.Controller]; c.epoch > uint64(1+s.renewals) {
					fail("%v: epoch %d after %d renewals by its Controller", key, c.epoch, s.renewals)
				}
			}
			if rapid.IntRange(0, 9).Draw(r, "checkpoint") == 0 { // and goes on with it
				w.same(w.state)
			}
			if step%10 == 0 || step < 10 {
				replayed = catchUp(t, replica, w, replayed)
				if a, b := dump(w.state), dump(replica); a != b {
					fail("the journal replays to another state:\n%s", cmp.Diff(a, b))
				}
			}
		}
		var settled bcp.Bits
		for _, c := range m.channels {
			for e := uint64(1); e <= c.epoch; e++ {
				settled += c.balance(e).Settled
			}
		}
		if told+untold != settled {
			fail("deliveries say %s, nobody says %s, settled are %s", told, untold, settled)
		}
		w.redecideSame()
	})
}

// catchUp applies what w has written since.
func catchUp(t *testing.T, s *State, w *world, from int) int {
	t.Helper()
	for _, record := range w.journal[from:] {
		d := must(decodeOpen(record))
		noError(t, s.Apply(&d, bcp.RecordDigest(record)))
	}
	return len(w.journal)
}
