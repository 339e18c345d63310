package state_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The tools of effects: one that knows the key of a call and does it once, one that does
// what it is told each time, and one that only reads: its calls are begun at once.
const (
	keyed = iota
	plain
	reads
)

var toolNames = [3]string{"book", "send", "look"}

// intent is a call that the journal says is going to be made.
type intent struct {
	call    string
	attempt int
	key     bcp.Digest
	tool    int8
}

func (i intent) String() string {
	return fmt.Sprintf("call %s of %s, attempt %d", i.call[len(i.call)-4:], toolNames[i.tool], i.attempt)
}

// compare puts calls in an order.
func (i intent) compare(o intent) int {
	return cmp.Or(cmp.Compare(i.call, o.call), cmp.Compare(i.attempt, o.attempt), cmp.Compare(i.tool, o.tool), bytes.Compare(i.key[:], o.key[:]))
}

// input is what a kernel decides about. It can be compared.
type input struct {
	kind    inputKind
	id      string // of the call
	attempt int
	failed  bool // the tool says that it has done nothing
}

type inputKind int8

const (
	request   inputKind = iota + 1 // to start the run
	plan                           // the planner's answer
	outcome                        // of a call
	done                           // says a person, of a call that is in doubt
	notDone                        // says a person
	elapsed                        // what the run waits for is overdue
	restarted                      // a call has no outcome after a start
)

var inputWords = [...]string{"", "the request", "the plan", "an outcome", "\"it was done\"", "\"it was not done\"", "that time is over", "that a call is unanswered"}

func (in input) String() string { return inputWords[in.kind] }

// change is a record in the journal of a kernel, with what all up to it made.
type change struct {
	prev            *change
	public, private []byte
	saved           []bcp.SavedRun
	shape           [16]byte // the same for two that have the same future

	releases []intent // calls that go out once it is stored
	intents  []intent // of all records up to it
	// overruled is how often a person had a call sent again, and vouched how often one
	// said that it was done, by tool.
	overruled, vouched [3]int8

	waits      kernel.WaitKind
	tool       int8 // that is waited for, or is in doubt
	unanswered []string
	due        int64
	status     kernel.Status // of the run, once it is over
	wrong      error         // it does not follow from the records before it

	next map[input]*change
}

// effects is a game about the calls of one run.
type effects struct {
	cast   effectCast
	revert effectRevert
	kernel *kernel.Kernel
	root   *change
	plan   string
}

var morning = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func newEffects(r effectRevert, c effectCast) *effects {
	e := &effects{cast: c, revert: r, kernel: errands(r)}
	var steps []string
	for n, called := range c.calls {
		steps = append(steps, fmt.Sprintf(`{"kind":"tool","id":"s%d","tool":%q,"args":{"title":"x"}}`, n, toolNames[called]))
	}
	e.plan = fmt.Sprintf(`{"steps":[%s],"final":"s%d"}`, strings.Join(steps, ","), len(steps)-1)
	e.root = &change{saved: kernel.NewState(e.kernel).Save()}
	e.root.settle()
	return e
}

// errands is a kernel with the two tools.
func errands(r effectRevert) *kernel.Kernel {
	typ := func(s string) *kernel.Type { return must(kernel.ParseType([]byte(s))) }
	tool := func(n int, idempotency kernel.Idempotency) kernel.Tool {
		return kernel.Tool{
			Service: "desk", Name: toolNames[n], Level: kernel.Write, RequiredCaps: []kernel.Capability{"desk.write"}, Idempotency: idempotency, Timeout: 10 * time.Minute,
			Input:  typ(`{"type":"object","properties":{"title":{"type":"string"}}}`),
			Output: typ(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`),
		}
	}
	look := tool(reads, kernel.Free)
	look.Level = kernel.Read
	book := tool(keyed, kernel.ByKey)
	ofPlain := kernel.Once
	if r.careless {
		ofPlain = kernel.ByKey
	}
	limits := kernel.DefaultLimits()
	limits.MaxPlans = 2
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "planner", Limits: limits,
		Requesters: map[bcp.AgentName][]string{"kim": {"all"}}, Grants: map[string][]kernel.Capability{"all": {"desk.write"}},
		Tools: []kernel.Tool{book, tool(plain, ofPlain), look},
	})
	if len(defects) > 0 {
		panic(defects)
	}
	return k
}

// record is that of a decision about an input, nil if there is nothing to decide.
func (e *effects) record(prev *change, in input) *change {
	if c, known := prev.next[in]; known {
		return c
	}
	s := must(kernel.Restore(prev.saved, e.kernel))
	decided, ok := e.decide(s, prev, in)
	if !ok {
		return nil
	}
	c := &change{prev: prev, public: decided.AppendJSON(nil), private: decided.Private.AppendJSON(nil), intents: prev.intents,
		overruled: prev.overruled, vouched: prev.vouched}
	if err := s.Apply(&decided); err != nil {
		panic(err)
	}
	c.saved = s.Save()
	if replayed, err := c.replay(prev.saved); err != nil || !reflect.DeepEqual(replayed, c.saved) {
		c.wrong = fmt.Errorf("its replay makes another state (%v)", err)
	}
	if decided.Code == "" {
		switch in.kind {
		case notDone:
			c.overruled[prev.tool]++
		case done:
			c.vouched[prev.tool]++
		}
	}
	c.settle()
	for _, r := range s.Releases(&decided) {
		switch r.Kind {
		case kernel.ReleaseCall:
			if !r.Allowed(e.kernel.Gate()) {
				panic("the gate does not allow a call that is released")
			}
			sent := intent{r.Wait.ID, r.Wait.Attempt, r.Wait.Key, toolNumber(r.Wait.Tool)}
			if e.revert.rekeyed {
				sent.key[0] += byte(sent.attempt)
			}
			c.releases = append(c.releases, sent)
			c.intents = append(slices.Clip(c.intents), sent)
		case kernel.ReleaseOutcome:
			c.status = r.End.Status
		}
	}
	if c.status == "" {
		c.status = prev.status
	}
	c.reshape()
	if prev.next == nil {
		prev.next = make(map[input]*change)
	}
	prev.next[in] = c
	return c
}

// decide has the real kernel judge an input.
func (e *effects) decide(s *kernel.State, prev *change, in input) (kernel.Change, bool) {
	sum := sha256.Sum256(spelled(prev.saved))
	m := bcp.Moment{Now: morning, Fresh: hex.EncodeToString(sum[:12])}
	switch in.kind {
	case request:
		return s.DecideRun(m, "desk", kernel.Requester{Name: "kim"}, "all", kernel.Trusted(), []byte(`{"task":"Do it.","request_id":"once"}`)), true
	case plan:
		return s.DecidePlan(m, "planner", in.id, fmt.Appendf(nil, `{"plan_id":%q,"plan":%s}`, in.id, e.plan)), true
	case outcome:
		said := `"result":{"ok":true}`
		if in.failed {
			said = `"error":"not now","not_performed":true`
		}
		return s.DecideOutcome(m, "desk", in.id, in.attempt, fmt.Appendf(nil, `{"call_id":%q,%s}`, in.id, said)), true
	case done:
		return s.DecidePerson(m, in.id, kernel.Done, []byte(`{"ok":true}`)), true
	case notDone:
		return s.DecidePerson(m, in.id, kernel.NotDone, nil), true
	case elapsed:
		m.Now = time.Unix(0, s.NextDue())
		return s.DecideDue(m)
	default:
		return s.DecideRestart(m, in.id), true
	}
}

// replay is what the record makes of a state, without the definitions.
func (c *change) replay(saved []bcp.SavedRun) ([]bcp.SavedRun, error) {
	s := must(kernel.Restore(saved))
	read, err := kernel.ParseChange(c.public, c.private)
	if err != nil {
		return nil, err
	}
	if err := s.Apply(&read); err != nil {
		return nil, err
	}
	return s.Save(), nil
}

// settle notes what the state waits for.
func (c *change) settle() {
	s := must(kernel.Restore(c.saved))
	c.unanswered, c.due = s.Unanswered(), s.NextDue()
	for _, r := range s.Pending() {
		c.waits, c.tool = r.Wait.Kind, toolNumber(r.Wait.Tool)
	}
	if len(c.unanswered) > 0 {
		c.waits = kernel.WaitTool
	}
	c.reshape()
}

// waitID is what an answer has to name.
func (c *change) waitID() string {
	s := must(kernel.Restore(c.saved))
	for _, r := range s.Pending() {
		return r.Wait.ID
	}
	return ""
}

// spelled is all that is saved, in a row.
func spelled(saved []bcp.SavedRun) (b []byte) {
	for _, r := range saved {
		b = append(append(append(b, r.Open...), r.Said...), '\n')
	}
	return b
}

func (c *change) reshape() {
	k := keyWriter{b: spelled(c.saved)}
	for _, i := range c.intents {
		k.intent(i)
	}
	for n := range c.overruled {
		k.b = append(k.b, byte(c.overruled[n]), byte(c.vouched[n]))
	}
	sum := sha256.Sum256(k.b)
	c.shape = [16]byte(sum[:])
}

func (k *keyWriter) intent(i intent) {
	k.b = append(append(append(k.b, i.call...), byte(i.attempt), byte(i.tool)), i.key[:]...)
}

func toolNumber(name string) int8 { return int8(max(0, slices.Index(toolNames[:], name))) }
