package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// HeldFor is what came of what was held for one rule, or for any, on a channel or for a
// kernel. The rule is a code of an anomaly, or the kind of an item that none held.
type HeldFor struct {
	Rule    string // empty: any
	Decided int    // by people
	// Signs counts those that people decided which a rule had held as it objected, False the
	// ones of them that were approved unchanged.
	Signs   int
	False   int
	Seconds int    // from the notice to the decision, on average
	Advice  string // the line to change, if too much is held without reason

	waited time.Duration // all together
	recent []bool        // whether the last signs were false, at most recentSigns
}

const (
	// recentSigns is of how many decided signs the share of false ones is looked at, and
	// mostFalse how many of them may be: 20 %.
	recentSigns = 50
	mostFalse   = 10
)

// People counts what was held and came of it, from decisions in the order of the journal. It
// keeps what is held at the time, and which runs it saw.
type People struct {
	open map[bcp.ItemID]heldItem
	held map[[3]string]*HeldFor
	runs map[string]bcp.ItemID // what each waits for, if for a person
}

// maxRuns bounds the runs that are known at once: beyond it all are forgotten.
const maxRuns = 1 << 16

type heldItem struct {
	key   bcp.ChannelKey
	rules []string
	signs bool
	since int64
}

// NewPeople counts nothing yet.
func NewPeople() *People {
	return &People{open: map[bcp.ItemID]heldItem{}, held: map[[3]string]*HeldFor{}, runs: map[string]bcp.ItemID{}}
}

// Settled is what a decision says of an item that waited.
type Settled struct {
	Channel bcp.ChannelKey
	Rules   []string
	Act     bcp.Act // empty: nobody decided
	Waited  time.Duration
	// Sign says that a rule had objected; False also that the item was approved unchanged.
	Sign, False bool
}

// Add counts a decision, and says what it settled.
func (p *People) Add(d *bcp.Decision) (s Settled, ok bool) {
	if d.Repeat {
		return s, false
	}
	item := d.Item
	if d.Run != nil && d.Run.Code == "" {
		item = p.run(d.Run) // whatever happens to the run, the item waits no more
	}
	if it, waits := p.open[item]; waits && d.Verdict != bcp.Hold {
		switch person := d.Role == bcp.RoleApprover; {
		case person && d.Verdict == bcp.Accept:
			s.Act = bcp.Act(d.Event)
		case person || d.Verdict == bcp.Reject:
			return s, false
		}
		delete(p.open, item)
		s.Channel, s.Rules, s.Sign, ok = it.key, it.rules, it.signs, true
		s.Waited, s.False = time.Duration(d.Time-it.since), it.signs && s.Act == bcp.Approve
		for _, rule := range append([]string{""}, it.rules...) {
			p.of(it.key, rule).count(&s)
		}
	}
	if id := d.HeldItem(); id != "" {
		it := heldItem{key: bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}, rules: d.Anomalies, since: d.Time}
		switch {
		case d.Run != nil:
			it = heldItem{key: bcp.ChannelKey{Controller: d.Run.Kernel}, rules: []string{string(bcp.ItemEffect)}, since: d.Time}
		case d.Kind.Item() != "":
			it.rules = []string{string(d.Kind.Item())}
		case d.Category == 3: // held every time, whatever the rules say
			it.rules = []string{string(bcp.ItemSummary)}
		default:
			it.signs = true
		}
		p.open[id] = it
	}
	return s, ok
}

// run notes what a run waits for, and returns what it waited for before.
func (p *People) run(c *bcp.RunChange) bcp.ItemID {
	before, known := p.runs[c.Run]
	if !known && len(p.runs) >= maxRuns {
		clear(p.runs)
	}
	p.runs[c.Run] = c.Held
	return before
}

func (p *People) of(key bcp.ChannelKey, rule string) *HeldFor {
	at := [3]string{string(key.Controller), string(key.Reader), rule}
	if p.held[at] == nil {
		p.held[at] = &HeldFor{Rule: rule}
	}
	return p.held[at]
}

func (h *HeldFor) count(s *Settled) {
	if s.Act == "" {
		return
	}
	h.Decided++
	h.waited += s.Waited
	if !s.Sign {
		return
	}
	h.Signs++
	if s.False {
		h.False++
	}
	if h.recent = append(h.recent, s.False); len(h.recent) > recentSigns {
		h.recent = h.recent[1:]
	}
}

// isWasteful reports whether of the last 50 signs more than 20 % were false.
func (h *HeldFor) isWasteful() bool {
	n := 0
	for _, wrong := range h.recent {
		if wrong {
			n++
		}
	}
	return len(h.recent) == recentSigns && n > mostFalse
}

// Held returns what was counted of a channel: for any rule, and then for each, the one with
// most false holds first. The definitions may be nil.
func (p *People) Held(def *bcp.Mesh, of bcp.ChannelKey) (list []HeldFor) {
	for at, h := range p.held {
		if at[0] != string(of.Controller) || at[1] != string(of.Reader) {
			continue
		}
		one := *h
		if h.Decided > 0 {
			one.Seconds = int((h.waited/time.Duration(h.Decided) + time.Second/2) / time.Second)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b HeldFor) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Rule)), min(1, len(b.Rule))), cmp.Compare(b.False, a.False), cmp.Compare(a.Rule, b.Rule))
	})
	if len(list) > 1 && list[0].isWasteful() {
		list[0].Advice = advice(def, of, list[1].Rule)
	}
	return list
}

// advice says which line of a definition to change, given the rule that is wrong most often.
func advice(def *bcp.Mesh, key bcp.ChannelKey, rule string) string {
	line := fmt.Sprintf("agents/%s.md, peer %s: ", key.Controller, key.Reader)
	if def != nil {
		if c, ok := def.Channel(key); ok && c.OnAnomaly == bcp.AnomalyHoldAll && rule == "weak_sign" {
			return line + "on_anomaly: hold lets weak signs through, with their code"
		}
	}
	return line + "on_anomaly: flag delivers what " + rule + " objects to, with that code; an enum or a narrower format is held less"
}
