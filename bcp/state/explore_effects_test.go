package state_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// effectCast says which calls a run makes, and what may go wrong.
type effectCast struct {
	calls   []int
	crashes int8 // how many gateways may crash, or get no acknowledgement
	standby bool // there is gateway B, which gets the lease once
	clock   int8 // how often the run may wait too long
	fails   bool // a tool may say that it has done nothing
}

// effectRevert is a gateway or a kernel that breaks one rule. The zero revert breaks none.
type effectRevert struct {
	early     bool // a call is sent before its record is stored
	unguarded bool // the journal appends whatever sequence was expected
	careless  bool // a call that must not be made twice is sent again by itself
	rekeyed   bool // a call that is sent again has another key
	silent    bool // a start does not look at calls without an outcome
	credulous bool // a call without an outcome counts as done after a start
}

// The promises about effects.
const (
	intendedFirst = "a tool gets no call before the journal says so"
	onceByKey     = "a call that has a key is done at most once"
	onceUnlessOld = "a call without a key is done once, and again only if a person says that it was not done"
	committedDone = "a run that is committed did what it says, or a person says so"
	effectReplays = "the journal makes the state, and every record follows"
	runsEnd       = comesToRest
)

var effectPromises = []string{intendedFirst, onceByKey, onceUnlessOld, committedDone, effectReplays, comesToRest}

// clerk is a gateway with its dispatcher.
type clerk struct {
	phase   phase // down, serving or writing
	base    *change
	waiting *change
	unasked []string // calls without an outcome that it has to look at, after a start
	unsent  []intent // recorded, and not sent yet
}

// office is everything at one moment.
type office struct {
	tip     *change
	clerks  [2]clerk
	lease   int8
	late    []*change
	calls   []intent // on the way to the tools
	did     [3]int8  // how often each tool did something
	keys    []intent // that the tool with keys knows
	answers []answerOfTool
	crashes int8
	passed  bool
	elapsed int8
	failed  bool
	found   []breach
}

// answerOfTool is on the way to a gateway, and may come more than once.
type answerOfTool struct {
	input
	times int8
}

type effectAction struct {
	kind effectKind
	n    int8 // which gateway, or which late record or call on the way
	i    int8 // which call is sent
	in   input
}

type effectKind int8

const (
	begins    effectKind = iota + 1
	decides              // it decides and writes the record
	hearsBack            // the journal's answer comes
	hearsNot             // no acknowledgement comes in time: it starts again
	arrives              // a late record reaches the journal
	dies
	handsOver // the lease
	sends     // a call goes to its tool
	does      // the tool gets a call, and does it
	declines  // the tool gets a call, and says that it did nothing
)

func (e *effects) begin() *office {
	return &office{tip: e.root}
}

var effectWords = [...]string{"", "begins", "decides", "hears back", "hears nothing", "a late record arrives", "dies", "the lease passes", "sends a call", "the tool does a call", "the tool declines a call"}

func (a effectAction) String() string {
	return fmt.Sprintf("%s (gateway %s or number %d, %d; %s)", effectWords[a.kind], letters[a.n%2], a.n, a.i, a.in)
}

func (e *effects) actions(w *office) (all []effectAction) {
	add := func(kind effectKind, n, i int, in input) { all = append(all, effectAction{kind, int8(n), int8(i), in}) }
	for n := range w.clerks {
		g := &w.clerks[n]
		switch g.phase {
		case down:
			if int(w.lease) == n {
				add(begins, n, 0, input{})
			}
		case serving:
			for _, in := range e.inputs(w, g) {
				add(decides, n, 0, in)
			}
		case writing:
			add(hearsBack, n, 0, input{})
			if w.crashes < e.cast.crashes {
				add(hearsNot, n, 0, input{})
			}
		}
		if g.phase != down && w.crashes < e.cast.crashes {
			add(dies, n, 0, input{})
		}
		for i := range g.unsent {
			add(sends, n, i, input{})
		}
	}
	for i := range w.late {
		add(arrives, i, 0, input{})
	}
	if e.cast.standby && !w.passed {
		add(handsOver, 0, 0, input{})
	}
	for i := range w.calls {
		add(does, i, 0, input{})
		if e.cast.fails && !w.failed {
			add(declines, i, 0, input{})
		}
	}
	return all
}

// inputs are what a gateway may get now.
func (e *effects) inputs(w *office, g *clerk) (all []input) {
	if len(g.unasked) > 0 {
		kind := restarted
		if e.revert.credulous {
			kind = outcome
		}
		return []input{{kind: kind, id: g.unasked[0], attempt: 1}}
	}
	switch g.base.waits {
	case "":
		if g.base == e.root {
			all = append(all, input{kind: request})
		}
	case kernel.WaitPlanner:
		all = append(all, input{kind: plan, id: g.base.waitID()})
	case kernel.WaitDoubt: // the person looks at the tool
		said := notDone
		if w.did[g.base.tool] > 0 {
			said = done
		}
		all = append(all, input{kind: said, id: g.base.waitID()})
	}
	for _, a := range w.answers {
		if a.times < maxSends {
			all = append(all, a.input)
		}
	}
	if w.elapsed < e.cast.clock && g.base.due > 0 {
		all = append(all, input{kind: elapsed})
	}
	return all
}

func (w *office) clone() *office {
	c := *w
	c.late, c.calls, c.keys, c.answers, c.found = slices.Clone(w.late), slices.Clone(w.calls), slices.Clone(w.keys), slices.Clone(w.answers), slices.Clone(w.found)
	for n := range c.clerks {
		c.clerks[n].unasked, c.clerks[n].unsent = slices.Clone(w.clerks[n].unasked), slices.Clone(w.clerks[n].unsent)
	}
	return &c
}

func (e *effects) after(w *office, a effectAction) (*office, bool) {
	w = w.clone()
	c := &w.clerks[a.n%2]
	switch a.kind {
	case begins:
		*c = clerk{phase: serving, base: w.tip}
		if !e.revert.silent {
			c.unasked = slices.Clone(w.tip.unanswered)
		}
	case decides:
		if !e.write(w, c, a.in) {
			return nil, false
		}
	case hearsBack:
		e.store(w, c)
	case hearsNot, dies:
		if c.waiting != nil {
			w.late = append(w.late, c.waiting)
		}
		*c = clerk{}
		w.crashes++
	case arrives:
		late := w.late[a.n]
		w.late = slices.Delete(w.late, int(a.n), int(a.n)+1)
		e.append(w, late)
	case handsOver:
		w.lease, w.passed = 1, true
	case sends:
		w.calls = append(w.calls, c.unsent[a.i])
		c.unsent = slices.Delete(c.unsent, int(a.i), int(a.i)+1)
	case does, declines:
		w.arrive(a.n, a.kind == declines)
	}
	if !e.revert.unguarded {
		w.late = slices.DeleteFunc(w.late, func(r *change) bool { return r.prev != w.tip })
	}
	return w, true
}

// write decides about an input and writes the record.
func (e *effects) write(w *office, c *clerk, in input) bool {
	next := e.record(c.base, in)
	if next == nil {
		return false
	}
	switch in.kind {
	case outcome:
		for i := range w.answers {
			if w.answers[i].input == in {
				w.answers[i].times++
			}
		}
	case elapsed:
		w.elapsed++
	}
	c.unasked = c.unasked[min(1, len(c.unasked)):]
	c.phase, c.waiting = writing, next
	if e.revert.early {
		c.unsent = append(c.unsent, next.releases...)
	}
	return true
}

// store has the journal look at a record, and its gateway hear of it.
func (e *effects) store(w *office, c *clerk) {
	if !e.append(w, c.waiting) {
		*c = clerk{}
		return
	}
	c.phase, c.base, c.waiting = serving, w.tip, nil
	if !e.revert.early {
		c.unsent = append(c.unsent, w.tip.releases...)
	}
}

// append stores a record if its expected sequence is the journal's.
func (e *effects) append(w *office, r *change) bool {
	if r.prev == w.tip {
		w.tip = r
		return true
	}
	if !e.revert.unguarded {
		return false
	}
	saved, err := r.replay(w.tip.saved)
	if err != nil {
		w.found = append(w.found, breach{effectReplays, fmt.Sprintf("a record that was stored does not follow: %v", err)})
		return true
	}
	moved := *r
	moved.prev, moved.saved, moved.next = w.tip, saved, nil
	moved.intents = append(slices.Clip(w.tip.intents), r.releases...)
	moved.settle()
	w.tip = &moved
	return true
}

// arrive has a tool get a call.
func (w *office) arrive(n int8, declined bool) {
	c := w.calls[n]
	w.calls = slices.Delete(w.calls, int(n), int(n)+1)
	if !slices.Contains(w.tip.intents, c) {
		w.found = append(w.found, breach{intendedFirst, fmt.Sprintf("the tool gets %s, and the journal does not have it", c)})
	}
	known := c.tool == keyed && slices.ContainsFunc(w.keys, func(k intent) bool { return k.key == c.key })
	switch {
	case known:
	case declined:
		w.failed = true
	default:
		w.did[c.tool]++
		if c.tool == keyed {
			w.keys = append(w.keys, intent{key: c.key})
		}
	}
	a := answerOfTool{input: input{kind: outcome, id: c.call, attempt: c.attempt, failed: declined && !known}}
	if !slices.Contains(w.answers, a) {
		w.answers = append(w.answers, a)
	}
}

func (e *effects) ends(w *office) bool { return w.tip.wrong != nil }

func (e *effects) rests(w *office) bool { return w.tip.status != "" }

func (e *effects) check(w *office) []breach {
	found := slices.Clone(w.found)
	if w.tip.wrong != nil {
		found = append(found, breach{effectReplays, w.tip.wrong.Error()})
	}
	if w.did[keyed] > int8(count(e.cast.names(), toolNames[keyed])) {
		found = append(found, breach{onceByKey, fmt.Sprintf("%d things were done", w.did[keyed])})
	}
	if w.did[plain] > int8(count(e.cast.names(), toolNames[plain]))+w.tip.overruled[plain] {
		found = append(found, breach{onceUnlessOld, fmt.Sprintf("%d things were done, and a person had %d sent again", w.did[plain], w.tip.overruled[plain])})
	}
	if w.tip.status == kernel.Committed {
		for _, tool := range e.cast.calls {
			if w.did[tool]+w.tip.vouched[tool] == 0 {
				found = append(found, breach{committedDone, fmt.Sprintf("%s did nothing", toolNames[tool])})
			}
		}
	}
	return found
}

// names are those of the tools that are called.
func (c *effectCast) names() (all []string) {
	for _, tool := range c.calls {
		all = append(all, toolNames[tool])
	}
	return all
}

func (e *effects) key(w *office) [16]byte {
	k := keyWriter{b: make([]byte, 0, 512)}
	k.b = append(k.b, w.tip.shape[:]...)
	k.b = append(k.b, byte(w.lease), byte(w.crashes), bit(w.passed), byte(w.elapsed), bit(w.failed), byte(w.did[0]), byte(w.did[1]), byte(w.did[2]), byte(len(w.found)))
	for n := range w.clerks {
		c := &w.clerks[n]
		k.number(int(c.phase))
		if c.phase != down {
			k.change(c.base, w.tip)
			if c.waiting != nil {
				k.change(c.waiting.prev, w.tip)
				k.b = append(k.b, c.waiting.shape[:]...)
			}
			k.number(len(c.unasked))
		}
		k.intents(c.unsent)
	}
	k.number(len(w.late))
	for _, r := range w.late {
		k.b = append(k.b, r.shape[:]...)
	}
	k.intents(w.calls)
	k.intents(w.keys)
	slices.SortFunc(w.answers, func(a, b answerOfTool) int {
		return intent{call: a.id, attempt: a.attempt, tool: int8(bit(a.failed))}.compare(intent{call: b.id, attempt: b.attempt, tool: int8(bit(b.failed))})
	})
	for _, a := range w.answers {
		k.intent(intent{call: a.id, attempt: a.attempt, tool: int8(bit(a.failed))})
		k.number(int(a.times))
	}
	sum := sha256.Sum256(k.b)
	return [16]byte(sum[:])
}

func (k *keyWriter) intents(all []intent) {
	slices.SortFunc(all, intent.compare)
	k.number(len(all))
	for _, i := range all {
		k.intent(i)
	}
}

// change writes a record that may be the newest.
func (k *keyWriter) change(c, tip *change) {
	if c == tip {
		k.number(1)
		return
	}
	k.number(0)
	k.b = append(k.b, c.shape[:]...)
}

// effectWorlds are searched whole.
var effectWorlds = []whole[effectCast]{
	{"a call with a key", effectCast{calls: []int{keyed}, crashes: 2}, fast},
	{"a call without a key", effectCast{calls: []int{plain}, crashes: 2}, fast},
	{"reads at once, and a call", effectCast{calls: []int{reads, reads, plain}, crashes: 1}, full},
	{"reads at once, and everything", effectCast{calls: []int{reads, reads, keyed, reads}, crashes: 1, clock: 1}, long},
	{"both, and a clock", effectCast{calls: []int{keyed, plain}, crashes: 1, clock: 1}, full},
	{"a call with a key, and two gateways", effectCast{calls: []int{keyed}, crashes: 1, standby: true, clock: 1}, full},
	{"a call without a key, and two gateways", effectCast{calls: []int{plain}, crashes: 1, standby: true, clock: 1}, full},
	{"a tool that declines", effectCast{calls: []int{plain}, crashes: 1, fails: true}, full},
	{"both, and everything", effectCast{calls: []int{keyed, plain}, crashes: 2, standby: true, clock: 2, fails: true}, long},
}

// A run calls tools, and whatever crashes or comes late, what they do is recorded first,
// and done at most once.
//
// covers KER-41, P11.1
func TestEffectsHappenOnce(t *testing.T) {
	t.Parallel()
	searchWhole(t, effectWorlds, full, func(c effectCast) game[*office, effectAction] { return newEffects(effectRevert{}, c) })
}

var revertedEffects = []reverted[effectRevert, effectCast]{
	{"send before the record is stored", effectRevert{early: true}, effectCast{calls: []int{keyed}}, intendedFirst},
	{"send again with another key", effectRevert{rekeyed: true}, effectCast{calls: []int{keyed}, crashes: 1}, onceByKey},
	{"send again by itself what has no key", effectRevert{careless: true}, effectCast{calls: []int{plain}, crashes: 1}, onceUnlessOld},
	{"take a call without an outcome as done", effectRevert{credulous: true}, effectCast{calls: []int{keyed}, crashes: 1}, committedDone},
	{"append whatever sequence was expected", effectRevert{unguarded: true}, effectCast{calls: []int{keyed}, standby: true, crashes: 1}, effectReplays},
	{"forget a call at a start", effectRevert{silent: true}, effectCast{calls: []int{keyed}, crashes: 1}, comesToRest},
}

// The search finds whoever breaks a rule about effects, for each promise.
//
// covers KER-41
func TestFindsRevertsOfEffects(t *testing.T) {
	t.Parallel()
	findReverts(t, effectPromises, revertedEffects, func(r effectRevert, c effectCast) game[*office, effectAction] { return newEffects(r, c) })
}
