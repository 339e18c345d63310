package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers BCP-2, BCP-66, BCP-128, BCP-144, SUB-16, SUB-79, SUB-95, P4.3, P9.1
func TestAskReserves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes  => accept bits:1.0 reserved:1.0 settled:0.0 epoch:1 begins renews silent
		ask planner mail num  => accept bits:10.0 reserved:11.0 !begins !renews
		ask planner mail name => accept bits:22.0 reserved:33.0 cat2:1`)
	query, reader, attempt, open := w.state.Open(w.queries[1])
	failIf(t, !open || reader != "mail" || attempt != 0 || query.Controller != "planner" || query.Category != 1 || query.QueryID != w.queries[1],
		"the Reader would get %+v", query)
	got := w.state.OpenQueries("mail")
	failIf(t, len(got) != 3 || got[0] != w.queries[0] || got[2] != w.queries[2], "open queries are %v", got)
	expect(t, w.last.Remaining, 67*bcp.Bit, "bits remain")
}

// Each line of a case has one fault more than the line before, which comes
// first in the order of the codes.
//
// covers BCP-21, BCP-122, BCP-123, BCP-165, SUB-26, SUB-79, P2.5, P10
func TestAskCodesInOrder(t *testing.T) {
	t.Parallel()
	mesh := edited(func(c *bcp.Channel) {
		c.MaxCategory, c.BaseCategory, c.MaxEscalations, c.MaxCat2Queries, c.Budget = 2, 1, 1, 0, 5*bcp.Bit
	})
	bad := `{"category":2,"questions":[{"id":"q","question":"?","max_words":0,"expected_format":"date"}]}`
	large := strings.Repeat(" ", bcp.MaxControllerMessage)
	newWorld(t, mesh).play(`
		ask planner mail num                  => budget_exhausted silent !begins
		ask planner mail name why=I_need_it   => query_limit_reached silent
		ask planner mail name                 => escalation_required
		say planner mail ` + bad + `          => invalid_query
		ask planner mail three                => category_denied
		ask planner clerk three               => no_channel
		say planner clerk {"category":7}      => no_channel
		say planner mail {"category":7}       => invalid_query
		say planner mail {"category":"1"}     => invalid_query
		say planner clerk {"category":        => malformed
		say planner mail {"category":1,"category":1} => malformed
		say planner mail {"target":"web",` + testSpecs["yes"] + `} => malformed
		say planner mail {"request_id":"a.b",` + testSpecs["yes"] + `} => malformed`)

	w := newWorld(t, testMesh())
	ask := string(askBytes("yes", "", ""))
	for _, tt := range []struct {
		size int
		want bcp.Code
	}{{bcp.MaxControllerMessage, ""}, {bcp.MaxControllerMessage + 1, bcp.MessageTooLarge}} {
		body := []byte(ask + large[:tt.size-len(ask)])
		expect(t, w.state.DecideAsk(w.moment(), "planner", "mail", body).Code, tt.want, "an ask of %d bytes", tt.size)
	}
	expect(t, w.state.DecideAsk(w.moment(), "nobody", "mail", []byte(ask)).Code, bcp.RateLimited, "an agent that is not in the mesh")
}

// covers BCP-80, BCP-81, P6.2, P10
func TestAskLimitComesBeforeQueries(t *testing.T) {
	t.Parallel()
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxEscalations, c.MaxCat2Queries = 0, 0 })).play(`
		ask planner mail yes                 => accept
		ask planner mail three why=because   => escalation_limit_reached silent
		ask planner mail name                => escalation_limit_reached  # the session failed
		ask planner mail yes                 => escalation_limit_reached
		close planner                        => accept
		ask planner mail yes                 => accept
		ask planner mail name                => query_limit_reached`)
	// Without a session, the first ask begins none when it is refused.
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxEscalations = 0 })).play(`
		ask planner mail three why=because   => escalation_limit_reached !begins
		ask planner mail yes                 => accept begins`)
	// A session that another channel began fails here too.
	newWorld(t, edited(func(c *bcp.Channel) { c.MaxEscalations = 0 })).play(`
		ask planner web yes                  => accept
		ask planner mail three why=because   => escalation_limit_reached
		ask planner mail yes                 => escalation_limit_reached
		ask planner web yes                  => accept`)
}

// Traffic is limited by bits and by queries of category 2, not by rates: what the
// budget pays for may be asked at any pace.
//
// covers C-28, BCP-60, SUB-25, P4.3
func TestAskAtTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		edit    func(*bcp.Channel)
		history string
	}{
		{"budget exactly", func(c *bcp.Channel) { c.Budget = 10 * bcp.Bit }, "ask planner mail num => accept reserved:10.0"},
		{"a nano-bit less", func(c *bcp.Channel) { c.Budget = 10*bcp.Bit - 1 }, "ask planner mail num => budget_exhausted"},
		{"all of it in one moment", func(c *bcp.Channel) { c.Budget = 200 * bcp.Bit }, strings.Repeat("ask planner mail one => accept \n", 200) + "ask planner mail one => budget_exhausted"},
		{"the next one", func(c *bcp.Channel) { c.Budget = 11 * bcp.Bit }, "ask planner mail num => accept \n ask planner mail yes => accept \n ask planner mail yes => budget_exhausted"},
		{"zero budget", func(c *bcp.Channel) { c.Budget = 0 }, "ask planner mail yes => budget_exhausted"},
		{"category exactly", func(c *bcp.Channel) { c.MaxCategory = 2 }, "ask planner mail name => accept \n ask planner mail three why=so => category_denied"},
		{"category 1", func(c *bcp.Channel) { c.MaxCategory = 1 }, "ask planner mail yes => accept \n ask planner mail name => category_denied"},
		{"no category", func(c *bcp.Channel) { c.MaxCategory = 0 }, "ask planner mail yes => category_denied"},
		{"window", func(c *bcp.Channel) { c.WindowBudget = 11 * bcp.Bit }, "ask planner mail num => accept \n ask planner mail yes => accept \n ask planner mail yes => budget_exhausted"},
		{"no cat2", func(c *bcp.Channel) { c.MaxCat2Queries = 0 }, "ask planner mail name => query_limit_reached"},
		{"one cat2", func(c *bcp.Channel) { c.MaxCat2Queries = 1 }, "push mail planner name {\"q\":\"ada\"} => accept cat2:0 \n ask planner mail name => accept cat2:1 \n answer mail 1 nei => cat2:1 \n ask planner mail name => query_limit_reached \n ask planner mail yes => accept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			newWorld(t, edited(tt.edit)).play(tt.history)
		})
	}
}

// The capacity budget is exact, for what asks reserve and for what pushes settle.
//
// covers P4.1, P4.2
func TestCapacityBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	for act, price := range map[string]bcp.Bits{
		"ask planner mail yes":                w.compiled(plannerMail, "yes").Prices().Reserve(),
		`push mail planner alarm {"ok":true}`: w.state.channels[plannerMail].subscriptions["alarm"].Prices().Capacity + bcp.PushTiming(1),
	} {
		moved := map[bool]string{true: " => accept cap-reserved:", false: " => accept cap-settled:"}[strings.HasPrefix(act, "ask")]
		newWorld(t, edited(func(c *bcp.Channel) { c.CapacityBudget = 2 * price })).play(
			act + " => accept cap:" + price.String() + "\n" + act + moved + (2 * price).String() + "\n" + act + " => budget_exhausted")
		newWorld(t, edited(func(c *bcp.Channel) { c.CapacityBudget = 2*price - 1 })).play(act + " => accept\n" + act + " => budget_exhausted")
	}
}

func testSpec(name string) bcp.Spec { return must(bcp.ParseSpec([]byte("{" + testSpecs[name] + "}"))) }

// compiled is a test spec as a channel of the world has it.
func (w *world) compiled(key bcp.ChannelKey, spec string) *bcp.Validator {
	v, _, err := w.state.validator(w.state.channels[key], testSpec(spec))
	return must(v, err)
}

// covers P2.6
func TestAskRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes id=r1   => accept reserved:1.0
		ask planner mail yes id=r1   => accept repeat reserved:1.0 bits:1.0
		ask planner web yes id=r1    => accept !repeat      # another channel
		ask planner mail num id=r1   => malformed !repeat   # other bytes
		ask planner mail yes id=r2   => accept !repeat reserved:2.0
		answer mail 1 {"ok":true}    => delivers
		ask planner mail yes id=r1   => accept repeat reserved:1.0 silent`)
	first := w.queries[0]
	failIf(t, w.last.Query != first, "the repeat names query %s, want %s", w.last.Query, first)
	// 24 hours later to the nanosecond the id is free.
	w.play(`
		wait 23h59m59.999999999s
		ask planner mail yes id=r1   => repeat
		wait 1ns
		ask planner mail num id=r1   => accept !repeat bits:10.0`)
	// A refusal is repeated too, whatever has changed since.
	newWorld(t, edited(func(c *bcp.Channel) { c.Budget = 1 * bcp.Bit })).play(`
		ask planner mail num id=r1   => budget_exhausted
		ask planner mail yes id=r1   => malformed
		ask planner mail num id=r1   => budget_exhausted repeat
		ask clerk mail num id=r1     => accept !repeat`)
}

// covers BCP-70, P6.1, P6.3, P7.6
func TestAskCategory3WaitsAtItsGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail three why=no_other_way => hold escalation item out:held bits:22.0 reserved:22.0 begins !by-delivery
		answer mail 1 {"summary":"a_b"}         => query_unknown silent
		due                                     => alert event:role_suspect`)
	expect(t, len(w.state.OpenQueries("mail")), 0, "the Reader would get")
	_, _, _, open := w.state.Open(w.queries[0])
	failIf(t, open, "the query is open before a person decided")
	items := w.state.Items()
	failIf(t, len(items) != 1 || items[0].Kind != "escalation" || items[0].Query != w.queries[0] || items[0].Nominal != 22*bcp.Bit,
		"items are %+v", items)
	w.play(`
		wait 23h59m59s
		due                                     => nothing
		wait 1s
		due                                     => expire out:approval_expired item settled:1.0 reserved:0.0
		due                                     => nothing
		answer mail 1 {"summary":"a_b"}         => query_unknown`)
	expect(t, len(w.state.Items()), 0, "the item outlived its deadline")
}

// The codes of a Controller are constant texts: nothing of the ask comes back.
//
// covers P2.5, P10
func TestAskQuotesNothing(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a"
	w := newWorld(t, testMesh())
	for _, body := range []string{
		`{"category":1,"fields":[{"name":"` + canary + ` ","type":"boolean"}]}`, `{"` + canary + `":1}`,
		`{"category":1,"fields":[{"name":"a","type":"` + canary + `"}]}`, canary,
	} {
		d := w.commit(w.state.DecideAsk(w.moment(), "planner", "mail", []byte(body)))
		if public := d.Public(); d.Code == "" || strings.Contains(fmt.Sprintf("%+v", public), canary) || strings.Contains(d.Code.Info().Text, canary) {
			t.Errorf("%s leads to %+v", body, public)
		}
	}
	for _, record := range w.journal {
		failIf(t, bytes.Contains(record, []byte(canary)), "the journal quotes a refused ask: %q", record)
	}
}

// A total budget caps asks over all channels, exactly; pushes of each channel have
// their own part of it.
//
// covers P4.2, P4.4, A-COLLUDE
func TestTotalBudget(t *testing.T) {
	t.Parallel()
	mesh := testMesh() // pushes of mail and of relay may take 100 bits each, and so a quarter of any smaller total
	mesh.Agents[2].TotalBudget = 40 * bcp.Bit
	newWorld(t, mesh).play(`
		ask planner mail num => accept
		ask planner web num  => accept
		ask planner web yes  => budget_exhausted
		ask clerk mail num   => accept          # another Controller's
		answer mail 1 nei    => settled:1.0
		ask planner web yes  => accept
		push mail planner alarm {"ok":true}  => accept
		ask planner web num  => budget_exhausted
		ask planner web yes  => accept          # the push took nothing of it
		push relay planner alarm {"ok":true} => accept
		push mail clerk alarm {"n":1}        => accept`)
	// The next nano-bit is too much.
	for limit, want := range map[bcp.Bits]string{22 * bcp.Bit: "accept", 22*bcp.Bit - 1: "budget_exhausted"} {
		mesh := testMesh()
		mesh.Agents[2].TotalBudget = limit
		newWorld(t, mesh).play(`
			ask planner web num                  => accept
			ask planner mail yes                 => ` + want)
	}
	newWorld(t, mesh).play(`
		ask planner mail num => accept
		ask planner web num  => accept
		answer mail 1 {"n":1} => accept
		answer web 2 {"n":1} => accept
		close planner        => accept
		open planner         => begins renews
		ask planner mail num => accept epoch:2  # what web spent of epoch 1 counts no more
		ask planner web num  => accept epoch:2`)
}

// What a Reader hears under a total budget does not depend on what another does,
// however much that pushes, and whatever comes of what it was asked.
//
// covers P4.2, P5, A-COLLUDE, A-EXHAUST
func TestTotalBudgetKeepsReadersApart(t *testing.T) {
	t.Parallel()
	mesh := testMesh()
	mesh.Agents[2].TotalBudget = 40 * bcp.Bit
	for _, others := range []string{
		"", "answer relay 1 nei", `answer relay 1 {"ok":true}`, "answer relay 1 junk",
		strings.Repeat("push relay planner alarm {\"ok\":true}\n", 12),
	} {
		w := newWorld(t, mesh).play("ask planner relay yes => accept\n" + others)
		for range 10 {
			w.play(`push mail planner alarm {"ok":true}  => accept`)
		}
		w.play(`push mail planner alarm {"ok":true} => budget_exhausted`)
	}
}

// Parts of a total budget: exactly what is there, in proportion, and the least total
// of which there is enough.
//
// covers P4.2
func TestTotals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ total, mail, relay, asks, wantMail, wantRelay bcp.Bits }{
		{0, 100, 100, 0, 0, 0},
		{400, 100, 100, 200, 100, 100},
		{399, 100, 100, 199, 100, 100},
		{398, 100, 100, 199, 99, 99},
		{1000, 100, 0, 900, 100, 0},
		{40, 300, 100, 20, 15, 5},
		{bcp.MaxBits * bcp.Bit, bcp.MaxBits * bcp.Bit, bcp.MaxBits * bcp.Bit, bcp.MaxBits * bcp.Bit / 2, bcp.MaxBits * bcp.Bit / 4, bcp.MaxBits * bcp.Bit / 4},
		{1, 5, 5, 0, 0, 0},
	} {
		mesh := testMesh()
		mesh.Agents[2].TotalBudget = tt.total
		relay := bcp.ChannelKey{Controller: "planner", Reader: "relay"}
		for key, budget := range map[bcp.ChannelKey]bcp.Bits{plannerMail: tt.mail, relay: tt.relay} {
			channelIn(mesh, key).Budget, channelIn(mesh, key).PushBudget = bcp.MaxBits*bcp.Bit, budget
		}
		got := mesh.Totals("planner")
		failIf(t, got.Asks != tt.asks || got.Pushes[plannerMail] != tt.wantMail || got.Pushes[relay] != tt.wantRelay,
			"%+v: got %+v", tt, got)
		for _, kind := range []bcp.DecisionKind{bcp.KindAsk, bcp.KindPush} {
			for _, part := range []bcp.Bits{1, 7, 50, tt.mail} {
				if kind == bcp.KindPush && part > tt.mail || part == 0 {
					continue
				}
				of := func(total bcp.Bits) bcp.Bits {
					mesh.Agents[2].TotalBudget = total
					totals := mesh.Totals("planner")
					if kind == bcp.KindPush {
						return totals.Pushes[plannerMail]
					}
					return totals.Asks
				}
				if total := mesh.TotalFor(plannerMail, kind, part); of(total) < part || total > 1 && of(total-1) >= part {
					t.Errorf("%+v: of %d there are %d for %s, of one less %d; want %d", tt, total, of(total), kind, of(total-1), part)
				}
			}
		}
	}
}
