package kernel_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// seal is how the people of these tests sign: it holds for one statement of one key.
func seal(key string, statement []byte) []byte {
	sum := sha256.Sum256(append([]byte(key), statement...))
	return sum[:]
}

// peopleLedger is a journal with a kernel whose calls of send_email kim decides about.
func peopleLedger(t *testing.T) *ledger {
	t.Helper()
	ask := kernel.Rule{ID: "ask-first", Effect: kernel.Ask, Tool: "send_email", When: "true"}
	return signedLedger(t, mustKernel(t, func(d *kernel.Definition) {
		d.Approvers, d.Rules, d.UntestedRules = []bcp.AgentName{"ada", "bob"}, []kernel.Rule{ask}, true
	}))
}

// signedLedger is a journal with a kernel, and with approvers whose signatures are seals.
func signedLedger(t *testing.T, k *kernel.Kernel) *ledger {
	t.Helper()
	l := newLedger(t)
	l.g = newGateway(t, k)
	l.config.Mesh = &bcp.Mesh{Agents: []bcp.Agent{{Name: "bob"}}, Compiled: []*kernel.Kernel{k}}
	l.config.Verify = func(key string, statement, signature []byte) bool {
		return string(signature) == string(seal(key, statement))
	}
	l.state = must(state.New(l.config))
	return l
}

// sending brings a run of kim's to its call of send_email.
func (l *ledger) sending() bcp.Item {
	l.t.Helper()
	l.g.begin("all")
	l.g.plan(mailPlan, mail)
	l.g.answer(`{"text":"meeting at 3pm"}`, "")
	l.catchUp()
	items := l.state.Items()
	stopIf(l.t, len(items) != 1, "%d items wait", len(items))
	l.checkHeld(items...)
	return items[0]
}

// checkHeld compares what waits for people, as metrics count it.
func (l *ledger) checkHeld(items ...bcp.Item) {
	l.t.Helper()
	want := map[state.HeldKey]state.HeldSnapshot{}
	for _, it := range items {
		want[state.HeldKey{ChannelKey: bcp.ChannelKey{Controller: it.Controller}, Kind: it.Kind}] = state.HeldSnapshot{Items: 1, Oldest: it.Since}
	}
	diff := cmp.Diff(want, l.state.Snapshot(l.g.now).Held)
	failIf(l.t, diff != "", "held: -want +got:\n%s", diff)
}

func (l *ledger) moment() bcp.Moment {
	return bcp.Moment{Now: l.g.now.Add(time.Second), Fresh: fmt.Sprintf("%024d", 900+len(l.records)), Salt: [16]byte{7, byte(len(l.records))}}
}

// approval is a signed act about bytes.
func approval(it bcp.Item, act bcp.Act, content []byte, change func(*bcp.Approval)) []byte {
	a := bcp.Approval{Item: it.ID, SHA256: sha256.Sum256(content), Expires: it.Deadline.Truncate(time.Second)}
	switch act {
	case bcp.RejectItem:
		a.Reason = string(content)
	case bcp.EditItem:
		a.Response = jsontext.Value(content)
	}
	if change != nil {
		change(&a)
	}
	if a.Signature == "" {
		a.Signature = base64.StdEncoding.EncodeToString(seal("key", bcp.Statement(a.Item, act, a.SHA256, a.Expires)))
	}
	return must(json.Marshal(a))
}

// store records a decision and applies it.
func (l *ledger) store(d bcp.Decision) {
	l.t.Helper()
	if d.Says() {
		noError(l.t, d.Seal(l.key))
	}
	record := must(bcp.EncodeDecision(&d))
	l.records = append(l.records, record)
	noError(l.t, l.state.Apply(&d, bcp.RecordDigest(record)))
}

// A call that a rule asks about is made once a person has signed for exactly it, and the
// person sees where each argument comes from.
//
// covers P7.3, DUAL-20
func TestPersonLetsACallThrough(t *testing.T) {
	t.Parallel()
	l := peopleLedger(t)
	it := l.sending()
	failIf(t, it.Kind != bcp.ItemEffect || it.Controller != "desk" || it.Reader != "mail" || it.Taint != bcp.TaintHigh,
		"the item is %+v", it)
	view, code := l.state.View("ada", it.ID)
	stopIf(t, code != "", "%v", code)
	e := view.Effect
	if e == nil || e.Tool != "send_email" || e.Requester != "kim" || fmt.Sprint(e.Rules) != "[ask-first]" || e.Changed ||
		fmt.Sprint(e.Arguments) != "[{body false true false 8106 false} {to false false false 0 false}]" {
		t.Errorf("it shows %+v", e)
	}
	failIf(t, !strings.Contains(string(view.Content), `"args":{"body":"meeting at 3pm","to":"kim@example.com"}`) || view.SHA256 != sha256.Sum256(view.Content),
		"the content is %s", view.Content)
	d := l.state.DecideApproval(l.moment(), "ada", bcp.Sender{Key: "key"}, bcp.Approve, approval(it, bcp.Approve, view.Content, nil))
	stopIf(t, d.Verdict != bcp.Accept || d.Kind != bcp.KindStep || d.Run.From != "ada" || d.Role != bcp.RoleApprover || d.Item != it.ID || len(d.Signature) == 0,
		"it was decided as %+v", d)
	c, err := kernel.ReadRecord(&d)
	stopIf(t, err != nil || c.Wait == nil || c.Wait.Kind != kernel.WaitTool || !c.Wait.Approved, "the change is %+v, %v", c, err)
	l.store(d)
	expect(t, len(l.state.Items()), 0, "it still waits")
	l.checkHeld()
	again := l.state.DecideApproval(l.moment(), "ada", bcp.Sender{Key: "key"}, bcp.Approve, approval(it, bcp.Approve, view.Content, nil))
	failIf(t, again.Verdict != bcp.Reject || again.Code != bcp.AlreadyDecided,
		"approved again it is %s %s", again.Verdict, again.Code)
	made := checkpoint(t, l.replay(l.config, false))
	failIf(t, string(made) != string(checkpoint(t, l.state)), "the records give another state")
}

// Nothing but the signature of an approver for exactly this call, in time, lets it
// through: each other message changes nothing.
//
// covers P7.3, P10
func TestApprovalsOfCallsAreRefused(t *testing.T) {
	t.Parallel()
	l := peopleLedger(t)
	it := l.sending()
	view, _ := l.state.View("ada", it.ID)
	other := []byte(strings.Replace(string(view.Content), "kim@example.com", "eve@example.com", 1))
	good := func() []byte { return approval(it, bcp.Approve, view.Content, nil) }
	before := checkpoint(t, l.state)
	for name, c := range map[string]struct {
		who  bcp.AgentName
		key  string
		act  bcp.Act
		body []byte
		code bcp.Code
	}{
		"another call":       {"ada", "key", bcp.Approve, approval(it, bcp.Approve, other, nil), bcp.DigestMismatch},
		"no approver":        {"kim", "key", bcp.Approve, good(), bcp.NotPermitted},
		"an agent":           {"bob", "key", bcp.Approve, good(), bcp.NotPermitted},
		"signed for another": {"ada", "key", bcp.RejectItem, good(), bcp.DigestMismatch},
		"an edit":            {"ada", "key", bcp.EditItem, approval(it, bcp.EditItem, []byte(`{"result":{"ok":true,"message_id":"x"}}`), nil), bcp.Malformed},
		"a response":         {"ada", "key", bcp.Approve, approval(it, bcp.Approve, view.Content, func(a *bcp.Approval) { a.Response = jsontext.Value(`{}`) }), bcp.Malformed},
	} {
		d := l.state.DecideApproval(l.moment(), c.who, bcp.Sender{Key: c.key}, c.act, c.body)
		failIf(t, d.Verdict != bcp.Reject || d.Code != c.code || d.Run != nil, "%s: %s %s", name, d.Verdict, d.Code)
	}
	expect(t, string(before), string(checkpoint(t, l.state)), "a refusal changes the state")
	_, code := l.state.View("kim", it.ID)
	failIf(t, code != bcp.NotPermitted, "who may not decide sees it: %s", code)
	_, code = l.state.View("bob", it.ID)
	failIf(t, code != bcp.NotPermitted, "an agent that is called like an approver sees it: %s", code)
	n := len(l.state.ItemsFor("ada"))
	failIf(t, n != 1 || len(l.state.ItemsFor("kim")) != 0, "%d items wait for ada", n)
}

// A person who says no ends the run; one whom nobody asked in time did, too.
//
// covers P7.3
func TestCallIsRefused(t *testing.T) {
	t.Parallel()
	l := peopleLedger(t)
	it := l.sending()
	d := l.state.DecideApproval(l.moment(), "ada", bcp.Sender{Key: "key"}, bcp.RejectItem, approval(it, bcp.RejectItem, []byte("Not to her."), nil))
	c, err := kernel.ReadRecord(&d)
	stopIf(t, err != nil || c.End == nil || c.End.Status != kernel.Blocked || c.End.Code != kernel.ApprovalRejected || d.Note != "Not to her.",
		"%+v, %v", d, err)
	late := l.moment()
	late.Now = it.Deadline
	d = l.state.DecideApproval(late, "ada", bcp.Sender{Key: "key"}, bcp.RejectItem, approval(it, bcp.RejectItem, []byte("No."), nil))
	failIf(t, d.Code != bcp.ItemExpired, "at the deadline: %s", d.Code)
	runs := l.state.Runs()
	due, ok := runs.DecideDue(late)
	stopIf(t, !ok || due.End == nil || due.End.Code != kernel.ApprovalExpired, "%+v", due)
	l.g.now = late.Now
	l.record(due, "", "")
	d = l.state.DecideApproval(late, "ada", bcp.Sender{Key: "key"}, bcp.RejectItem, approval(it, bcp.RejectItem, []byte("No."), nil))
	failIf(t, d.Code != bcp.ItemExpired, "behind it: %s", d.Code)
}

// Of a call that may have been made a person says that it was not, and it is sent again;
// that it was, with a result that fits its tool; or that nobody knows.
//
// covers DUAL-20
func TestCallInDoubt(t *testing.T) {
	t.Parallel()
	doubtful := func() (*ledger, bcp.Item) {
		l := signedLedger(t, mustKernel(t, func(d *kernel.Definition) { d.Approvers = []bcp.AgentName{"ada"} }))
		l.g.begin("all")
		l.g.plan(mailPlan, mail)
		l.g.answer(`{"text":"meeting at 3pm"}`, "")
		l.g.store(l.g.state.DecideRestart(l.g.moment(), l.g.state.Unanswered()[0]))
		l.catchUp()
		items := l.state.Items()
		stopIf(t, len(items) != 1 || items[0].Kind != bcp.ItemInDoubt, "%+v wait", items)
		l.checkHeld(items[0])
		return l, items[0]
	}
	l, it := doubtful()
	view, code := l.state.View("ada", it.ID)
	stopIf(t, code != "" || view.Effect.Attempt != 1 || len(view.Effect.Result) == 0, "%s, %+v", code, view.Effect)
	for name, c := range map[string]struct {
		act     bcp.Act
		content []byte
		code    bcp.Code
		check   func(kernel.Change) bool
	}{
		"not done": {bcp.Approve, view.Content, "", func(c kernel.Change) bool {
			return c.Wait != nil && c.Wait.Kind == kernel.WaitTool && c.Wait.Attempt == 2
		}},
		"done":           {bcp.EditItem, []byte(`{"result":{"message_id":"m1","ok":true}}`), "", func(c kernel.Change) bool { return c.End != nil && c.End.Status == kernel.Committed }},
		"nobody knows":   {bcp.RejectItem, []byte("Nobody knows."), "", func(c kernel.Change) bool { return c.End != nil && c.End.Status == kernel.Doubted }},
		"another result": {bcp.EditItem, []byte(`{"result":{"ok":true}}`), bcp.Malformed, nil},
		"no result":      {bcp.EditItem, []byte(`{"result":null}`), bcp.Malformed, nil},
		"more":           {bcp.EditItem, []byte(`{"more":1,"result":{"message_id":"m1","ok":true}}`), bcp.Malformed, nil},
	} {
		l, it := doubtful()
		content := c.content
		if c.act == bcp.Approve {
			v, _ := l.state.View("ada", it.ID)
			content = v.Content
		}
		d := l.state.DecideApproval(l.moment(), "ada", bcp.Sender{Key: "key"}, c.act, approval(it, c.act, content, nil))
		if d.Code != c.code {
			t.Errorf("%s: %s %s", name, d.Verdict, d.Code)
			continue
		}
		if c.check == nil {
			continue
		}
		change, err := kernel.ReadRecord(&d)
		failIf(t, err != nil || !c.check(change), "%s: %+v, %v", name, change, err)
	}
	preview, refused := l.state.Preview("ada", []byte(`{"item_id":"`+string(it.ID)+`","response":{"result":{"ok":true, "message_id":"m1"}}}`))
	failIf(t, refused.Error != "" || string(preview.Content) != `{"result":{"message_id":"m1","ok":true}}`,
		"%+v, %s", refused, preview.Content)
	_, refused = l.state.Preview("eve", []byte(`{"item_id":"`+string(it.ID)+`","response":{"result":{"ok":true, "message_id":"m1"}}}`))
	failIf(t, refused.Error != bcp.NotPermitted, "who may not decide hears %+v", refused)
}
