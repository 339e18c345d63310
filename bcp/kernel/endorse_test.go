package kernel_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// endorsing is a ledger with a kernel that asks ada or cyd about mails whose words content
// chose: both are approvers, and ada may endorse them.
type endorsing struct {
	*ledger
	decided time.Time // when the last run came to its call
}

const endorsementID bcp.EndorsementID = "e1111111111111111111"

// slotMail sends one of three words that a Reader chose to somebody whom the task names.
const slotMail = `{"steps":[{"kind":"tool","id":"inbox","tool":"read_inbox","args":{}},
{"kind":"q_parse","id":"slot","source":{"ref":"inbox","path":"latest.body"},"schema_ref":"Slot","instruction":"When?"},
{"kind":"tool","id":"send","tool":"send_email","args":{"to":"ann@example.com","body":{"ref":"slot","path":"slot"}}}],"final":"send"}`

func newEndorsing(t *testing.T, edit func(*kernel.Definition)) *endorsing {
	t.Helper()
	k := mustKernel(t, func(d *kernel.Definition) {
		send := sendEmail
		send.Input = mustType(shape(`to:{"type":"string","maxLength":40,"critical":true}`, `body:{"type":"string"}`))
		again := send
		again.Name = "send_again"
		note := createEvent
		note.Input = mustType(shape("title:string"))
		d.Tools = []kernel.Tool{readInbox, readContacts, send, again, note, count}
		d.Approvers, d.UntestedRules = []bcp.AgentName{"ada", "bob", "cyd"}, true
		d.Rules = []kernel.Rule{{ID: "words", Effect: kernel.Ask, Tool: kernel.AnyTool, When: "true"}}
		if edit != nil {
			edit(d)
		}
	})
	l := &endorsing{ledger: signedLedger(t, k)}
	rule := bcp.EndorseRule{People: []bcp.AgentName{"ada", "bob"}, MaxUses: 3, MaxTime: time.Hour, MaxBits: 10 * bcp.Bit}
	l.config.Mesh.Kernels = []bcp.KernelRights{k.Rights()}
	l.config.Mesh.EndorseTools = []bcp.EndorseTool{{Kernel: "other", Tool: "send_email", EndorseRule: bcp.EndorseRule{People: []bcp.AgentName{"ada", "cyd"}, MaxUses: 99, MaxTime: 99 * time.Hour, MaxBits: 99 * bcp.Bit}}}
	for _, tool := range []string{"send_email", "create_event"} {
		l.config.Mesh.EndorseTools = append(l.config.Mesh.EndorseTools, bcp.EndorseTool{Kernel: "desk", Tool: tool, EndorseRule: rule})
	}
	l.open(l.config)
	return l
}

// open makes the state of the journal so far, under definitions.
func (l *endorsing) open(config state.Config) {
	l.t.Helper()
	l.config = config
	l.state = l.replay(config, false)
	l.g.state.EndorseBy(func(c bcp.EndorsedCall) *bcp.EndorseChange { return l.state.EndorsedCall(c) })
}

// allow has other people endorse, or less.
func (l *endorsing) allow(edit func(*bcp.Mesh)) {
	l.t.Helper()
	config, mesh := l.config, *l.config.Mesh
	mesh.EndorseTools, mesh.Kernels = append([]bcp.EndorseTool{}, mesh.EndorseTools...), append([]bcp.KernelRights{}, mesh.Kernels...)
	edit(&mesh)
	config.Mesh = &mesh
	l.open(config)
}

// run plays a plan whose Reader answers, and returns the last change: a call or an item.
func (l *endorsing) run(plan string) kernel.Change {
	l.t.Helper()
	g, before := l.g, len(l.g.changes)
	g.now = time.Unix(0, max(g.now.UnixNano(), l.state.JournalTime(l.moment()).UnixNano()))
	g.begin("all")
	g.plan(plan)
	for c := g.changes[len(g.changes)-1]; c.Wait != nil; c = g.changes[len(g.changes)-1] {
		switch w := c.Wait; {
		case w.Kind == kernel.WaitTool && w.Tool == "read_inbox":
			g.result(mail)
			continue
		case w.Kind == kernel.WaitTool && w.Tool == "read_contacts":
			g.result(alice)
			continue
		case w.Kind == kernel.WaitReader:
			g.answer(`{"urgent":true,"slot":"mon","n":3}`, "")
			continue
		}
		break
	}
	for _, c := range g.changes[before:] {
		l.record(c, "somebody", "body")
	}
	l.decided = time.Unix(0, g.changes[len(g.changes)-1].Time)
	return g.changes[len(g.changes)-1]
}

// stop ends what a run waits for.
func (l *endorsing) stop(c kernel.Change) {
	l.t.Helper()
	if c.End == nil {
		l.g.hears("kim", "")
		l.record(l.g.store(l.g.state.DecideStop(l.g.moment(), c.Run, kernel.Cancelled)), "kim", "body")
	}
	l.g.todo = nil
}

// made plays a plan, and reports whether its last call is made without a person.
func (l *endorsing) made(plan string) bool {
	l.t.Helper()
	c := l.run(plan)
	l.stop(c)
	stopIf(l.t, c.Wait == nil, "it ends %+v", c.End)
	made := c.Wait.Kind == kernel.WaitTool
	stopIf(l.t, made != (c.Endorsed != nil) || made && (c.Wait.Approved || c.Wait.Endorsed != c.Endorsed.ID),
		"the call is %+v, by %+v", c.Wait, c.Endorsed)
	return made
}

// endorsement is what a person begins from a held call: as the call is shown.
func (l *endorsing) endorsement(plan string) bcp.Endorsement {
	l.t.Helper()
	c := l.run(plan)
	stopIf(l.t, c.Wait == nil || c.Wait.Kind != kernel.WaitApproval, "nothing is held: %+v", c.Wait)
	view, code := l.state.View("ada", bcp.ItemID(c.Wait.ID))
	e, why := bcp.EndorsementOf(&view, endorsementID)
	if l.stop(c); code != "" || why != "" || view.Endorse == nil {
		l.t.Fatalf("it cannot be endorsed: %s %s %+v", code, why, view.Endorse)
	}
	e.Uses, e.Bits, e.Until = 2, 10, l.g.now.Add(30*time.Minute).Truncate(time.Second)
	return e
}

// send has a person sign an endorsement; change changes it after that.
func (l *endorsing) send(as bcp.AgentName, e bcp.Endorsement, change func(*bcp.Endorsement, *bcp.Sender)) bcp.Decision {
	l.t.Helper()
	e.Signature = base64.StdEncoding.EncodeToString(seal("key", e.Statement()))
	from := bcp.Sender{Key: "key"}
	if change != nil {
		change(&e, &from)
	}
	b := must(json.Marshal(e))
	d := l.state.DecideEndorse(bcp.Moment{Now: l.g.now, Fresh: "x", Salt: [16]byte{3, byte(len(l.records))}}, as, from, bcp.Endorse, b)
	l.store(d)
	return d
}

func (l *endorsing) revoke(as bcp.AgentName, id bcp.EndorsementID) bcp.Decision {
	l.t.Helper()
	body := fmt.Sprintf(`{"endorsement_id":%q,"kernel":"desk"}`, id)
	d := l.state.DecideEndorse(bcp.Moment{Now: l.g.now, Fresh: "x", Salt: [16]byte{4, byte(len(l.records))}}, as, bcp.Sender{Key: "key"}, bcp.Revoke, []byte(body))
	l.store(d)
	return d
}

// give endorses the mails of slotMail.
func (l *endorsing) give(change func(*bcp.Endorsement)) {
	l.t.Helper()
	e := l.endorsement(slotMail)
	if change != nil {
		change(&e)
	}
	d := l.send("ada", e, nil)
	stopIf(l.t, d.Verdict != bcp.Accept || d.Endorsed == nil || d.Endorsed.Tool != e.Tool, "it is not taken: %s %+v", d.Code, d.Endorsed)
}

// Calls with the critical arguments that a person endorsed are made without a person, and
// counted down; the records make the same state, and a call that was endorsed is sent again
// after a restart.
//
// covers P7.9, P11.1, KER-31
func TestEndorsedCallsAreMade(t *testing.T) {
	t.Parallel()
	l := newEndorsing(t, nil)
	stopIf(t, l.made(slotMail), "nobody endorsed it")
	l.give(func(e *bcp.Endorsement) { e.Bits = 4 })
	c := l.run(slotMail)
	stopIf(t, c.Wait.Kind != kernel.WaitTool || c.Endorsed == nil || c.Endorsed.Uses != 1 || c.Endorsed.Bits != 2*bcp.Bit,
		"the call is %+v, by %+v", c.Wait, c.Endorsed)
	released := l.g.state.Releases(&c)
	failIf(t, len(released) != 1 || !released[0].Allowed(l.g.kernels[0].Gate()), "its dispatcher refuses it: %+v", released)
	others := kernel.Trusted()
	others.Subjects = kernel.ThirdParty
	for name, change := range map[string]func(*kernel.Call){
		"content chose to whom":         func(c *kernel.Call) { c.Arguments[1].Label = tainted(kernel.Influence{Origin: "inbox", Bits: 1}) },
		"content said to whom":          func(c *kernel.Call) { c.Arguments[1].Label = tainted(kernel.Influence{Origin: "inbox"}) },
		"others' words to whom":         func(c *kernel.Call) { c.Arguments[1].Label = others },
		"a part of to whom":             func(c *kernel.Call) { c.Arguments[1].Label.Influence = []kernel.Influence{{Origin: "inbox", Bits: 1}} },
		"words without a bound":         func(c *kernel.Call) { c.Arguments[0].Label = tainted() },
		"content had it made":           func(c *kernel.Call) { c.Control = tainted(kernel.Influence{Origin: "inbox", Bits: 1}) },
		"others' words had it made":     func(c *kernel.Call) { c.Control = others },
		"content led the plan to it":    func(c *kernel.Call) { c.Steer = new(tainted(kernel.Influence{Origin: "inbox", Bits: 1})) },
		"a value that nobody knows yet": func(c *kernel.Call) { c.Arguments[0].Value = nil },
	} {
		other, call := released[0], *released[0].Call
		call.Arguments = slices.Clone(call.Arguments)
		stopIf(t, call.Arguments[1].Name != "to", "the arguments are %+v", call.Arguments)
		change(&call)
		other.Call = &call
		failIf(t, other.Allowed(l.g.kernels[0].Gate()), "its dispatcher makes it: %s", name)
	}
	last, err := bcp.DecodeDecision(l.records[len(l.records)-1])
	failIf(t, err != nil || last.Endorsed == nil || last.Endorsed.ID != endorsementID || last.Endorsed.Uses != 1,
		"the record says %+v, %v", last.Endorsed, err)
	l.stop(c)
	if list := l.state.Endorsements("cyd", l.moment()); len(list) != 1 || list[0].UsesLeft != 1 || list[0].Tool != "send_email" || list[0].Kernel != "desk" || !list[0].Spec.IsZero() || len(l.state.Endorsements("kim", l.moment())) != 0 {
		t.Errorf("listed is %+v", list)
	}
	made := checkpoint(t, l.replay(l.config, false))
	expect(t, string(made), string(checkpoint(t, l.state)), "the records give another state")
	restored, err := state.Restore(l.config, made)
	failIf(t, err != nil || string(checkpoint(t, restored)) != string(made), "a checkpoint comes back otherwise: %v", err)
	if l.open(l.config); !l.made(slotMail) || l.made(slotMail) {
		t.Error("of two uses two are left, or none, after a restart")
	}
}

// covers P7.9, A-ENDORSE
func TestEndorsementsOfCallsThatAreRefused(t *testing.T) {
	t.Parallel()
	type changes = func(*bcp.Endorsement, *bcp.Sender) // how it is signed is a channel's matter, too (bcp/state), and its form that of its package (TestParseEndorsement)
	signed := func(change func(*bcp.Endorsement)) changes {
		return func(e *bcp.Endorsement, _ *bcp.Sender) {
			change(e)
			e.Signature = base64.StdEncoding.EncodeToString(seal("key", e.Statement()))
		}
	}
	for name, c := range map[string]struct {
		as     bcp.AgentName
		allow  func(*bcp.Mesh)
		change changes
		want   bcp.Code
	}{
		"as it is":          {},
		"at all its limits": {change: signed(func(e *bcp.Endorsement) { e.Uses, e.Bits = 3, 10 })},
		"that of a channel's": {change: func(e *bcp.Endorsement, _ *bcp.Sender) {
			other := *e
			other.Kernel, other.Tool, other.Controller, other.Reader = "", "", "desk", "mail"
			e.Signature = base64.StdEncoding.EncodeToString(seal("key", other.Statement()))
		}, want: bcp.NotPermitted},
		"another kernel":         {change: func(e *bcp.Endorsement, _ *bcp.Sender) { e.Kernel = "task" }, want: bcp.NotPermitted},
		"another tool":           {change: func(e *bcp.Endorsement, _ *bcp.Sender) { e.Tool = "create_event" }, want: bcp.NotPermitted},
		"other arguments":        {change: func(e *bcp.Endorsement, _ *bcp.Sender) { e.Spec[31]++ }, want: bcp.NotPermitted},
		"for a second too long":  {change: signed(func(e *bcp.Endorsement) { e.Until = e.Until.Add(31 * time.Minute) }), want: bcp.NotPermitted},
		"a use too many":         {change: signed(func(e *bcp.Endorsement) { e.Uses = 4 }), want: bcp.NotPermitted},
		"a bit too many":         {change: signed(func(e *bcp.Endorsement) { e.Bits = 11 }), want: bcp.NotPermitted},
		"by who may not":         {as: "cyd", want: bcp.NotPermitted},
		"by who is no approver":  {allow: func(m *bcp.Mesh) { m.Kernels[0].Approvers = []bcp.AgentName{"cyd"} }, want: bcp.NotPermitted},
		"by an agent":            {as: "bob", want: bcp.NotPermitted},
		"a tool that may not be": {change: signed(func(e *bcp.Endorsement) { e.Tool = "send_again" }), want: bcp.NotPermitted},
		"a kernel that is not":   {change: signed(func(e *bcp.Endorsement) { e.Kernel = "task" }), want: bcp.NotPermitted},
		"where nobody may":       {allow: func(m *bcp.Mesh) { m.EndorseTools = nil }, want: bcp.NotPermitted},
		"a channel too":          {change: signed(func(e *bcp.Endorsement) { e.Controller = "desk" }), want: bcp.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newEndorsing(t, nil)
			e := l.endorsement(slotMail)
			if c.allow != nil {
				l.allow(c.allow)
			}
			if c.as == "" {
				c.as = "ada"
			}
			d := l.send(c.as, e, c.change)
			failIf(t, d.Code != c.want || (d.Verdict == bcp.Accept) != (c.want == "") || (d.Endorsed == nil) != (c.want != ""),
				"%s, want %q", d.Code, c.want)
		})
	}
}

// What was endorsed makes no other call, none more, and none later: a person is asked.
//
// covers P7.9, A-ENDORSE
func TestEndorsementsMakeNoOtherCalls(t *testing.T) {
	t.Parallel()
	ask := func(when string, reads bool) func(*kernel.Definition) {
		return func(d *kernel.Definition) {
			d.Rules = []kernel.Rule{{ID: "words", Effect: kernel.Ask, Tool: "send_email", When: when, ReadsData: reads}}
		}
	}
	with := func(old, next string) string { return strings.Replace(slotMail, old, next, 1) }
	for name, c := range map[string]struct {
		edit func(*kernel.Definition)
		give func(*bcp.Endorsement)
		then func(*endorsing)
		plan string
		want bool
	}{
		"as it was endorsed":     {want: true},
		"somebody else":          {plan: with("ann@", "eve@")},
		"another tool":           {plan: with("send_email", "send_again")},
		"the last bit":           {give: func(e *bcp.Endorsement) { e.Bits = 2 }, want: true},
		"one bit too many":       {give: func(e *bcp.Endorsement) { e.Bits = 1 }},
		"content's words":        {plan: with(`{"ref":"slot","path":"slot"}`, `{"ref":"inbox","path":"latest.body"}`)},
		"just before its end":    {then: func(l *endorsing) { l.g.now = l.g.now.Add(30*time.Minute - 10*time.Second) }, want: true},
		"at its end":             {then: func(l *endorsing) { l.g.now = l.g.now.Add(30 * time.Minute) }},
		"revoked by nobody":      {then: func(l *endorsing) { l.revoke("kim", endorsementID) }, want: true},
		"its person may not":     {then: func(l *endorsing) { l.allow(func(m *bcp.Mesh) { m.EndorseTools = nil }) }},
		"fewer uses are allowed": {then: func(l *endorsing) { l.allow(func(m *bcp.Mesh) { m.EndorseTools[1].MaxUses = 1 }) }},
		"fewer bits are allowed": {then: func(l *endorsing) { l.allow(func(m *bcp.Mesh) { m.EndorseTools[1].MaxBits = 9 * bcp.Bit }) }},
		"less time is allowed":   {then: func(l *endorsing) { l.allow(func(m *bcp.Mesh) { m.EndorseTools[1].MaxTime = time.Minute }) }},
		"not given":              {give: func(e *bcp.Endorsement) { e.Spec = sha256.Sum256([]byte(`{"to":"eve@example.com"}`)) }},
		"content chose to whom":  {plan: with(`"ann@example.com"`, `{"ref":"slot","path":"slot"}`), give: func(e *bcp.Endorsement) { e.Spec = sha256.Sum256([]byte(`{"to":"mon"}`)) }},
		"a tool said to whom":    {plan: with(`"ann@example.com"`, `{"ref":"inbox","path":"latest.sender"}`), give: func(e *bcp.Endorsement) { e.Spec = sha256.Sum256([]byte(`{"to":"boss"}`)) }},
		"what nobody sees": {plan: with(`{"ref":"slot","path":"slot"}`, `{"ref":"inbox","path":"latest.body"}`), edit: func(d *kernel.Definition) {
			inbox := readInbox
			inbox.Output = mustType(shape("latest:" + shape("sender:string", `body:{"type":"sealed","maxLength":20}`)))
			d.Tools[0] = inbox
			d.Tools[2].Input = mustType(shape(`to:{"type":"string","maxLength":40,"critical":true}`, `body:{"type":"string","maxLength":20,"accepts":"sealed"}`))
		}},
		"no critical argument":      {plan: with(`"tool":"send_email","args":{"to":"ann@example.com","body":{"ref":"slot","path":"slot"}}`, `"tool":"create_event","args":{"title":{"ref":"slot","path":"slot"}}`), give: func(e *bcp.Endorsement) { e.Tool, e.Spec = "create_event", sha256.Sum256([]byte(`{}`)) }},
		"a rule of its amount":      {edit: ask(`args.to.value == "ann@example.com"`, false)},
		"a rule of the requester":   {edit: ask(`requester.name == "kim"`, false)},
		"a rule of the task":        {edit: ask(`!task.mentions(args.to)`, false)},
		"a rule of the grant":       {edit: ask(`run.depth == 0`, false)},
		"a rule that reads content": {edit: ask(`args.body.tainted`, true)},
		"a rule of influence":       {edit: ask(`args.body.influence < 3 || control.tainted`, false), want: true},
		"two rules, one of more": {edit: func(d *kernel.Definition) {
			ask("args.body.tainted", false)(d)
			d.Rules = append(d.Rules, kernel.Rule{ID: "kim", Effect: kernel.Ask, Tool: "send_email", When: `requester.name == "kim"`})
		}},
		"a Controller's task that was told": {then: func(l *endorsing) { l.g.task = kernel.Told(1) }},
		"a branch that content took": {plan: `{"steps":[{"kind":"tool","id":"inbox","tool":"read_inbox","args":{}},{"kind":"q_parse","id":"slot","source":{"ref":"inbox","path":"latest.body"},"schema_ref":"Slot","instruction":"When?"},
{"kind":"when","id":"w","on":{"ref":"slot","path":"urgent"},"cases":{"true":[{"kind":"tool","id":"send","tool":"send_email","args":{"to":"ann@example.com","body":"now"}}],"false":[]}}],"final":"w"}`,
			edit: func(d *kernel.Definition) { d.Limits.ControlBits = 16 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := newEndorsing(t, nil)
			e := plain.endorsement(slotMail)
			l := newEndorsing(t, c.edit)
			if c.give != nil {
				c.give(&e)
			}
			e.Until = l.g.now.Add(30 * time.Minute).Truncate(time.Second)
			d := l.send("ada", e, nil)
			stopIf(t, d.Verdict != bcp.Accept, "it is not taken: %s", d.Code)
			if c.then != nil {
				c.then(l)
			}
			if c.plan == "" {
				c.plan = slotMail
			}
			expect(t, l.made(c.plan), c.want, "made")
		})
	}
}

// What a rule forbids no endorsement makes, and a call that was endorsed and may have been
// made waits for a person like any other.
//
// covers P7.9, P7.3
func TestEndorsedCallInDoubt(t *testing.T) {
	t.Parallel()
	forbid := kernel.Rule{ID: "never", Effect: kernel.Forbid, Tool: "send_email", When: `args.to.value == "ann@example.com"`}
	l := newEndorsing(t, nil)
	e := l.endorsement(slotMail)
	l = newEndorsing(t, func(d *kernel.Definition) { d.Rules = append(d.Rules, forbid) })
	e.Until = l.g.now.Add(time.Minute).Truncate(time.Second)
	l.send("ada", e, nil)
	if c := l.run(slotMail); c.End == nil || c.End.Code != kernel.Forbidden || c.Endorsed != nil {
		t.Errorf("what is forbidden ends %+v", c.End)
	}
	l = newEndorsing(t, nil)
	l.give(nil)
	c := l.run(slotMail)
	l.g.hears("", "")
	doubt := l.g.store(l.g.state.DecideRestart(l.g.moment(), c.Wait.ID))
	l.record(doubt, "", "")
	stopIf(t, doubt.Wait == nil || doubt.Wait.Kind != kernel.WaitDoubt || doubt.Endorsed != nil, "it waits as %+v", doubt.Wait)
	view, _ := l.state.View("ada", bcp.ItemID(doubt.Wait.ID))
	_, why := bcp.EndorsementOf(&view, endorsementID)
	failIf(t, why == "" || view.Endorse != nil, "a doubt may be endorsed")
	again := l.g.store(l.g.state.DecidePerson(l.g.moment(), doubt.Wait.ID, kernel.NotDone, nil))
	l.record(again, "ada", "body")
	if sent := l.g.state.Releases(&again); again.Endorsed != nil || len(sent) != 1 || !sent[0].Allowed(l.g.kernels[0].Gate()) {
		t.Errorf("what was not done is sent again as %+v", again.Wait)
	}
}

// A journal that counts otherwise, or uses what was not given, is refused.
//
// covers P7.9, P11.1, A-CHAIN
func TestJournalsThatCountEndorsementsOtherwise(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bcp.Decision){
		"a use left":        func(d *bcp.Decision) { d.Endorsed.Uses++ },
		"a use fewer":       func(d *bcp.Decision) { d.Endorsed.Uses-- },
		"bits that it lost": func(d *bcp.Decision) { d.Endorsed.Bits = 11 * bcp.Bit },
		"bits below none":   func(d *bcp.Decision) { d.Endorsed.Bits = -1 },
		"another one":       func(d *bcp.Decision) { d.Endorsed.ID += "x" },
		"none":              func(d *bcp.Decision) { d.Endorsed = nil },
		"another kernel":    func(d *bcp.Decision) { d.Run.Kernel = "task" },
		"later":             func(d *bcp.Decision) { d.Time += int64(time.Hour) },
	} {
		l := newEndorsing(t, nil)
		l.give(nil)
		l.run(slotMail)
		whole := l.records
		l.records = whole[:len(whole)-1]
		s := l.replay(l.config, false)
		d, err := bcp.DecodeDecision(whole[len(whole)-1])
		if err == nil {
			err = d.Open(l.key)
		}
		stopIf(t, err != nil || d.Endorsed == nil, "%v: %+v", err, d.Endorsed)
		change(&d)
		failIf(t, s.Apply(&d, bcp.RecordDigest(whole[len(whole)-1])) == nil, "%s: it is applied", name)
	}
}

// Random histories: calls without a person are those that a list with counters says.
//
// covers P7.9, A-ENDORSE
func TestEndorsedCallsAgreeWithAList(t *testing.T) {
	t.Parallel()
	first := newEndorsing(t, nil)
	ann := first.endorsement(slotMail)
	rapid.Check(t, func(r *rapid.T) {
		type one struct {
			id         bcp.EndorsementID
			to         string
			uses, bits int
			until      time.Time
		}
		l, given := newEndorsing(t, nil), []*one{}
		known := func(id bcp.EndorsementID) *one { // while it is remembered
			for _, g := range given {
				if g.id == id {
					return g
				}
			}
			return nil
		}
		for range rapid.IntRange(3, 12).Draw(r, "steps") {
			id, to := bcp.EndorsementID(fmt.Sprintf("e%019d", rapid.IntRange(1, 4).Draw(r, "id"))), rapid.SampledFrom([]string{"ann", "eve"}).Draw(r, "to")
			switch rapid.SampledFrom([]string{"give", "give", "call", "call", "call", "revoke", "wait", "restart"}).Draw(r, "act") {
			case "give":
				e := ann
				e.ID, e.Spec = id, sha256.Sum256([]byte(`{"to":"`+to+`@example.com"}`))
				e.Uses, e.Bits, e.Until = rapid.IntRange(1, 4).Draw(r, "uses"), rapid.IntRange(1, 11).Draw(r, "bits"), l.g.now.Add(time.Duration(rapid.IntRange(0, 61).Draw(r, "minutes"))*time.Minute)
				want := known(id) == nil && e.Uses <= 3 && e.Bits <= 10 && e.Until.After(l.g.now) && !e.Until.After(l.g.now.Add(time.Hour))
				d := l.send("ada", e, nil)
				stopIf(t, (d.Verdict == bcp.Accept) != want, "%s: %+v", d.Code, e)
				if want {
					given = slices.DeleteFunc(given, func(g *one) bool { return !g.until.After(l.g.now) })
					given = append(given, &one{id, to, e.Uses, e.Bits, e.Until})
				}
			case "revoke":
				g := known(id)
				stopIf(t, (l.revoke("cyd", id).Verdict == bcp.Accept) != (g != nil && g.uses > 0), "revoked %+v", g)
				if g != nil {
					g.uses = 0
				}
			case "wait":
				l.g.now = l.g.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "minutes")) * time.Minute)
			case "restart":
				l.open(l.config)
			case "call":
				bits, plan := 2, slotMail
				if rapid.Bool().Draw(r, "wide") {
					bits, plan = 1<<30, strings.Replace(plan, `{"ref":"slot","path":"slot"}`, `{"ref":"inbox","path":"latest.body"}`, 1)
				}
				made, want := l.made(strings.Replace(plan, "ann@", to+"@", 1)), false
				for _, g := range given {
					if g.to == to && g.uses > 0 && g.bits >= bits && g.until.After(l.decided) && !want {
						g.uses, g.bits, want = g.uses-1, g.bits-bits, true
					}
				}
				stopIf(t, made != want, "a call to %s of %d bits: made %v, want %v", to, bits, made, want)
			}
		}
	})
}
