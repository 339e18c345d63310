package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// history makes decisions, one a second.
type history struct {
	p   *People
	now time.Duration
}

func (h *history) add(d bcp.Decision) (Settled, bool) {
	h.now += time.Second
	d.Time = int64(h.now)
	return h.p.Add(&d)
}

func (h *history) held(item bcp.ItemID, category bcp.Category, codes ...string) {
	h.add(bcp.Decision{Kind: bcp.KindAnswer, Verdict: bcp.Hold, Controller: "main", Reader: "mail", Item: item, Category: category, Anomalies: codes})
}

func (h *history) decided(item bcp.ItemID, act bcp.Act, statement byte) (Settled, bool) {
	return h.add(bcp.Decision{Kind: bcp.KindApproval, Verdict: bcp.Accept, Role: bcp.RoleApprover, Agent: "kim", Event: string(act), Item: item, Statement: bcp.Digest{statement}})
}

// Decisions, times and false holds are counted by channel and rule: a summary is
// held every time and never wrongly, and a refused decision decides nothing.
//
// covers P7.7
func TestHeld(t *testing.T) {
	t.Parallel()
	h := &history{p: NewPeople()}
	h.held("i1", 2, "instruction", "url")
	h.held("i2", 2, "weak_sign")
	h.held("i3", 3, "instruction")
	h.held("i4", 2, "weak_sign")
	h.held("i5", 1, "inconsistent")
	h.add(bcp.Decision{Kind: bcp.KindAsk, Verdict: bcp.Hold, Controller: "main", Reader: "mail", Item: "i6", Category: 3})
	refused := bcp.Decision{Kind: bcp.KindApproval, Verdict: bcp.Reject, Role: bcp.RoleApprover, Agent: "kim", Event: "approve", Item: "i1"}
	if s, ok := h.add(refused); ok {
		t.Errorf("a refused decision settles %+v", s)
	}
	if s, ok := h.decided("i1", bcp.Approve, 7); !ok || !s.False || s.Waited != 7*time.Second {
		t.Errorf("approved unchanged: %+v", s)
	}
	h.decided("i2", bcp.RejectItem, 7)
	if s, _ := h.decided("i3", bcp.Approve, 0); s.Sign || s.False {
		t.Errorf("a summary: %+v", s)
	}
	h.decided("i4", bcp.EditItem, 0)
	h.add(bcp.Decision{Kind: bcp.KindExpire, Item: "i5", Controller: "main", Reader: "mail"})
	if s, ok := h.decided("i6", bcp.Approve, 0); !ok || s.Sign {
		t.Errorf("an escalation: %+v", s)
	}
	if s, ok := h.decided("i1", bcp.Approve, 0); ok {
		t.Errorf("twice: %+v", s)
	}
	// A call of a run waits until something happens to the run.
	run := func(held bcp.ItemID, code string) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindRun, Verdict: bcp.Accept, Run: &bcp.RunChange{Run: "r1", Kernel: "k", Held: held, Code: code}}
	}
	h.add(run("i7", ""))
	h.add(run("", "refused"))
	person := run("i8", "")
	person.Role, person.Agent, person.Event, person.Item = bcp.RoleApprover, "kim", "approve", "i7"
	if s, ok := h.add(person); !ok || s.Act != bcp.Approve || s.Channel.Controller != "k" {
		t.Errorf("a call: %+v", s)
	}
	if s, ok := h.add(run("", "")); !ok || s.Act != "" {
		t.Errorf("a call that nobody decided: %+v", s)
	}

	for of, want := range map[bcp.ChannelKey][]HeldFor{
		{Controller: "k"}: {{Decided: 1}, {Rule: "effect", Decided: 1}},
		{Controller: "main", Reader: "mail"}: {
			{Decided: 5, Signs: 3, False: 1},
			{Rule: "instruction", Decided: 1, Signs: 1, False: 1}, {Rule: "url", Decided: 1, Signs: 1, False: 1},
			{Rule: "escalation", Decided: 1}, {Rule: "inconsistent"}, {Rule: "summary", Decided: 1}, {Rule: "weak_sign", Decided: 2, Signs: 2},
		},
		{Controller: "main"}: nil,
	} {
		if diff := cmp.Diff(want, h.p.Held(nil, of), cmpopts.IgnoreUnexported(HeldFor{}), cmpopts.IgnoreFields(HeldFor{}, "Seconds")); diff != "" {
			t.Error(diff)
		}
	}
}

// More than 20 % of the last 50 signs have to be false for advice, which names the line.
//
// covers P7.7
func TestAdvice(t *testing.T) {
	t.Parallel()
	def := &bcp.Mesh{Channels: []bcp.Channel{{ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "mail"}}}}
	def.Channels[0].OnAnomaly = bcp.AnomalyHoldAll
	for _, tt := range []struct {
		signs, wrong int
		rule, want   string
	}{
		{49, 49, "weak_sign", ""},
		{50, 10, "weak_sign", ""},
		{50, 11, "weak_sign", "agents/main.md, peer mail: on_anomaly: hold lets"},
		{50, 11, "url", "agents/main.md, peer mail: on_anomaly: flag delivers what url objects to"},
		{500, 11, "url", "agents/main.md, peer mail"}, // the last 50 of them
	} {
		h := &history{p: NewPeople()}
		for i := range tt.signs {
			h.held("i1", 2, tt.rule)
			act := bcp.RejectItem
			if i >= tt.signs-tt.wrong {
				act = bcp.Approve
			}
			h.decided("i1", act, 0)
		}
		held := h.p.Held(def, def.Channels[0].ChannelKey)
		if got := held[0]; got.Rule != "" || (got.Advice == "") != (tt.want == "") || !strings.HasPrefix(got.Advice, tt.want) || held[1].Advice != "" {
			t.Errorf("%d of %d: %+v", tt.wrong, tt.signs, held)
		}
	}
}
